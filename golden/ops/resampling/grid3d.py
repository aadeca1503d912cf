"""grid_sampler_3d, and grid_sampler, which takes 4-D and 5-D: trilinear and nearest, by the conventions of grid.py on three axes."""

import itertools

import numpy

from golden import Case, Operator, conditioned
from golden import numpy_ad as np
from golden.ops.resampling.grid import BICUBIC, BILINEAR, BORDER, NEAREST, REFLECTION, ZEROS, pixels, place, taps


def fetch(input, *index):
    """input[n, c, *index] as (N, C, *grid), 0 outside."""
    sizes, n = input.shape[2:], index[0].ndim - 1
    inside = numpy.logical_and.reduce([(i >= 0) & (i < s) for i, s in zip(index, sizes, strict=True)])
    batch = numpy.arange(input.shape[0]).reshape(-1, *[1] * n)
    values = input[(batch, slice(None), *(numpy.clip(i, 0, s - 1) for i, s in zip(index, sizes, strict=True)))]
    return np.transpose(values * inside[..., None], (0, n + 1, *range(1, n + 1)))


def sample(input, grid, interpolation_mode, padding_mode, align_corners):
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


def each(input, grid, mode, padding_mode, align_corners):
    """(output index, input index, weight) of every tap."""
    sizes = input.shape[2:]
    for b, *place_ in numpy.ndindex(*grid.shape[:-1]):
        axes = [taps(float(g), s, mode, padding_mode, align_corners) for g, s in zip(grid[(b, *place_)][::-1], sizes, strict=True)]
        for tap in itertools.product(*(a.items() for a in axes)):
            yield (b, slice(None), *place_), (b, slice(None), *(i for i, _ in tap)), float(numpy.prod([w for _, w in tap]))


def sampler(name):
    # The bound and the scale are those of grid_sampler_2d: a coordinate errs by about 3 u times the input's size.
    operator = Operator(f"aten::{name}", tolerance=conditioned(float32=64, float64=64, why="docs/numerics.md#interpolation"),
                        modes=("layouts", "channels_last", "deterministic", "threads"), nondeterministic=("cuda.backward",))
    operator.zero_gradient = "nearest does not depend on the grid but in jumps"
    operator.reference(sample)

    @operator.second
    def second(input, grid, interpolation_mode, padding_mode, align_corners):
        out = numpy.zeros((*input.shape[:2], *grid.shape[1:-1]))
        for o, i, w in each(input, grid, interpolation_mode, padding_mode, align_corners):
            out[o] += input[i] * w
        return out

    @operator.scale
    def scale(outputs, input, grid, **modes):
        out = numpy.abs(outputs[0])
        for o, i, _ in each(input, grid, *modes.values()):
            out[o] += numpy.abs(input[i])
        return out

    @operator.backward_scale
    def backward_scale(gradients, upstream, input, grid, **modes):
        g = numpy.abs(upstream[0])
        scales = {"input": numpy.abs(gradients["input"]), "grid": numpy.abs(gradients["grid"])}
        for o, i, _ in each(input, grid, *modes.values()):
            scales["input"][i] += g[o]
            scales["grid"][(o[0], *o[2:])] += (g[o] * numpy.abs(input[i])).sum() * numpy.array(input.shape[:1:-1]) / 2
        return scales

    @operator.cases
    def cases(draw):
        for mode, label in ((BILINEAR, "bilinear"), (NEAREST, "nearest")):
            for padding, edge in ((ZEROS, "zeros"), (BORDER, "border"), (REFLECTION, "reflection")):
                for align in (False, True):
                    yield Case(f"{label}_{edge}_ac{int(align)}", input=draw.normal(1, 2, 3, 4, 2), grid=draw.uniform(-1.25, 1.25, 1, 2, 2, 3, 3), interpolation_mode=mode,
                               padding_mode=padding, align_corners=align)
        yield Case("batch", input=draw.normal(2, 3, 2, 2, 3), grid=draw.uniform(-1.25, 1.25, 2, 1, 2, 2, 3), interpolation_mode=BILINEAR, padding_mode=ZEROS, align_corners=False)
        yield Case("far_outside", input=draw.normal(1, 2, 2, 3, 2), grid=draw.uniform(3, 4, 1, 1, 2, 2, 3), interpolation_mode=BILINEAR, padding_mode=ZEROS, align_corners=False,
                   trivial="every sample lies outside: zeros")
        x = numpy.broadcast_to(numpy.arange(5.0), (1, 1, 2, 2, 5)).copy()
        w, v, u = numpy.meshgrid(*(numpy.linspace(-1, 1, n) for n in (2, 2, 5)), indexing="ij")
        for padding, edge in ((BORDER, "border"), (REFLECTION, "reflection")):
            yield Case(f"identity_{edge}", input=x, grid=numpy.stack([u, v, w], axis=-1)[None], interpolation_mode=BILINEAR, padding_mode=padding, align_corners=True, smooth=False,
                       source="pytorch#23925", note="at the edge the coordinate is held: no gradient there")
        yield Case("bicubic_refused", input=draw.normal(1, 1, 2, 2, 2), grid=draw.uniform(-1, 1, 1, 1, 1, 2, 3), interpolation_mode=BICUBIC, padding_mode=ZEROS, align_corners=False,
                   expect="error", note="bicubic is for 4-D inputs alone")

    return operator


operators = [sampler("grid_sampler_3d")]
