"""grid_sampler_2d and affine_grid_generator: input values at coordinates in [-1, 1]."""

import itertools
import math

import numpy

from golden import Case, Operator, conditioned
from golden import numpy_ad as np

BILINEAR, NEAREST, BICUBIC = 0, 1, 2
ZEROS, BORDER, REFLECTION = 0, 1, 2
sampler = Operator("aten::grid_sampler_2d", tolerance=conditioned(float32=64, float64=64, why="docs/numerics.md#interpolation"),
                   modes=("layouts", "channels_last", "cudnn", "deterministic", "threads"), nondeterministic=("cuda.backward",))
affine = Operator("aten::affine_grid_generator", tolerance=conditioned(), modes=("threads",), differentiable=("theta",))
either = Operator("aten::grid_sampler", tolerance=sampler.tolerance, modes=sampler.modes, nondeterministic=sampler.nondeterministic)
operators = [sampler, affine, either]


def pixels(g, size, align_corners):
    return (g + 1) / 2 * (size - 1) if align_corners else ((g + 1) * size - 1) / 2


def held(x, size):
    """Held inside [0, size - 1]; no gradient where it is held (also at the edge itself)."""
    v = np.floats(x)
    return np.where(v <= 0, 0, np.where(v >= size - 1, size - 1, x))


def reflected(x, size, align_corners):
    """Mirrored at the centres of the edge pixels (align_corners) or at their outer edges, then held inside."""
    low, span = (0.0, size - 1) if align_corners else (-0.5, size)
    if span == 0:
        return 0 * x
    v = np.floats(x) - low
    flips = numpy.floor(numpy.abs(v) / span)
    away = np.where(v < 0, low - x, x - low) - flips * span
    return held(np.where(flips % 2 == 0, away + low, span - away + low), size)


def place(x, size, padding_mode, align_corners):
    return held(x, size) if padding_mode == BORDER else reflected(x, size, align_corners) if padding_mode == REFLECTION else x


def fetch(input, *index):
    """input[n, c, *index] as (N, C, *grid), 0 outside."""
    sizes, n = input.shape[2:], index[0].ndim - 1
    inside = numpy.logical_and.reduce([(i >= 0) & (i < s) for i, s in zip(index, sizes, strict=True)])
    batch = numpy.arange(input.shape[0]).reshape(-1, *[1] * n)
    values = input[(batch, slice(None), *(numpy.clip(i, 0, s - 1) for i, s in zip(index, sizes, strict=True)))]
    return np.transpose(values * inside[..., None], (0, n + 1, *range(1, n + 1)))


def kernel(t):
    """Keys' four weights, a = -3/4."""
    a = -0.75

    def far(d):
        return ((a * d - 5 * a) * d + 8 * a) * d - 4 * a

    def near(d):
        return ((a + 2) * d - (a + 3)) * d * d + 1

    return far(t + 1), near(t), near(1 - t), far(2 - t)


def linear_or_nearest(input, grid, interpolation_mode, padding_mode, align_corners):
    """(Bi-, tri-)linear between the neighbours, or the nearest pixel, on any number of axes."""
    sizes = input.shape[2:]
    at = [place(pixels(grid[..., len(sizes) - 1 - k], s, align_corners), s, padding_mode, align_corners) for k, s in enumerate(sizes)]
    if interpolation_mode == NEAREST:
        return fetch(input, *(numpy.rint(np.floats(v)).astype(int) for v in at)) + 0 * np.reshape(np.total(grid), (1,) * input.ndim)
    low = [numpy.floor(np.floats(v)).astype(int) for v in at]
    t = [(v - b)[:, None] for v, b in zip(at, low, strict=True)]
    total = 0
    for corner in itertools.product((0, 1), repeat=len(sizes)):
        part = fetch(input, *(b + k for b, k in zip(low, corner, strict=True)))
        for k, w in zip(corner, t, strict=True):
            part = part * (w if k else 1 - w)
        total = total + part
    return total


