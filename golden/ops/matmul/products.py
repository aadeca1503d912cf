"""Products of vectors, matrices and batches of them."""

import math

import numpy

from golden import Case, Out, conditioned
from golden import numpy_ad as np
from golden.table import Table

MODES = ("layouts", "math", "deterministic", "threads")
table = Table(tolerance=conditioned(tf32=32800), modes=MODES, scale="multilinear")
add, operators = table.add, table.operators


def row(x):
    return np.reshape(x, (1, -1))


LONG = (1, 7, 16, 33, 129)
for name, a, b in (("dot", "self", "tensor"), ("vdot", "self", "other"), ("inner", "self", "other")):
    def second(a=a, b=b, **v):
        return numpy.array(math.fsum(x * y for x, y in zip(v[a], v[b], strict=True)))

    add(name, lambda a=a, b=b, **v: Out(np.sum(row(v[a]) * row(v[b]), axis=1), shape=()), second, lambda draw, a=a, b=b: [Case(f"n{n}", args={a: draw.normal(n), b: draw.normal(n)}) for n in LONG])
add("mv", lambda self, vec: np.matmul(self, np.reshape(vec, (-1, 1)))[:, 0], lambda self, vec: numpy.einsum("ij,j->i", self, vec), lambda draw: [Case(f"m{m}_k{k}", self=draw.normal(m, k), vec=draw.normal(k)) for m, k in ((1, 1), (5, 7), (33, 16), (4, 129))])
add("outer", lambda self, vec2: np.reshape(self, (-1, 1)) * row(vec2), lambda self, vec2: numpy.array([[a * b for b in vec2] for a in self]), lambda draw: [Case(f"m{m}_n{n}", self=draw.normal(m), vec2=draw.normal(n)) for m, n in ((1, 1), (5, 7), (33, 3))])
BETA = (({}), {"beta": 0.5, "alpha": 2.0}, {"beta": 0.0})


def scaled(schema, product, second, shapes):
    """beta self + alpha product(tensors); with beta = 0 the first term does not count, even where it is NaN."""
    names = list(shapes[0][1])

    def reference(self, beta=1, alpha=1, **t):
        return (0 * np.value(product(*t.values())) if beta == 0 else beta * self) + alpha * product(*(t[n] for n in names)) + 0 * self

    def checked(self, beta=1, alpha=1, **t):
        return (0 if beta == 0 else beta * self) + alpha * second(*(t[n] for n in names))

    def cases(draw):
        for k, (own, tensors) in enumerate(shapes):
            for given in BETA:
                label = f"c{k}" + ("_alpha_beta" if given.get("alpha") else "_beta0" if given else "")
                yield Case(label, self=draw.normal(*own), args={n: draw.normal(*s) for n, s in tensors.items()} | given)

    add(schema, reference, checked, cases, zero_gradient="beta is 0")


scaled("addmv", lambda m, v: np.matmul(m, np.reshape(v, (-1, 1)))[:, 0], lambda m, v: m @ v, [((5,), {"mat": (5, 7), "vec": (7,)}), ((33,), {"mat": (33, 16), "vec": (16,)})])
scaled("addr", lambda a, b: np.reshape(a, (-1, 1)) * row(b), lambda a, b: numpy.outer(a, b), [((5, 7), {"vec1": (5,), "vec2": (7,)}), ((17, 3), {"vec1": (17,), "vec2": (3,)})])
scaled("baddbmm", lambda a, b: np.matmul(a, b), lambda a, b: numpy.einsum("bij,bjk->bik", a, b), [((3, 4, 5), {"batch1": (3, 4, 6), "batch2": (3, 6, 5)}), ((1, 8, 9), {"batch1": (1, 8, 120), "batch2": (1, 120, 9)})])
scaled("addbmm", lambda a, b: np.sum(np.matmul(a, b), axis=0), lambda a, b: numpy.einsum("bij,bjk->ik", a, b), [((4, 5), {"batch1": (3, 4, 6), "batch2": (3, 6, 5)}), ((8, 9), {"batch1": (2, 8, 33), "batch2": (2, 33, 9)})])
add("kron", lambda self, other: np.reshape(np.transpose(np.reshape(self, (*self.shape, 1, 1)) * other, (0, 2, 1, 3)), (self.shape[0] * other.shape[0], -1)), lambda self, other: numpy.kron(self, other),
    lambda draw: [Case(f"c{k}", self=draw.normal(*a), other=draw.normal(*b)) for k, (a, b) in enumerate((((1, 1), (2, 3)), ((2, 3), (3, 2)), ((5, 1), (1, 7))))])
add("tensordot", lambda self, other, dims_self, dims_other: np.tensordot(self, other, axes=(tuple(dims_self), tuple(dims_other))), lambda self, other, dims_self, dims_other: numpy.einsum(self, [0, 1, 2], other, [3 if d not in dims_other else dims_self[list(dims_other).index(d)] for d in range(other.ndim)]),
    lambda draw: [Case("one_axis", self=draw.normal(2, 3, 4), other=draw.normal(4, 5), dims_self=(2,), dims_other=(0,)), Case("two_axes", self=draw.normal(2, 3, 4), other=draw.normal(3, 4, 5), dims_self=(1, 2), dims_other=(0, 1))])


def matmul(self, other):
    a = row(self) if self.ndim == 1 else self
    b = np.reshape(other, (-1, 1)) if other.ndim == 1 else other
    out = np.matmul(a, b)
    shape = list(out.shape)
    if other.ndim == 1:
        shape.pop(-1)
    if self.ndim == 1:
        shape.pop(-1 if other.ndim == 1 else -2)
    return Out(out, shape=tuple(shape)) if len(shape) == 0 else np.reshape(out, tuple(shape))


add("matmul", matmul, lambda self, other: self @ other, lambda draw: [Case(f"{'x'.join(map(str, a))}_by_{'x'.join(map(str, b))}", self=draw.normal(*a), other=draw.normal(*b)) for a, b in (((7,), (7,)), ((7,), (7, 3)), ((4, 7), (7,)), ((4, 7), (7, 5)), ((2, 3, 4), (4, 5)), ((3, 4), (2, 4, 2)), ((2, 1, 3, 4), (5, 4, 2)))])


def cdist(x1, x2, p=2.0, compute_mode=None):
    return np.norm(x1[..., :, None, :] - x2[..., None, :, :], p)


add("cdist", cdist, lambda x1, x2, p=2.0, compute_mode=None: (numpy.abs(x1[..., :, None, :] - x2[..., None, :, :]) ** p).sum(-1) ** (1 / p),
    lambda draw: [Case(f"p{int(p)}_{'x'.join(map(str, a))}", x1=draw.normal(*a), x2=draw.normal(*b), p=p, compute_mode=2) for p in (1.0, 2.0, 3.0) for a, b in (((3, 4), (5, 4)), ((2, 3, 2), (2, 2, 2)), ((1, 17), (3, 17)))],
    tolerance=conditioned(), scale="jacobian", modes=("layouts", "deterministic", "threads"))
