"""Householder products, tensor equations, Vandermonde matrices, diagonals, the exponential's gradient, and ranks."""

import math

import numpy

from golden import Case, Out, conditioned, exact
from golden import numpy_ad as np
from golden.ops.linalg._matrix import batched, flipped, inv
from golden.table import Table

MODES = ("layouts", "deterministic", "threads")
table = Table(tolerance=conditioned(float32=64, float64=64, why="docs/numerics.md#linalg"), modes=MODES)
add, operators = table.add, table.operators


def reflectors(v, tau):
    """The product of I - tau_k v_k v_k^T, v_k the k-th column below its implied 1; of one matrix, all m columns."""
    m = v.shape[0]
    out = np.balls(numpy.eye(m))
    for k in range(tau.shape[-1]):
        mask = (numpy.arange(m) > k) * 1.0
        column = np.reshape(v[:, k] * mask + (numpy.arange(m) == k), (m, 1))
        out = out - np.matmul(np.matmul(out, column), flipped(column)) * tau[k : k + 1]
    return out


def householder(input, tau):
    return batched(lambda v, t: reflectors(v, t)[:, : v.shape[1]], input, tau)


def plain_reflectors(v, tau):
    """The second formula: the reflectors applied to the identity from the last to the first."""
    m = v.shape[0]
    out = numpy.eye(m)
    for k in reversed(range(tau.size)):
        w = numpy.concatenate([numpy.zeros(k), [1.0], v[k + 1 :, k]])
        out -= tau[k] * numpy.outer(w, w @ out)
    return out


def householder_second(input, tau):
    return numpy.stack([plain_reflectors(input[i], tau[i])[:, : input.shape[-1]] for i in numpy.ndindex(*input.shape[:-2])]).reshape(input.shape)


REFLECTED = (((1, 1), 1), ((3, 3), 3), ((5, 3), 3), ((4, 3), 2), ((2, 3, 2), 2), ((17, 2), 2))


def label(shape):
    return f"s{'x'.join(map(str, shape))}"


add("linalg_householder_product", householder, householder_second,
    lambda draw: [Case(f"{label(s)}_k{k}", args={"input": draw.normal(*s), "tau": draw.uniform(0.25, 1.75, *s[:-2], k)}) for s, k in REFLECTED],
    zero_gradient="no element below an implied 1")


def ormqr(self, input2, input3, left=True, transpose=False):
    """The full orthogonal matrix of geqrf's factors times a matrix."""
    def one(v, tau, c):
        q = reflectors(v, tau)
        q = flipped(q) if transpose else q
        return np.matmul(q, c) if left else np.matmul(c, q)

    return batched(one, self, input2, input3)


def ormqr_second(self, input2, input3, left=True, transpose=False):
    out = []
    for i in numpy.ndindex(*self.shape[:-2]):
        q = plain_reflectors(self[i], input2[i])
        q = q.T if transpose else q
        out.append(q @ input3[i] if left else input3[i] @ q)
    return numpy.stack(out).reshape(*self.shape[:-2], *out[0].shape)


def ormqr_cases(draw):
    for shape in ((3, 3), (4, 2), (2, 3, 2)):
        for left in (True, False):
            for transpose in (False, True):
                m, batch = shape[-2], shape[:-2]
                yield Case(f"{label(shape)}_left{int(left)}_t{int(transpose)}", self=draw.normal(*shape), input2=draw.uniform(0.25, 1.75, *batch, shape[-1]),
                           input3=draw.normal(*batch, m, 2) if left else draw.normal(*batch, 2, m), left=left, transpose=transpose)


add("ormqr", ormqr, ormqr_second, ormqr_cases)

# Tensor equations -----------------------------------------------------------------------------------------------------------------------------


def tensorinv(self, ind=2):
    rows = math.prod(self.shape[:ind])
    return np.reshape(inv(np.reshape(self, (rows, rows))), (*self.shape[ind:], *self.shape[:ind]))


def tensorsolve(self, other, dims=None):
    if dims is not None:
        self = np.transpose(self, (*(a for a in range(self.ndim) if a not in dims), *dims))
    shape = self.shape[other.ndim :]
    return np.reshape(np.matmul(inv(np.reshape(self, (other.size, other.size))), np.reshape(other, (-1, 1))), shape)


def equation(draw, *shape):
    n = math.isqrt(math.prod(shape))
    return (draw.normal(n, n) + 3 * numpy.eye(n)).reshape(shape)


add("linalg_tensorinv", tensorinv, lambda self, ind=2: numpy.linalg.tensorinv(self, ind),
    lambda draw: [Case(f"{label(s)}_ind{k}", self=equation(draw, *s), ind=k) for s, k in (((2, 2, 4), 2), ((4, 2, 2), 1), ((1, 3, 3), 2), ((2, 2, 2, 2), 2))])