@sampler.reference
def sample(input, grid, interpolation_mode, padding_mode, align_corners):
    """Any of the three modes on any number of axes; a cubic sampler takes four pixels an axis, each of them placed by the padding."""
    if interpolation_mode != BICUBIC:
        return linear_or_nearest(input, grid, interpolation_mode, padding_mode, align_corners)
    sizes = input.shape[2:]
    at = [pixels(grid[..., len(sizes) - 1 - k], s, align_corners) for k, s in enumerate(sizes)]
    low = [numpy.floor(np.floats(v)).astype(int) for v in at]
    weights = [kernel((v - b)[:, None]) for v, b in zip(at, low, strict=True)]

    def index(i, size):
        if padding_mode == ZEROS:
            return i
        return numpy.rint(np.floats(place(np.balls(i.astype(float)), size, padding_mode, align_corners))).astype(int)

    total = 0
    for tap in itertools.product(range(4), repeat=len(sizes)):
        part = fetch(input, *(index(b - 1 + k, s) for b, k, s in zip(low, tap, sizes, strict=True)))
        for k, w in zip(tap, weights, strict=True):
            part = part * w[k]
        total = total + part
    return total


def cubic(d, a=-0.75):
    return (a + 2) * d**3 - (a + 3) * d**2 + 1 if d <= 1 else a * d**3 - 5 * a * d**2 + 8 * a * d - 4 * a if d < 2 else 0.0


def mirror(v, size, align_corners):
    if align_corners:
        period = 2 * (size - 1)
        return min(abs(v) % period, period - abs(v) % period) if period else 0.0
    v = (v + 0.5) % (2 * size)
    return min(max((v if v < size else 2 * size - v) - 0.5, 0.0), size - 1.0)


def taps(g, size, mode, padding_mode, align_corners):
    """{pixel: weight} of a coordinate along one axis."""
    def settle(v):
        return min(max(v, 0.0), size - 1.0) if padding_mode == BORDER else mirror(v, size, align_corners) if padding_mode == REFLECTION else v

    v = (g + 1) / 2 * (size - 1) if align_corners else ((g + 1) * size - 1) / 2
    v = v if mode == BICUBIC else settle(v)
    base = math.floor(v)
    if mode == BICUBIC:
        pairs = [(base + k, cubic(abs(v - base - k))) for k in (-1, 0, 1, 2)]
        pairs = [(i if padding_mode == ZEROS else round(settle(float(i))), w) for i, w in pairs]
    else:
        pairs = [(int(numpy.rint(v)), 1.0)] if mode == NEAREST else [(base, base + 1 - v), (base + 1, v - base)]
    out = {}
    for i, w in pairs:
        if 0 <= i < size:
            out[i] = out.get(i, 0.0) + w
    return out


def each(input, grid, mode, padding_mode, align_corners):
    """(output index, input index, weight) of every tap."""
    sizes = input.shape[2:]
    for b, *place_ in numpy.ndindex(*grid.shape[:-1]):
        axes = [taps(float(g), s, mode, padding_mode, align_corners) for g, s in zip(grid[(b, *place_)][::-1], sizes, strict=True)]
        for tap in itertools.product(*(a.items() for a in axes)):
            yield (b, slice(None), *place_), (b, slice(None), *(i for i, _ in tap)), float(numpy.prod([w for _, w in tap]))


def by_taps(operator):
    """Register what the taps give: the second formula and the scales. A coordinate, and with it a weight, errs by about 3 u times the input's size."""

    @operator.second
    def second(input, grid, interpolation_mode, padding_mode, align_corners):
        """One output pixel at a time, every input pixel with its weight."""
        out = numpy.zeros((*input.shape[:2], *grid.shape[1:-1]))
        for o, i, w in each(input, grid, interpolation_mode, padding_mode, align_corners):
            out[o] += input[i] * w
        return out

    @operator.scale
    def scale(outputs, input, grid, **modes):
        """The sum of |x| over the taps."""
        out = numpy.abs(outputs[0])
        for o, i, _ in each(input, grid, *modes.values()):
            out[o] += numpy.abs(input[i])
        return out

    @operator.backward_scale
    def backward_scale(gradients, upstream, input, grid, **modes):
        """The same for the taps' gradients; the grid's is a difference of the taps, times the upstream gradient and half the input's size."""
        g = numpy.abs(upstream[0])
        scales = {"input": numpy.abs(gradients["input"]), "grid": numpy.abs(gradients["grid"])}
        for o, i, _ in each(input, grid, *modes.values()):
            scales["input"][i] += g[o]
            scales["grid"][(o[0], *o[2:])] += (g[o] * numpy.abs(input[i])).sum() * numpy.array(input.shape[:1:-1]) / 2
        return scales


