"""Decompositions under their older names and of general matrices, judged by residual ratios."""

import numpy

from golden import Case, Out, conditioned
from golden import numpy_ad as np
from golden.ops.linalg._matrix import transpose
from golden.ops.linalg._nan import demand_nan, nothing_but_nan
from golden.ops.linalg.linalg import MODES, VALUES, items, matrices, none, others, product, square
from golden.table import Table

table = Table(tolerance=conditioned(why="residual ratios"), modes=MODES, differentiable=())
operators = table.operators


def residual(schema, reference, count, cases):
    return table.add(schema, reference, none(count), cases)


def qr(self, some=True):
    m, n = self.shape[-2:]
    k, batch = min(m, n) if some else m, self.shape[:-2]
    rows = items(product("A - QR", "in:self", ["out:0", "out:1"], "in:self"), {"name": "I - Q^T Q", "orthonormal": "out:0"}, {"name": "R", "structure": "upper", "of": "out:1"})
    return Out(shape=(*batch, m, k), residual=rows), *others((*batch, k, n))


def svd(self, some=True, compute_uv=True):
    """V itself, not its transpose."""
    m, n = self.shape[-2:]
    k, batch = min(m, n), self.shape[:-2]
    rows = items(product("A - U S V^T", "in:self", ["out:0", "diag:out:1", "out:2^H"], "in:self"), {"name": "I - U^T U", "orthonormal": "out:0"}, {"name": "I - V^T V", "orthonormal": "out:2"},
                 {"name": "S", "structure": "descending", "of": "out:1"}, {"name": "S", "structure": "nonnegative", "of": "out:1"})
    return Out(shape=(*batch, m, k if some else m), residual=rows), *others((*batch, k), (*batch, n, k if some else n))


residual("qr", qr, 2, lambda draw: [Case(f"{label}_some{int(some)}", self=a, some=some, source=source) for label, a, source in matrices(draw) for some in (True, False)])
older = residual("svd", svd, 3, lambda draw: [Case(f"{label}_some{int(some)}", self=a, some=some, source=source) for label, a, source in matrices(draw) for some in (True, False)])


def eig(self):
    """Of a general matrix: complex, in any order. Vectors that are all 0 would solve A V = V W too: the normal matrices' must be orthonormal."""
    n, batch = self.shape[-1], self.shape[:-2]
    rows = [{"name": "A V - V W", "left": ["in:self", "out:1"], "right": ["out:1", "diag:out:0"], "over": ["in:self"]}]
    a = np.floats(self)
    if numpy.array_equal(a @ transpose(a), transpose(a) @ a):
        rows.append({"name": "I - V^H V", "orthonormal": "out:1"})  # a normal matrix with distinct eigenvalues
    return Out(shape=(*batch, n), residual=items(*rows), dtype="complex_tested"), Out(shape=(*batch, n, n), unchecked="judged by output 0's residuals")


def general(draw):
    for shape in ((1, 1), (2, 2), (5, 5), (3, 3, 3), (17, 17)):
        yield "s" + "x".join(map(str, shape)), draw.normal(*shape)
    yield "circulant", numpy.array([[1.0, 2.0, 4.5], [4.5, 1.0, 2.0], [2.0, 4.5, 1.0]])
    yield "symmetric", numpy.diag([1.0, 5.0, -4.0]) + 0.5
    yield "batch_of_rotations", numpy.array([[[0.0, -1.0], [1.0, 0.0]], [[3.0, 2.0], [-2.0, 3.0]]])
    yield "rotation", numpy.array([[0.0, -1.0], [1.0, 0.0]])
    yield "heavy", square(draw, 4, 4)


pairs_of = residual("linalg_eig", eig, 2, lambda draw: [Case(label, self=a) for label, a in general(draw)])

# Eigenvalues alone come in no order that ATen promises. A conjugate pair's is LAPACK's: the positive imaginary part first.


def conjugates(self):
    """Of 2x2 matrices with a conjugate pair: (a + d) / 2 +- i sqrt(-bc - (a - d)^2 / 4)."""
    a, b, c, d = (self[..., i, j] for i in (0, 1) for j in (0, 1))
    real, half = (a + d) / 2, (a - d) / 2
    imaginary = np.sqrt(-b * c - half * half)
    return Out(np.stack([np.stack([real, imaginary], axis=-1), np.stack([real, -imaginary], axis=-1)], axis=-2), complex=True)


def conjugates_second(self):
    values = numpy.linalg.eigvals(self)
    values = numpy.take_along_axis(values, numpy.argsort(-values.imag, axis=-1), -1)
    return numpy.stack([values.real, values.imag], axis=-1)


def pairs(draw):
    """Off the diagonal 2 and -1.5 or so: a pair well apart from the real axis. In batches: references see no single matrix."""
    for count in (1, 3, 17):
        a = draw.uniform(-0.25, 0.25, count, 2, 2) + numpy.array([[0.0, 2.0], [-1.5, 0.0]])
        yield Case(f"s{count}x2x2", self=numpy.float32(a).astype(float))
    yield Case("turns", self=numpy.array([[[0.0, -1.0], [1.0, 0.0]], [[3.0, 2.0], [-2.0, 3.0]]]), note="i and -i; 3 + 2i and 3 - 2i")


values = Table(tolerance=VALUES, modes=MODES)
eigvals = values.add("linalg_eigvals", conjugates, conjugates_second, pairs)
operators.extend(values.operators)


@eigvals.scale
def eigvals_scale(outputs, self):
    """Bauer and Fike: the condition of the vectors times |A|."""
    _, v = numpy.linalg.eig(self)
    bound = numpy.linalg.cond(v) * numpy.sqrt((self**2).sum((-2, -1)))
    return numpy.broadcast_to(bound[..., None, None], outputs[0].shape) * 1.0


demand_nan(older, "self", lambda n: [nothing_but_nan(s) for s in ((n, n), (n,), (n, n))])
demand_nan(pairs_of, "self", lambda n: [nothing_but_nan(s, complex=True) for s in ((n,), (n, n))])
# MKL's geev writes past its buffers when it is given a NaN (pytorch#93124): once, in the dtype where that ends the process at once.
demand_nan(eigvals, "self", lambda n: [nothing_but_nan((n,), complex=True)], sizes=(3,), places=("beside",), dtypes=("float32",))
