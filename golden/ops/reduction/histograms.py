"""Histograms of points in several dimensions. On a GPU there are none."""

import bisect

import numpy

from golden import Case, Out, conditioned, exact
from golden import numpy_ad as np
from golden.table import Table

CPU = {"only": ("cpu",), "note": "a GPU has no histogramdd"}
# Counts, and sums and quotients that float32 holds: weights are small integers, and where a density is asked for, their sum and the bins' sizes powers of two.
table = Table(tolerance=exact("counts, small integers and quotients by powers of two"), plain=True, scale="multilinear", differentiable=(), modes=("layouts", "threads"))
add, operators = table.add, table.operators


def limits(points, range=None):
    """(low, high) of each column: given, or the smallest and the largest value; half a unit about them where they are one."""
    if range is not None:
        return [(float(a), float(b)) for a, b in zip(range[::2], range[1::2], strict=True)]
    ends = [(float(c.min()), float(c.max())) for c in points.T]
    return [(a - 0.5, b + 0.5) if a == b else (a, b) for a, b in ends]


def lines(points, bins, range=None):
    return [low + (high - low) * numpy.arange(n + 1) / n for n, (low, high) in zip(bins, limits(points, range), strict=True)]


def place(edges, value):
    """The bin that holds a value, left edge included, the last one's right edge too; None outside and for NaN."""
    if not edges[0] <= value <= edges[-1]:
        return None
    return min(bisect.bisect_right(edges, value), len(edges) - 1) - 1


def count(points, edges, weight, density):
    """One point at a time; a density is divided by the sum and by the bins' sizes."""
    out = numpy.zeros([len(e) - 1 for e in edges])
    for i, point in enumerate(points):
        at = [place(e.tolist(), float(v)) for e, v in zip(edges, point, strict=True)]
        if None not in at:
            out[tuple(at)] += 1.0 if weight is None else weight[i]
    if density:
        sizes = 1.0
        for e in edges:
            sizes = numpy.multiply.outer(sizes, numpy.diff(e))
        out = out / out.sum() / sizes
    return out


def by_numpy(points, bins, range, weight, density):
    ranges = None if range is None else list(zip(range[::2], range[1::2], strict=True))
    finite = numpy.isfinite(points).all(-1)  # NumPy would not take the others
    return numpy.histogramdd(points[finite], bins, ranges, density, None if weight is None else weight[finite])


def points(draw, n, d):
    """In eighths within [-2, 2], both ends among them and many on inner edges."""
    x = draw.integers(-16, 17, n, d) / 8.0
    x[0], x[-1] = -2.0, 2.0
    return x


def calls(draw):
    """(name, self, range or None, further arguments, the case's options) for each kind of call; 16 points, weights with the sum 64."""
    box = {1: [-2.0, 2.0], 2: [-2.0, 2.0, -2.0, 2.0], 3: [-2.0, 2.0] * 3}
    weight = numpy.array([1.0, 7.0, 2.0, 6.0, 3.0, 5.0, 4.0, 4.0] * 2)
    for d in (1, 2, 3):
        for kind, more in (("count", {}), ("weight", {"weight": weight}), ("density", {"density": True}), ("both", {"weight": weight, "density": True})):
            yield f"d{d}_{kind}", points(draw, 16, d), box[d], more, CPU
    yield "own_range", points(draw, 33, 2), None, {}, CPU
    yield "one_value", numpy.stack([numpy.full(7, 1.5), draw.integers(0, 3, 7) + 0.0], axis=1), None, {}, CPU
    far = points(draw, 33, 2)
    far[3], far[8, 0], far[20, 1] = (7.0, 0.0), -2.125, numpy.inf
    yield "outside", far, box[2], {}, CPU | {"special": True}
    bad = points(draw, 33, 2)
    bad[5, 0] = bad[11, 1] = numpy.nan
    yield "nan", bad, box[2], {}, CPU | {"special": True, "note": "a point with a NaN is in no bin; a GPU has no histogramdd"}
    yield "many", points(draw, 131, 2), box[2], {}, CPU