add("linalg_tensorsolve", tensorsolve, lambda self, other, dims=None: numpy.linalg.tensorsolve(self, other, dims),
    lambda draw: [Case(label(s), self=equation(draw, *s), other=draw.normal(*o)) for s, o in (((2, 2, 4), (2, 2)), ((4, 2, 2), (4,)), ((2, 2, 2, 2), (2, 2)))] + [Case("dims", self=equation(draw, 2, 4, 2), other=draw.normal(2, 2), dims=(1,))])


def vander(x, N=None):
    powers = [x * 0 + 1]
    for _ in range((x.shape[-1] if N is None else N) - 1):
        powers.append(powers[-1] * x)
    return np.stack(powers, axis=-1)


add("linalg_vander", vander, lambda x, N=None: numpy.stack([x**k for k in range(x.shape[-1] if N is None else N)], axis=-1),
    lambda draw: [Case(f"{label(s)}_n{n or 'default'}", x=draw.normal(*s), N=n) for s, n in (((2,), None), ((4,), None), ((3,), 5), ((4,), 2), ((2, 3), 4))] + [Case("zero", x=numpy.array([0.0, 2.0, -1.0]), note="0 to the power 0 is 1")])


def diagonal(A, offset=0, dim1=-2, dim2=-1):
    rows, columns = A.shape[dim1], A.shape[dim2]
    k = numpy.arange(max(0, min(rows + min(offset, 0), columns - max(offset, 0))))
    return np.moveaxis(A, (dim1, dim2), (-2, -1))[..., k - min(offset, 0), k + max(offset, 0)]


add("linalg_diagonal", diagonal, lambda A, offset=0, dim1=-2, dim2=-1: numpy.diagonal(A, offset, dim1, dim2),
    lambda draw: [Case(f"{label(s)}_o{str(o).replace('-', 'm')}", A=draw.normal(*s), offset=o) for s, o in (((3, 3), 0), ((3, 5), 1), ((5, 3), -2), ((2, 3, 4), 1))] + [Case("dims", A=draw.normal(2, 3, 4), offset=1, dim1=0, dim2=2)],
    tolerance=exact(), plain=True, scale="multilinear")


def cross(self, other, dim=None):
    d = next(a for a, n in enumerate(self.shape) if n == 3) if dim is None else dim
    a, b = (np.moveaxis(x, d, 0) for x in (self, other))
    return np.moveaxis(np.stack([a[1] * b[2] - a[2] * b[1], a[2] * b[0] - a[0] * b[2], a[0] * b[1] - a[1] * b[0]]), 0, d)


def first_three(self, other, dim=None):
    d = self.shape.index(3) if dim is None else dim
    return numpy.cross(self, other, axis=d)


add("cross", cross, first_three, lambda draw: [Case(f"{label(s)}_{d}".lower(), self=draw.normal(*s), other=draw.normal(*s), dim=d) for s, d in (((1, 3), None), ((2, 3), None), ((3, 3), None), ((3, 5), 0), ((2, 3, 3), 1), ((17, 3), 1))],
    tolerance=conditioned())

# Ranks ------------------------------------------------------------------------------------------------------------------------------------------


def rank(self, atol=None, rtol=None, hermitian=False):
    """By exact elimination over the rationals: the cases' singular values lie far from the tolerance or are exactly 0."""
    out = []
    for i in numpy.ndindex(*self.shape[:-2]):
        rows, found = [[int(v) for v in row] for row in self[i] * 16], 0
        for column in range(self.shape[-1]):
            pivot = next((r for r in range(found, len(rows)) if rows[r][column]), None)
            if pivot is None:
                continue
            rows[found], rows[pivot] = rows[pivot], rows[found]
            for r in range(found + 1, len(rows)):
                rows[r] = [rows[found][column] * b - rows[r][column] * a for a, b in zip(rows[found], rows[r], strict=True)]
            found += 1
        out.append(found)
    return Out(numpy.array(out), shape=self.shape[:-2])


def rank_cases(draw):
    for m, n in ((1, 1), (3, 3), (5, 3), (2, 6), (17, 4)):
        yield Case(f"s{m}x{n}", self=draw.integers(1, 17, m, n) + 32.0 * numpy.eye(m, n))
    for k in (1, 2):
        a = draw.integers(1, 5, 5, k) @ draw.integers(1, 5, k, 4) * 1.0
        yield Case(f"rank_{k}_of_5x4", self=a)
    yield Case("symmetric", self=numpy.array([[2.0, 1.0, 3.0], [1.0, 2.0, 3.0], [3.0, 3.0, 6.0]]), hermitian=True)
    yield Case("batch", self=numpy.stack([numpy.eye(3), numpy.ones((3, 3))]))
    yield Case("zeros", self=numpy.zeros((3, 3)), trivial="the zero matrix has rank 0")


add("linalg_matrix_rank.atol_rtol_float", rank, lambda self, atol=None, rtol=None, hermitian=False: numpy.linalg.matrix_rank(self), rank_cases, tolerance=exact(), plain=True, scale="multilinear", differentiable=())