by_taps(sampler)


@sampler.cases
def sampler_cases(draw):
    for mode, name in ((BILINEAR, "bilinear"), (NEAREST, "nearest"), (BICUBIC, "bicubic")):
        for padding, label in ((ZEROS, "zeros"), (BORDER, "border"), (REFLECTION, "reflection")):
            for align in (False, True):
                grid = draw.uniform(-1.5, 1.5, 1, 2, 3, 2)
                yield Case(f"{name}_{label}_ac{int(align)}", input=draw.normal(1, 2, 4, 3), grid=grid, interpolation_mode=mode, padding_mode=padding, align_corners=align)
    x = numpy.broadcast_to(numpy.arange(5.0), (1, 1, 2, 5)).copy()
    u, v = numpy.meshgrid(numpy.linspace(-1, 1, 5), numpy.linspace(-1, 1, 2))
    for padding, label in ((BORDER, "border"), (REFLECTION, "reflection")):
        yield Case(f"identity_{label}", input=x, grid=numpy.stack([u, v], axis=-1)[None], interpolation_mode=BILINEAR, padding_mode=padding, align_corners=True, smooth=False,
                   source="pytorch#23925", note="at the edge the coordinate is held: no gradient there")


@either.cases
def either_cases(draw):
    """grid_sampler chooses cuDNN or the native kernel, of two or three dimensions."""
    for mode, name in ((BILINEAR, "bilinear"), (NEAREST, "nearest")):
        for padding, label in ((ZEROS, "zeros"), (BORDER, "border"), (REFLECTION, "reflection")):
            for size in ((4, 3), (2, 3, 2)):
                yield Case(f"{name}_{label}_{len(size)}d", input=draw.normal(1, 2, *size), grid=draw.uniform(-1.5, 1.5, 1, *(2,) * len(size), len(size)), interpolation_mode=mode, padding_mode=padding,
                           align_corners=padding == ZEROS, **({"modes": ["layouts", "cudnn", "deterministic", "threads"]} if len(size) == 3 else {}))
    yield Case("bicubic_3d", input=draw.normal(1, 1, 3, 2, 2), grid=draw.uniform(-1.25, 1.25, 1, 1, 1, 2, 3), interpolation_mode=BICUBIC, padding_mode=BORDER, align_corners=False,
               modes=["layouts", "deterministic", "threads"], source="pytorch#194787", note="LibTorch refuses five dimensions before 2.15")


either.reference(sample)
by_taps(either)
either.zero_gradient = sampler.zero_gradient = "nearest does not depend on the grid but in jumps"


@affine.reference
def affine_reference(theta, size, align_corners):
    """theta (N, n, n + 1) times (x, y[, z], 1) at the pixels' centres."""
    n, _, *sizes = size

    def axis(k):
        if k == 1:
            return np.balls(numpy.zeros(1))
        line = (np.balls(numpy.arange(k, dtype=float)) * 2 - (k - 1)) / (k - 1)
        return line if align_corners else line * (k - 1) / k

    lines = [numpy.broadcast_to(axis(m).reshape([-1 if k == d else 1 for k in range(len(sizes))]), sizes) for d, m in enumerate(sizes)]
    base = np.stack([*lines[::-1], np.balls(numpy.ones(sizes))], axis=-1)
    return np.reshape(np.einsum("pk,nik->npi", base.reshape(-1, len(sizes) + 1), theta), (n, *sizes, len(sizes)))


@affine.second
def affine_second(theta, size, align_corners):
    n, _, *sizes = size
    out = numpy.zeros((n, *sizes, len(sizes)))
    for b, *at in numpy.ndindex(n, *sizes):
        place = [(2 * k / (m - 1) - 1 if m > 1 else 0.0) if align_corners else (2 * k + 1) / m - 1 for k, m in zip(at[::-1], sizes[::-1], strict=True)]
        out[(b, *at)] = theta[b] @ numpy.array([*place, 1.0])
    return out


@affine.cases
def affine_cases(draw):
    for align in (False, True):
        for size in ((2, 1, 3, 4), (1, 2, 1, 5), (1, 1, 2, 3, 2), (2, 1, 1, 2, 4)):
            yield Case(f"s{'x'.join(map(str, size))}_ac{int(align)}", theta=draw.normal(size[0], len(size) - 2, len(size) - 1), size=size, align_corners=align)