BINS = {1: [4], 2: [8, 2], 3: [2, 4, 1]}
EDGES = [numpy.array([-2.0, -1.0, -0.5, 1.5, 2.0]), numpy.array([-2.0, 0.0, 2.0]), numpy.array([-2.0, 1.0, 1.5, 2.0])]


def with_counts(draw):
    for label, x, range, more, options in calls(draw):
        yield Case(label, args={"self": x, "bins": BINS[x.shape[1]], "range": range, **more}, **options)
    yield Case("too_few_bins", args={"self": points(draw, 16, 2), "bins": [4], "range": [-2.0, 2.0]}, expect="error", **CPU)


def with_number(draw):
    for label, x, range, more, options in calls(draw):
        yield Case(label, args={"self": x, "bins": 4, "range": range, **more}, **options)


def with_edges(draw):
    for label, x, range, more, options in calls(draw):
        if range is not None:
            yield Case(label, args={"self": x, "bins": EDGES[: x.shape[1]], **more}, **options)
    yield Case("too_few_edges", args={"self": points(draw, 16, 2), "bins": EDGES[:1]}, expect="error", **CPU)


def every(self, bins):
    return [bins] * self.shape[1] if isinstance(bins, int) else bins


def histogram_of(self, bins, range=None, weight=None, density=False):
    return count(self, lines(self, every(self, bins), range), weight, density)


def with_lines(self, bins, range=None, weight=None, density=False):
    return histogram_of(self, bins, range, weight, density), *lines(self, every(self, bins), range)


def second(self, bins, range=None, weight=None, density=False):
    return by_numpy(self, every(self, bins), range, weight, density)[0]


def second_with_lines(self, bins, range=None, weight=None, density=False):
    hist, edges = by_numpy(self, every(self, bins), range, weight, density)
    return hist, *edges


def of_edges(self, bins, weight=None, density=False):
    return count(self, bins, weight, density)


add("_histogramdd_from_bin_cts", histogram_of, second, with_counts)
add("_histogramdd_from_bin_tensors", of_edges, lambda self, bins, weight=None, density=False: by_numpy(self, bins, None, weight, density)[0], with_edges)
add("histogramdd", with_lines, second_with_lines, with_counts)
add("histogramdd.int_bins", with_lines, second_with_lines, with_number)
add("histogramdd.TensorList_bins", lambda self, bins, weight=None, density=False: (of_edges(self, bins, weight, density), *bins),
    lambda self, bins, weight=None, density=False: (by_numpy(self, bins, None, weight, density)[0], *bins), with_edges)


def edge_balls(self, bins, range=None, **_):
    return tuple(Out((low + (np.balls(high) - low) * np.balls(numpy.arange(n + 1.0)) / n), constant=True) for n, (low, high) in zip(bins, limits(np.floats(self), range), strict=True))


def edge_cases(draw):
    for label, x, range, _, _ in calls(draw):
        if "d2" not in label and "count" in label or label in ("own_range", "one_value"):
            yield Case(label, args={"self": x, "bins": [3, 7, 5][: x.shape[1]], "range": range}, **CPU)
    for label, range in (("wide", [-1000.0, 3.0, 0.0, 2.0**-20]), ("far_from_0", [1000.0, 1001.0, -(2.0**20), 2.0**20])):
        yield Case(label, args={"self": points(draw, 4, 2), "bins": [6, 11], "range": range}, **CPU)


edges = add("_histogramdd_bin_edges", edge_balls, lambda self, bins, range=None, **_: tuple(numpy.linspace(*ends, n + 1) for n, ends in zip(bins, limits(self, range), strict=True)), edge_cases,
            tolerance=conditioned(float32=4, float64=4, why="docs/numerics.md#ranges"), plain=False, scale="jacobian")


@edges.scale
def edge_scale(outputs, self, bins, range=None, **_):
    """As linspace's: both ends."""
    return tuple(numpy.full(n + 1, abs(low) + abs(high)) for n, (low, high) in zip(bins, limits(self, range), strict=True))
