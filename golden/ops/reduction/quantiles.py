"""Quantiles: between the two elements that the rank q (n - 1) lies between, in sorted order. A NaN wins, or counts as absent."""

import math
from fractions import Fraction

import numpy

from golden import Case, Out, conditioned, exact
from golden import numpy_ad as np
from golden.table import Table

# The rank is rounded: u rank (high - low), which is the scale's share of q; then one interpolation.
table = Table(tolerance=conditioned(), modes=("layouts", "threads"), differentiable=("self",))
add, operators = table.add, table.operators
KINDS = ("linear", "lower", "higher", "midpoint", "nearest")


def between(row, q, interpolation, skip):
    """(shape (1,)) the quantile of one row of balls; q is a ball of shape (1,)."""
    plain = np.floats(row)
    nan = numpy.isnan(plain)
    if nan.all() or nan.any() and not skip:
        return row[int(numpy.argmax(nan)) : int(numpy.argmax(nan)) + 1]
    order = numpy.argsort(plain, kind="stable")
    count = int((~nan).sum())
    rank = Fraction(float(np.floats(q)[0])) * (count - 1)
    low, high = math.floor(rank), math.ceil(rank)
    if interpolation == "nearest":
        low = high = round(rank)  # half to even, as ATen's
    at = {"lower": low, "higher": high, "nearest": low}.get(interpolation)
    if at is None and low == high:
        at = low
    if at is not None:
        return row[order[at] : order[at] + 1]
    weight = q * (count - 1) - low if interpolation == "linear" else 0.5
    first, last = (row[order[k] : order[k] + 1] for k in (low, high))
    return first + (last - first) * weight


def quantile(self, q, dim, keepdim, interpolation, skip):
    axis = None if dim is None else dim % self.ndim
    rows = np.reshape(self, (1, -1)) if axis is None else np.moveaxis(self, axis, -1)
    rest = () if axis is None else rows.shape[:-1]
    rows = np.reshape(rows, (-1, rows.shape[-1]))
    out = [between(rows[r], q[k : k + 1], interpolation, skip) for k in range(q.shape[0]) for r in range(rows.shape[0])]
    kept = (1,) * self.ndim if axis is None else (*rest[:axis], 1, *rest[axis:])
    return np.concatenate(out), kept if keepdim else rest


def with_tensor(skip):
    def reference(self, q, dim=None, keepdim=False, interpolation="linear"):
        values, rest = quantile(self, np.reshape(q, (-1,)), dim, keepdim, interpolation, skip)
        return Out(values, shape=(*np.value(q).shape, *rest))

    return reference


def with_number(skip):
    def reference(self, q, dim=None, keepdim=False, interpolation="linear"):
        values, rest = quantile(self, np.balls(numpy.array([q])), dim, keepdim, interpolation, skip)
        return Out(values, shape=rest)

    return reference


def second(skip):
    def answer(self, q, dim=None, keepdim=False, interpolation="linear"):
        ranks = numpy.asarray(q) * ((self.size if dim is None else self.shape[dim]) - 1)
        if numpy.isinf(self).any() and numpy.all(ranks == numpy.floor(ranks)):
            interpolation = "lower"  # NumPy multiplies the infinite neighbour by 0
        return numpy.asarray((numpy.nanquantile if skip else numpy.quantile)(self, q, axis=dim, keepdims=keepdim, method=interpolation))

    return answer


def cases(tensor, skip):
    def wrapped(*q):
        return numpy.array(q) if tensor else q[0]

    def make(draw):
        for kind in KINDS:
            for label, shape, dim in (("n1", (1,), 0), ("n4", (4,), 0), ("n7", (7,), None), ("s3x17_d1", (3, 17), 1), ("s5x3_d0", (5, 3), 0), ("s2x3x33_dm1", (2, 3, 33), -1), ("s3x4_all", (3, 4), None)):
                quarters = (0.0, 0.3125, 0.5, 0.6875, 1.0) if label != "s2x3x33_dm1" else (0.3125, 0.75)
                q = wrapped(*quarters) if tensor else quarters[1]
                yield Case(f"{kind}_{label}", self=draw.distinct(*shape) + 0.03125, q=q, dim=dim, interpolation=kind)
            yield Case(f"{kind}_keepdim", self=draw.distinct(3, 6) + 0.03125, q=wrapped(0.25), dim=1, keepdim=True, interpolation=kind)
        third = float(numpy.float32(0.3))
        yield Case("three_tenths", self=draw.distinct(8) * 64.0, q=wrapped(third), dim=0, note="the rank 2.1 is rounded")
        yield Case("offset", self=draw.distinct(9) + 1000.0, q=wrapped(0.4375), dim=0)
        if tensor:
            yield Case("scalar_q", self=draw.distinct(5), q=numpy.array(0.375), dim=0)
        given = {"q": wrapped(0.5), "dim": 1, "special": True}
        yield Case("nan", self=numpy.array([[1.0, numpy.nan, 3.0, 2.0], [4.0, 1.0, 2.0, 3.0], [-numpy.nan, 5.0, 7.0, -1.0]]), **given, note="a NaN counts as absent" if skip else "a row with a NaN has no quantile")
        if skip:
            yield Case("all_nan", self=numpy.array([[numpy.nan, numpy.nan], [1.0, 2.0]]), **given)
        yield Case("infinite", self=numpy.array([[1.0, numpy.inf, -numpy.inf]]), **given)
        yield Case("first_of_infinite", self=numpy.array([1.0, numpy.inf]), q=wrapped(0.0), dim=0, special=True, source="pytorch#38018", note="the rank is whole: the infinite neighbour does not count")
        yield Case("beyond_1", self=draw.normal(4), q=wrapped(1.5), expect="error")

    return make


