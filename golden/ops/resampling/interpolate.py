"""Interpolation on a grid of pixels: one matrix an axis. ATen's conventions of source coordinates (UpSample.h, documented in interpolate):
align_corners: dst (in - 1) / (out - 1); else (dst + 1/2) scale - 1/2 with scale = in / out, or 1 / scale_factor where one is given.

A coordinate is computed in the dtype under test and errs by about 3 u times the input's size, so a weight errs by as much: the scale is the sum
of |x| over the taps, and the bound 3 * 20 (docs/numerics.md#interpolation)."""

import math
from fractions import Fraction

import numpy

from golden import Case, Operator, conditioned, exact
from golden import numpy_ad as np

LETTERS = {1: "abl,il->abi", 2: "abhw,ih,jw->abij", 3: "abdhw,id,jh,kw->abijk"}
MODES = ("layouts", "channels_last", "deterministic", "threads")
TOLERANCE = conditioned(float32=64, float64=64, why="docs/numerics.md#interpolation")
operators = []


def coordinate(dst, size, out, align_corners, scale):
    """Source coordinate, exact; the linear modes hold it at 0 or above."""
    if align_corners:
        return Fraction(dst * (size - 1), out - 1) if out > 1 else Fraction(0)
    ratio = Fraction(size, out) if not scale else 1 / Fraction(scale)
    return (dst + Fraction(1, 2)) * ratio - Fraction(1, 2)


def linear_taps(dst, size, out, align_corners, scale):
    if size == out:
        return [(dst, Fraction(1))]  # an axis that keeps its size is copied, whatever scale is given
    x = max(coordinate(dst, size, out, align_corners, scale), Fraction(0))
    i = min(math.floor(x), size - 1)
    t = x - i
    return [(i, 1 - t), (min(i + 1, size - 1), t)]


def cubic_taps(dst, size, out, align_corners, scale):
    """Keys' kernel with a = -3/4, indices held inside."""
    x = coordinate(dst, size, out, align_corners, scale)
    i, a = math.floor(x), Fraction(-3, 4)
    t = x - i

    def near(d):
        return ((a + 2) * d - (a + 3)) * d * d + 1

    def far(d):
        return ((a * d - 5 * a) * d + 8 * a) * d - 4 * a

    weights = (far(t + 1), near(t), near(1 - t), far(2 - t))
    return [(min(max(i - 1 + k, 0), size - 1), w) for k, w in enumerate(weights)]


def antialias_taps(dst, size, out, align_corners, scale):
    """The triangle stretched by the scale where that is above 1, normalized (as Pillow)."""
    ratio = Fraction(size - 1, out - 1) if align_corners and out > 1 else Fraction(0) if align_corners else Fraction(size, out) if not scale else 1 / Fraction(scale)
    support = max(ratio, 1)
    centre = ratio * (dst + Fraction(1, 2))
    low, high = max(int(centre - support + Fraction(1, 2)), 0), min(int(centre + support + Fraction(1, 2)), size)
    weights = [(i, max(Fraction(0), 1 - abs((i - centre + Fraction(1, 2)) / support))) for i in range(low, high)]
    total = sum(w for _, w in weights)
    return [(i, w / total) for i, w in weights]


def matrices(taps, sizes, outs, align_corners, scales):
    """Per axis: exact weights (object array of Fractions) and the 0/1 matrix of taps."""
    pairs = []
    for size, out, scale in zip(sizes, outs, scales, strict=True):
        w, s = numpy.full((out, size), Fraction(0), dtype=object), numpy.zeros((out, size))
        for dst in range(out):
            for i, t in taps(dst, size, out, align_corners, scale):
                w[dst, i] += t
                s[dst, i] = 1
        pairs.append((w, s))
    return pairs


def as_balls(w):
    """Fractions as balls: quotients of integers."""
    return np.balls(numpy.vectorize(lambda f: float(f.numerator))(w)) / np.balls(numpy.vectorize(lambda f: float(f.denominator))(w))


def resampler(schema, taps, n, cases, first="self", corners=True, vector=False):
    operator = Operator(f"aten::{schema}", tolerance=TOLERANCE, modes=MODES if n > 1 else ("layouts", "deterministic", "threads"),
                        nondeterministic=("cuda.backward",))  # atomicAdd, by the list in torch.use_deterministic_algorithms

    def taken(x, output_size, align_corners, given):
        factors = given.get("scale_factors") or [given.get(k) for k in (("scales",) if n == 1 else ("scales_d", "scales_h", "scales_w")[-n:])]
        outs = output_size if output_size is not None else [math.floor(s * f) for s, f in zip(x.shape[2:], factors, strict=True)]
        return matrices(taps, x.shape[2:], outs, align_corners, factors)

    def arguments(args):
        given = dict(args)
        return given.pop(first), given.pop("output_size"), given.pop("align_corners", False), given

    @operator.reference
    def reference(**args):
        x, outs, corners, given = arguments(args)
        return np.einsum(LETTERS[n], x, *(as_balls(w) for w, _ in taken(x, outs, corners, given)))

    @operator.second
    def second(**args):
        x, outs, corners, given = arguments(args)
        out = x
        for axis, (w, _) in enumerate(taken(x, outs, corners, given), 2):
            out = numpy.moveaxis(numpy.tensordot(w.astype(float), out, axes=(1, axis)), 0, axis)
        return out

    @operator.scale
    def scale(outputs, **args):
        x, outs, corners, given = arguments(args)
        return numpy.einsum(LETTERS[n], numpy.abs(x), *(s for _, s in taken(x, outs, corners, given)))

    @operator.backward_scale
    def backward_scale(gradients, upstream, **args):
        x, outs, corners, given = arguments(args)
        return {first: numpy.einsum(LETTERS[n], numpy.abs(upstream[0]), *(s.T for _, s in taken(x, outs, corners, given)))}

    operator.cases(cases)
    operators.append(operator)


