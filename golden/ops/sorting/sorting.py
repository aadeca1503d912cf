"""sort, topk, kthvalue, unique. NaN is the largest, of either sign. Values are exact; indices are compared where they are defined: no ties, or a stable sort."""

import builtins

import numpy

from golden import Case, Out, exact
from golden import numpy_ad as np
from golden.table import Table

MODES = ("layouts", "deterministic", "threads")
table = Table(tolerance=exact(), modes=MODES, plain=True, scale="multilinear")
add, operators = table.add, table.operators


def order(x, dim, descending):
    """Stable order along `dim`: NaN behind +inf."""
    v = np.floats(x)
    nan, dim = numpy.isnan(v), dim % x.ndim
    key = numpy.where(nan, numpy.inf, v)
    rank = numpy.lexsort((-key, ~nan), axis=dim) if descending else numpy.lexsort((key, nan), axis=dim)
    return rank.astype(numpy.int64)


def insertion(x, dim, descending):
    """The second formula: insertion sort, row by row."""
    def before(a, b):
        if numpy.isnan(a) or numpy.isnan(b):
            return numpy.isnan(a) and not numpy.isnan(b) if descending else numpy.isnan(b) and not numpy.isnan(a)
        return a > b if descending else a < b

    def one(row):
        out = []
        for k in range(len(row)):
            at = len(out)
            while at and before(row[k], row[out[at - 1]]):
                at -= 1
            out.insert(at, k)
        return numpy.array(out)

    index = numpy.apply_along_axis(one, dim, x)
    return numpy.take_along_axis(x, index, dim), index


SHAPES = (((1,), 0), ((5,), 0), ((3, 4), 1), ((17, 3), 0), ((2, 3, 5), 1), ((2, 33), -1), ((2, 129), 1), ((1, 257), 1))


def special(negative=False):
    x = numpy.resize(numpy.array([0.5, numpy.nan, -numpy.inf, 3.0, numpy.nan, numpy.inf, -1.0, 2.5]), (2, 33))
    x = x + numpy.where(numpy.isnan(x) | numpy.isinf(x), 0, numpy.arange(66).reshape(2, 33) / 64)
    return numpy.where(numpy.isnan(x), -x if negative else x, x)


def sort_cases(stable):
    def cases(draw):
        extra = {"stable": True} if stable else {}
        for shape, dim in SHAPES:
            for descending in (False, True):
                yield Case(f"s{'x'.join(map(str, shape))}_d{dim % len(shape)}_desc{int(descending)}", self=draw.distinct(*shape) + 0.03125, dim=dim, descending=descending, **extra)
        for n in (33, 200, 1025):
            if stable:
                yield Case(f"ties_{n}", self=draw.integers(1, 5, n) * 1.0, dim=0, smooth=False, source="pytorch#127196", note="a stable sort keeps the order of equal elements", **extra)
        for name, negative in (("nan", False), ("negative_nan", True)):
            for descending in (False, True):
                x = special(negative)
                x = numpy.where(numpy.isnan(x) & (numpy.cumsum(numpy.isnan(x), axis=1) > 1), numpy.arange(66).reshape(2, 33) + 100.0, x)
                x = numpy.where(numpy.isinf(x) & (numpy.cumsum(numpy.isinf(x), axis=1) > 2), numpy.arange(66).reshape(2, 33) + 300.0, x)
                yield Case(f"{name}_desc{int(descending)}", self=x, dim=1, descending=descending, special=True, source="pytorch#117617", note="a NaN of either sign is the largest", **extra)

    return cases


def sort_reference(self, dim=-1, descending=False, stable=True):
    index = order(self, dim, descending)
    return np.take_along_axis(self, index, dim % self.ndim), index


def sort_second(self, dim=-1, descending=False, stable=True):
    return insertion(self, dim, descending)


add("sort", sort_reference, sort_second, sort_cases(False))
add("sort.stable", sort_reference, sort_second, sort_cases(True))
add("argsort", lambda **a: sort_reference(**a)[1], lambda **a: sort_second(**a)[1], sort_cases(False), differentiable=())
add("msort", lambda self: sort_reference(self, 0)[0], lambda self: numpy.sort(self, axis=0), lambda draw: [Case(f"s{'x'.join(map(str, s))}", self=draw.distinct(*s) + 0.03125) for s, _ in SHAPES])