for name, skip in (("quantile", False), ("nanquantile", True)):
    add(name, with_tensor(skip), second(skip), cases(True, skip))
    add(f"{name}.scalar", with_number(skip), second(skip), cases(False, skip))

# Correlations, histograms, membership -------------------------------------------------------------------------------------------------------------


def corrcoef(self):
    """cov_ij / sqrt(cov_ii cov_jj)."""
    d = self - np.sum(self, axis=1, keepdims=True) / self.shape[1]
    c = np.matmul(d, np.transpose(d))
    size = np.sqrt(np.sum(d * d, axis=1))
    return c / (size[:, None] * size[None])


add("corrcoef", corrcoef, lambda self: numpy.corrcoef(self), lambda draw: [Case(f"s{r}x{n}", self=draw.normal(r, n)) for r, n in ((2, 5), (3, 4), (4, 17))]
    + [Case("offset_1000", self=draw.integers(-8, 9, 2, 17) + 1000.0, source="pytorch#2470")])


def members(elements, test):
    return numpy.array([any(v == t for t in numpy.ravel(test)) for v in numpy.ravel(elements)], dtype=bool)


def isin(elements, test, invert):
    """Against each test element by ==: a NaN is in nothing."""
    return (members(elements, test) != invert).reshape(numpy.shape(elements))


FLAGS = {"tolerance": exact(), "plain": True, "scale": "multilinear", "differentiable": ()}
add("isin.Tensor_Tensor", lambda elements, test_elements, assume_unique=False, invert=False: isin(elements, test_elements, invert), lambda elements, test_elements, assume_unique=False, invert=False: numpy.isin(elements, test_elements, assume_unique, invert),
    lambda draw: [Case(f"n{n}_of_{m}_inv{int(v)}", elements=draw.integers(0, 9, n) * 1.0, test_elements=draw.integers(0, 9, m) * 1.0, invert=v) for n in (7, 33, 257) for m in (3, 5, 131) for v in (False, True)]
    + [Case("unique", elements=draw.permutation(19) * 1.0, test_elements=draw.permutation(40)[:13] * 1.0, assume_unique=True), Case("matrix", elements=draw.integers(0, 9, 3, 4), test_elements=draw.integers(0, 9, 2, 2))], **FLAGS)
add("isin.Tensor_Scalar", lambda elements, test_element, assume_unique=False, invert=False: isin(elements, test_element, invert), lambda elements, test_element, assume_unique=False, invert=False: numpy.isin(elements, test_element, invert=invert),
    lambda draw: [Case(f"n{n}_inv{int(v)}", elements=numpy.arange(n) % 5 * 1.0, test_element=3, invert=v) for n in (7, 33) for v in (False, True)], **FLAGS)


def histogram(self, bins=100, range=None, weight=None, density=False):
    """Counts (or sums of weights) between equidistant edges; the last bin is closed. No element lies on an edge but the ends."""
    low, high = range
    edges = [Fraction(low) + (Fraction(high) - Fraction(low)) * k / bins for k in numpy.arange(bins + 1).tolist()]
    total = []
    for k in numpy.arange(bins):
        hits = [i for i, v in enumerate(self.reshape(-1).tolist()) if edges[k] <= Fraction(v) and (Fraction(v) < edges[k + 1] or k == bins - 1 and Fraction(v) == edges[-1])]
        total.append(float(sum(Fraction(1 if weight is None else float(weight.reshape(-1)[i])) for i in hits)))
    total = numpy.array(total)
    if density:
        total = total / (total.sum() * float(edges[1] - edges[0]))
    return total, numpy.array([float(e) for e in edges])


def histogram_second(self, bins=100, range=None, weight=None, density=False):
    return tuple(numpy.histogram(self, bins, tuple(range), weights=weight, density=density))


add("histogram.bin_ct", histogram, histogram_second, lambda draw: [Case(f"n{n}_bins{b}_{kind}", args={"self": draw.distinct(n, step=4.0 / 2 ** (n - 1).bit_length()) + 2.0**-9, "bins": b, "range": (-2.0, 2.0), **more}, only=("cpu",), note="a GPU has no histogram")
    for n in (7, 129) for b in (1, 4, 8) for kind, more in (("count", {}), ("weights", {"weight": draw.integers(1, 9, n) * 1.0}))], **FLAGS)
