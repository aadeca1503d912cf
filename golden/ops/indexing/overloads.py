"""Other overloads of indexing: a scalar for a tensor, or a tensor for a scalar."""

import numpy

from golden import Case, Out, conditioned, exact
from golden import numpy_ad as np
from golden.ops.indexing.indexing import search
from golden.table import Table

table = Table(tolerance=exact(), plain=True, scale="multilinear", modes=("layouts", "threads"), backward_tolerance=conditioned())
add, operators = table.add, table.operators


def masked(self, mask, value):
    """`value` is one number: its gradient is the sum over the places that take it."""
    hit = numpy.broadcast_to(mask, self.shape)
    return self * ~hit + value * hit


add("masked_fill.Tensor", masked, lambda self, mask, value: numpy.array([float(value) if m else v for v, m in zip(self.flat, numpy.broadcast_to(mask, self.shape).flat, strict=True)]).reshape(self.shape),
    lambda draw: [Case(f"s{'x'.join(map(str, s))}", self=draw.uniform(0.5, 2, *s), mask=(numpy.arange(int(numpy.prod(s))) % 3 == 1).reshape(s), value=numpy.array(-1.5)) for s in ((2,), (7,), (3, 4), (2, 33))])


def rows(self, dim, index):
    hit = numpy.isin(numpy.arange(self.shape[dim]), index % self.shape[dim])
    return hit.reshape([-1 if a == dim % self.ndim else 1 for a in range(self.ndim)])


add("index_fill.int_Tensor", lambda self, dim, index, value: masked(self, rows(self, dim, index), value),
    lambda self, dim, index, value: numpy.moveaxis(numpy.array([numpy.full(r.shape, value) if k in index % self.shape[dim] else r for k, r in enumerate(numpy.moveaxis(self, dim, 0))]), 0, dim),
    lambda draw: [Case(f"s{'x'.join(map(str, s))}_d{d}", self=draw.uniform(0.5, 2, *s), dim=d, index=numpy.array(i), value=numpy.array(-1.5)) for s, d, i in (((5,), 0, [3, 0]), ((3, 4), 1, [-1, 2]), ((2, 3, 2), 1, [1, 1]))])


def lookups(draw, edges, value):
    for right in (False, True):
        for v in (-9.0, 1.0, 1.5, 9.0):
            yield Case(f"v{str(v).replace('.', '_').replace('-', 'm')}_right{int(right)}", args={edges: numpy.array([0.0, 1.0, 1.0, 2.0]), value: v, "right": right})


FLAGS = {"differentiable": ()}
for schema, edges, value in (("searchsorted.Scalar", "sorted_sequence", "self"), ("bucketize.Scalar", "boundaries", "self")):
    add(schema, lambda e=edges, v=value, **a: Out(search(a.get("right", False))(a[e], numpy.array([a[v]])), shape=()), lambda e=edges, v=value, **a: numpy.searchsorted(a[e], a[v], side="right" if a.get("right") else "left"),
        lambda draw, e=edges, v=value: lookups(draw, e, v), **FLAGS)
add("where.Scalar", lambda condition, self, other: numpy.where(condition, float(self), float(other)), lambda condition, self, other: numpy.array([float(self if c else other) for c in condition.flat]).reshape(condition.shape),
    lambda draw: [Case(f"s{'x'.join(map(str, s))}", condition=draw.integers(0, 2, *s).astype(bool), self=2.5, other=-1.0, dtypes=("float32",)) for s in ((7,), (3, 33))], **FLAGS)
add("where", lambda condition: tuple(numpy.nonzero(condition)), lambda condition: tuple(numpy.argwhere(condition).T.copy()),
    lambda draw: [Case(f"s{'x'.join(map(str, s))}", condition=draw.integers(0, 2, *s) * draw.normal(*s)) for s in ((7,), (3, 33), (2, 3, 4))], **FLAGS)
add("repeat_interleave.Tensor", lambda repeats: numpy.repeat(numpy.arange(repeats.size), repeats), lambda repeats: numpy.array([k for k, n in enumerate(repeats) for _ in range(n)]),
    lambda draw: [Case(f"n{n}", repeats=draw.integers(0, 5, n) + (numpy.arange(n) == 0)) for n in (1, 7, 33)], **FLAGS)


def repeated(self, repeats, dim):
    return np.take_along_axis(self, numpy.repeat(numpy.arange(self.shape[dim]), repeats).reshape([-1 if a == dim else 1 for a in range(self.ndim)]) * numpy.ones([1 if a == dim else n for a, n in enumerate(self.shape)], dtype=int), dim)


add("repeat_interleave.self_Tensor", repeated, lambda self, repeats, dim: numpy.repeat(self, repeats, dim),
    lambda draw: [Case(f"s{'x'.join(map(str, s))}_d{d}", self=draw.normal(*s), repeats=numpy.array(r), dim=d) for s, r, d in (((3,), [2, 0, 3], 0), ((2, 3), [1, 4, 2], 1), ((2, 3), [3], 0))])