def topk_reference(self, k, dim=-1, largest=True, sorted=True):
    index = numpy.take(order(self, dim, largest), numpy.arange(k), axis=dim)
    return np.take_along_axis(self, index, dim % self.ndim), index


def topk_second(self, k, dim=-1, largest=True, sorted=True):
    values, index = insertion(self, dim, largest)
    return numpy.take(values, range(k), axis=dim), numpy.take(index, range(k), axis=dim)


def topk_cases(draw):
    for shape, dim in SHAPES:
        for k in {1, min(3, shape[dim]), shape[dim]}:
            for largest in (True, False):
                yield Case(f"s{'x'.join(map(str, shape))}_d{dim % len(shape)}_k{k}_largest{int(largest)}", self=draw.distinct(*shape) + 0.03125, k=k, dim=dim, largest=largest)


add("topk", topk_reference, topk_second, topk_cases)


def kth_reference(self, k, dim=-1, keepdim=False):
    values, index = topk_reference(self, k, dim, largest=False)
    axis = dim % self.ndim
    last = (slice(None),) * axis
    values, index = values[(*last, slice(k - 1, k))], index[(*last, slice(k - 1, k))]
    shape = index.shape if keepdim else tuple(n for a, n in enumerate(index.shape) if a != axis)
    return Out(values, shape=shape), Out(index, shape=shape)


def kth_second(self, k, dim=-1, keepdim=False):
    values, index = insertion(self, dim, False)
    values, index = numpy.take(values, k - 1, axis=dim), numpy.take(index, k - 1, axis=dim)
    return (numpy.expand_dims(values, dim), numpy.expand_dims(index, dim)) if keepdim else (values, index)


def kth_cases(draw):
    for shape, dim in SHAPES[1:]:
        for k in (1, shape[dim] // 2 + 1, shape[dim]):
            for keepdim in (False, True):
                yield Case(f"s{'x'.join(map(str, shape))}_d{dim % len(shape)}_k{k}_keep{int(keepdim)}", self=draw.distinct(*shape) + 0.03125, k=k, dim=dim, keepdim=keepdim)


add("kthvalue", kth_reference, kth_second, kth_cases)


def unique_cases(draw, **fixed):
    for n in (1, 7, 33, 257):
        for inverse in (False, True):
            for counts in (False, True):
                yield Case(f"n{n}_i{int(inverse)}_c{int(counts)}", self=draw.integers(1, 6, n) * 1.0, return_inverse=inverse, return_counts=counts, **fixed)


def compact(self, sorted=True, return_inverse=False, return_counts=False):
    """Sorted distinct values; where each input went; how many. What is not asked for is left out of the check."""
    values = numpy.array(builtins.sorted(set(self.tolist())))
    inverse = numpy.array([int(numpy.flatnonzero(values == v)[0]) for v in self])
    counts = numpy.array([int((self == v).sum()) for v in values])
    return values, Out(inverse) if return_inverse else Out(shape=None, unchecked="not asked for"), Out(counts) if return_counts else Out(shape=None, unchecked="not asked for")


add("_unique2", compact, lambda self, sorted=True, return_inverse=False, return_counts=False: numpy.unique(self, return_inverse=True, return_counts=True), unique_cases, differentiable=())


def runs(self, return_inverse=False, return_counts=False, dim=None):
    starts = [k for k in range(self.size) if k == 0 or self[k] != self[k - 1]]
    inverse = numpy.array([sum(s <= k for s in starts) - 1 for k in range(self.size)])
    counts = numpy.diff([*starts, self.size])
    return self[starts], Out(inverse) if return_inverse else Out(shape=None, unchecked="not asked for"), Out(counts) if return_counts else Out(shape=None, unchecked="not asked for")


def runs_second(self, return_inverse=False, return_counts=False, dim=None):
    change = numpy.concatenate([[True], self[1:] != self[:-1]])
    return self[change], numpy.cumsum(change) - 1, numpy.bincount(numpy.cumsum(change) - 1)


add("unique_consecutive", runs, runs_second, lambda draw: unique_cases(draw), differentiable=())
add("argsort.stable", lambda **a: sort_reference(**a)[1], lambda **a: sort_second(**a)[1],
    lambda draw: [c for c in sort_cases(True)(draw) if c.special or c.name.startswith("ties") and "1025" not in c.name], differentiable=())
