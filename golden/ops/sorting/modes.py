"""The most frequent value, and distinct rows."""

import builtins

import numpy

from golden import Case, Out, exact
from golden.table import Table

table = Table(tolerance=exact(), modes=("layouts", "deterministic", "threads"), plain=True, scale="multilinear", differentiable=())
add, operators = table.add, table.operators


def mode(self, dim=-1, keepdim=False):
    """The cases have one most frequent value; which of its places is told, ATen leaves open."""
    def one(row):
        return max(builtins.sorted(set(row.tolist())), key=lambda v: (row == v).sum())

    values = numpy.apply_along_axis(one, dim, self)
    shape = tuple(1 if a == dim % self.ndim else n for a, n in enumerate(self.shape)) if keepdim else values.shape
    return Out(values.reshape(shape)), Out(unchecked="any of the value's places")


def mode_second(self, dim=-1, keepdim=False):
    rows = numpy.moveaxis(self, dim, -1)
    out = numpy.empty(rows.shape[:-1])
    for i in numpy.ndindex(*out.shape):
        values, counts = numpy.unique(rows[i], return_counts=True)
        out[i] = values[counts.argmax()]
    return numpy.expand_dims(out, dim) if keepdim else out, None


def one_winner(draw, shape, dim):
    """Numbers in which one value of each row is the most frequent by two."""
    rows = draw.distinct(*shape) + 0.03125
    rows = numpy.moveaxis(rows, dim, -1).copy()
    for i in numpy.ndindex(*rows.shape[:-1]):
        places = draw.permutation(rows.shape[-1])
        rows[i][places[: max(2, rows.shape[-1] // 3)]] = rows[i][places[0]]
    return numpy.moveaxis(rows, -1, dim).copy()


add("mode", mode, mode_second, lambda draw: [Case(f"s{'x'.join(map(str, s))}_d{d % len(s)}_keep{int(k)}", self=one_winner(draw, s, d), dim=d, keepdim=k)
                                             for s, d in (((3,), 0), ((4, 5), 1), ((17, 3), 0), ((2, 3, 6), 1), ((2, 33), -1), ((2, 257), 1)) for k in (False, True)])


def unique_dim(self, dim, sorted=True, return_inverse=False, return_counts=False):
    """Distinct slices in lexicographical order; where each went; how many."""
    slices = [tuple(numpy.take(self, k, dim).ravel().tolist()) for k in range(self.shape[dim])]
    distinct = builtins.sorted(set(slices))
    values = numpy.stack([numpy.take(self, slices.index(s), dim) for s in distinct], axis=dim)
    skipped = Out(unchecked="not asked for")
    return values, Out(numpy.array([distinct.index(s) for s in slices])) if return_inverse else skipped, Out(numpy.array([slices.count(s) for s in distinct])) if return_counts else skipped


def unique_second(self, dim, sorted=True, return_inverse=False, return_counts=False):
    values, inverse, counts = numpy.unique(self, return_inverse=True, return_counts=True, axis=dim)
    return values, inverse.ravel(), counts


add("unique_dim", unique_dim, unique_second, lambda draw: [Case(f"s{'x'.join(map(str, s))}_d{d}_i{int(i)}_c{int(c)}", self=draw.integers(1, 3, *s) * 1.0, dim=d, return_inverse=i, return_counts=c)
                                                           for s, d in (((7, 2), 0), ((2, 9), 1), ((2, 5, 2), 1), ((33, 3), 0)) for i in (False, True) for c in (False, True)])
