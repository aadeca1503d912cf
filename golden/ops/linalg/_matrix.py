"""Linear algebra on balls: Arb's enclosures of solutions, inverses, determinants and eigenvalues, for the last two axes of a batch."""

import numpy
from flint import acb_mat, arb, arb_mat

from golden import numpy_ad as np


def each(function, *arrays):
    """`function` of the matrices of a batch (arb_mat or numbers in, arb_mat or list out), stacked."""
    arrays = [numpy.asarray(a) for a in arrays]
    batch = numpy.broadcast_shapes(*(a.shape[:-2] for a in arrays))
    wide = [numpy.broadcast_to(a, (*batch, *a.shape[-2:])) for a in arrays]
    out = []
    for i in numpy.ndindex(*batch):
        result = function(*(arb_mat(w[i].tolist()) for w in wide))
        rows = result.tolist() if isinstance(result, arb_mat) else result
        one = numpy.empty((len(rows), len(rows[0])) if isinstance(rows[0], list) else (len(rows),), dtype=object)
        for k in numpy.ndindex(*one.shape):
            one[k] = rows[k[0]][k[1]] if len(k) == 2 else rows[k[0]]
        out.append(one)
    return numpy.stack(out).reshape(*batch, *out[0].shape)


def solve(a, b):
    return each(lambda m, r: m.solve(r), a, b)


def inverse(a):
    return each(lambda m: m.inv(), a)


def transpose(a):
    return numpy.swapaxes(a, -1, -2)


def eigenvalues(a):
    """Of symmetric matrices, ascending: real parts of Arb's enclosures."""
    def one(m):
        try:
            values = acb_mat(m).eig()
        except ValueError:  # equal or very close ones: Arb encloses the cluster
            values = acb_mat(m).eig(multiple=True)
        return [v.real for v in sorted(values, key=lambda v: float(v.real))]

    return each(one, a)


def singular_values(a):
    """Descending: square roots of the eigenvalues of the smaller of A^T A and A A^T."""
    a = np.value(a)
    gram = numpy.matmul(transpose(a), a) if a.shape[-2] >= a.shape[-1] else numpy.matmul(a, transpose(a))
    values = eigenvalues(gram)[..., ::-1]
    return np.elementwise(lambda v: arb(max(arb(0), v) if v.contains(0) else v).sqrt(), values)
