"""Linear algebra on balls: Arb's enclosures of solutions, inverses, determinants and eigenvalues, for the last two axes of a batch."""

import numpy
from autograd.extend import defvjp, primitive
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


@primitive
def inv(a):
    """The inverse, differentiable to any order."""
    return inverse(a)


defvjp(inv, lambda x, _a: lambda g: -np.matmul(np.matmul(flipped(x), g), flipped(x)))


def flipped(a):
    """The transpose of the last two axes, differentiable."""
    return np.swapaxes(a, -1, -2)


def half(shape, upper, unit=False):
    """1 on the triangle that counts (without the diagonal, where that is taken for 1), 0 elsewhere."""
    return (numpy.triu if upper else numpy.tril)(numpy.ones(shape[-2:]), (1 if upper else -1) if unit else 0)


def batched(one, *arrays):
    """`one` of each matrix of a batch, stacked; a tuple of results gives a tuple of stacks. Differentiable."""
    batch = arrays[0].shape[:-2]
    if not batch:
        return one(*arrays)
    results = [one(*(a[i] for a in arrays)) for i in numpy.ndindex(*batch)]
    if not isinstance(results[0], tuple):
        return np.reshape(np.stack(results), (*batch, *results[0].shape))
    return tuple(np.reshape(np.stack(part), (*batch, *part[0].shape)) for part in zip(*results, strict=True))


def cholesky_factor(a):
    """L of A = L L^T, row by row, of the symmetric part: so the gradient is symmetric, as ATen's."""
    def one(m):
        m, rows = (m + flipped(m)) / 2, []
        n = m.shape[-1]
        for i in range(n):
            row = []
            for j in range(i):
                row.append((m[i : i + 1, j] - sum(row[k] * rows[j][k] for k in range(j))) / rows[j][j])
            row.append(np.sqrt(m[i : i + 1, i] - sum(v * v for v in row)))
            rows.append(row)
        zero = 0 * m[:1, 0]
        return np.stack([np.concatenate([*row, *[zero] * (n - len(row))]) for row in rows])

    return batched(one, a)


def elimination(a, pivot=True):
    """(order, L, U) with A[order] = L U by elimination; the pivot is the largest of its column. Decisions at the midpoints."""
    m, n = a.shape
    order, factors, rows = list(range(m)), [[] for _ in range(m)], [a[i] for i in range(m)]
    for k in range(min(m, n)):
        column = [abs(float(np.floats(rows[i])[k])) for i in range(k, m)]
        best = k + int(numpy.argmax(column)) if pivot else k
        for items in (order, factors, rows):
            items[k], items[best] = items[best], items[k]
        for i in range(k + 1, m):
            factor = rows[i][k : k + 1] / rows[k][k : k + 1]
            factors[i].append(factor)
            rows[i] = rows[i] - factor * rows[k]
    count = min(m, n)
    zero, one = 0 * a[0, :1], 0 * a[0, :1] + 1
    lower = np.stack([np.concatenate([*f, *([one] if i < count else []), *[zero] * (count - len(f) - (i < count))]) for i, f in enumerate(factors)])
    upper = np.stack([r * (numpy.arange(n) >= i) for i, r in enumerate(rows[:count])])
    return numpy.array(order), lower, upper


def swaps(order):
    """LAPACK's pivots: row k was exchanged with row pivots[k], counted from 1; int32."""
    rows, out = list(range(len(order))), []
    for k, want in enumerate(order):
        at = rows.index(want)
        rows[k], rows[at] = rows[at], rows[k]
        out.append(at + 1)
    return numpy.array(out, dtype=numpy.int32)