def sized(n, base, outs, given=lambda out: {}, corners=(False, True)):
    def cases(draw):
        for align_corners in corners:
            for out in outs:
                yield Case(f"{'x'.join(map(str, base))}_to_{'x'.join(map(str, out))}_ac{int(align_corners)}", self=draw.normal(2, 3, *base), output_size=out,
                           align_corners=align_corners)

    return cases


def bilinear_cases(draw):
    yield from sized(2, (4, 5), ((8, 10), (7, 6), (2, 3), (4, 5), (1, 1), (16, 3)))(draw)
    for align_corners in (False, True):
        yield Case(f"scales_ac{int(align_corners)}", self=draw.normal(2, 3, 3, 5), output_size=(3, 6), align_corners=align_corners, scales_h=1.25, scales_w=1.25,
                   source="FlagGems#5217", note="a scale factor that is given counts, not in / out")
    yield Case("report_scales", self=numpy.array([[[[0.0, 1.0, 2.0]] * 3]]), output_size=(4, 4), align_corners=False, scales_h=1.5, scales_w=1.5, source="FlagGems#5217")
    yield Case("report_size", self=numpy.array([[[[0.0, 1.0, 2.0]] * 3]]), output_size=(4, 4), align_corners=False, source="FlagGems#5217")
    yield Case("same_size", self=draw.normal(1, 2, 4, 7), output_size=(4, 7), align_corners=False, scales_h=1.0234375, scales_w=1.0234375, source="pytorch#65200")
    yield Case("channels_9", self=draw.normal(1, 9, 3, 3), output_size=(5, 4), align_corners=False)


def vec_cases(draw):
    for align_corners in (False, True):
        yield Case(f"size_ac{int(align_corners)}", input=draw.normal(2, 3, 3, 4), output_size=(5, 7), align_corners=align_corners, scale_factors=None)
        yield Case(f"factors_ac{int(align_corners)}", input=draw.normal(2, 3, 3, 4), output_size=None, align_corners=align_corners, scale_factors=(2.0, 1.5))
    yield Case("down", input=draw.normal(1, 2, 9, 8), output_size=None, align_corners=False, scale_factors=(0.5, 0.25))


resampler("upsample_linear1d", linear_taps, 1, sized(1, (5,), ((10,), (7,), (2,), (1,), (33,))))
resampler("upsample_bilinear2d", linear_taps, 2, bilinear_cases)
resampler("upsample_bilinear2d.vec", linear_taps, 2, vec_cases, first="input")
resampler("upsample_trilinear3d", linear_taps, 3, sized(3, (2, 3, 2), ((4, 6, 4), (3, 2, 5), (1, 1, 1))))
resampler("upsample_bicubic2d", cubic_taps, 2, sized(2, (4, 5), ((8, 10), (7, 6), (2, 3), (4, 5))))
resampler("_upsample_bilinear2d_aa", antialias_taps, 2, sized(2, (9, 8), ((4, 3), (5, 8), (12, 10), (1, 2)), corners=(False,)))


# Nearest: exact copies ----------------------------------------------------------------------------------------------------------------


def nearest(schema, n, half):
    operator = Operator(f"aten::{schema}", tolerance=exact(), backward_tolerance=conditioned(), plain=True, scale="multilinear",
                        modes=MODES if n > 1 else ("layouts", "deterministic", "threads"), nondeterministic=("cuda.backward",))

    def rows(x, output_size):
        return [[min(math.floor((k + half) * Fraction(size, out)), size - 1) for k in range(out)] for size, out in zip(x.shape[2:], output_size, strict=True)]

    @operator.reference
    def reference(self, output_size, **_):
        for axis, row in enumerate(rows(self, output_size), 2):
            self = self[(*(slice(None),) * axis, numpy.array(row))]
        return self

    operator.second(lambda self, output_size, **_: self[numpy.ix_(range(self.shape[0]), range(self.shape[1]), *rows(self, output_size))])

    @operator.cases
    def cases(draw):
        base = {1: (5,), 2: (4, 5), 3: (2, 3, 2)}[n]
        for factor in (1, 2, 3):
            yield Case(f"times_{factor}", self=draw.normal(2, 3, *base), output_size=tuple(s * factor for s in base))
        yield Case("odd_sizes", self=draw.normal(1, 2, *base), output_size=tuple(s + 3 for s in base))
        yield Case("down", self=draw.normal(1, 2, *(s * 2 + 1 for s in base)), output_size=base)
        yield Case("special", self=numpy.resize(numpy.array([1.0, numpy.nan, -0.0, numpy.inf, -numpy.inf]), (1, 1, *base)), output_size=tuple(s * 2 for s in base), special=True)

    operators.append(operator)


for n in (1, 2, 3):
    nearest(f"upsample_nearest{n}d", n, Fraction(0))
    nearest(f"_upsample_nearest_exact{n}d", n, Fraction(1, 2))
