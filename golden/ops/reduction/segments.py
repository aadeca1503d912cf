"""Sums back to a broadcast shape, and reductions of segments along the first axis."""

import numpy

from golden import Case, conditioned
from golden import numpy_ad as np
from golden.table import Table

table = Table(tolerance=conditioned(), modes=("layouts", "deterministic", "threads"))
add, operators = table.add, table.operators


def sum_to_size(self, size):
    """Sums over the axes that the size lacks or has of length 1: what undoes a broadcast."""
    lead = self.ndim - len(size)
    kept = np.sum(self, axis=tuple(range(lead))) if lead else self
    axes = tuple(k for k, n in enumerate(size) if n == 1 and kept.shape[k] != 1)
    return np.sum(kept, axis=axes, keepdims=True) if axes else kept


def sum_to_size_second(self, size):
    out = numpy.zeros(size)
    for i in numpy.ndindex(*self.shape):
        out[tuple(k if n > 1 else 0 for k, n in zip(i[self.ndim - len(size) :], size, strict=True))] += self[i]
    return out


add("sum_to_size", sum_to_size, sum_to_size_second, lambda draw: [Case(f"{'x'.join(map(str, s))}_to_{'x'.join(map(str, t))}", self=draw.normal(*s), size=t)
                                                                  for s, t in (((3, 4), (1, 4)), ((3, 4), (3, 1)), ((2, 3, 4), (3, 1)), ((2, 33), (33,)), ((5, 2), (1, 1)), ((3, 4), (3, 4)))], scale="multilinear")
NAMES = ("sum", "mean", "max", "min", "prod")


def bounds(lengths):
    edges = numpy.concatenate([[0], numpy.cumsum(lengths)])
    return list(zip(edges, edges[1:], strict=False))


def segment_reduce(data, reduce, lengths, axis=0, unsafe=False, initial=None):
    """One reduction a segment of rows; the cases have no empty one, whose answer depends on the reduction."""
    out = []
    for a, b in bounds(lengths):
        rows = data[int(a) : int(b)]
        if reduce in ("max", "min"):
            best = (numpy.argmax if reduce == "max" else numpy.argmin)(np.floats(rows), axis=0)
            out.append(np.take_along_axis(rows, best[None], 0))
        elif reduce == "prod":
            out.append(np.product(rows, 0, keepdims=True))
        else:
            out.append(np.sum(rows, axis=0, keepdims=True) / (b - a if reduce == "mean" else 1))
    return np.concatenate(out)


def segment_second(data, reduce, lengths, axis=0, unsafe=False, initial=None):
    starts = numpy.concatenate([[0], numpy.cumsum(lengths)[:-1]])
    function = {"sum": numpy.add, "mean": numpy.add, "max": numpy.maximum, "min": numpy.minimum, "prod": numpy.multiply}[reduce]
    out = function.reduceat(data, starts, axis=0)
    return out / lengths.reshape(-1, *[1] * (data.ndim - 1)) if reduce == "mean" else out


add("segment_reduce", segment_reduce, segment_second, lambda draw: [Case(f"{reduce}_{'x'.join(map(str, s))}", data=draw.distinct(*s) * 0.5 + 0.03125, reduce=reduce, lengths=numpy.array(lengths))
                                                                   for reduce in NAMES for s, lengths in (((7,), (2, 1, 4)), ((6, 3), (1, 5)), ((17, 2), (17,)), ((5, 2, 2), (2, 3)))], differentiable=("data",))
