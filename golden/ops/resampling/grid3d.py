"""grid_sampler_3d: trilinear, nearest and, since LibTorch 2.15, cubic, by the conventions of grid.py on three axes."""

import numpy

from golden import Case, Operator, conditioned
from golden.ops.resampling.grid import BICUBIC, BILINEAR, BORDER, NEAREST, REFLECTION, ZEROS, by_taps, sample


def sampler(name):
    # The bound and the scale are those of grid_sampler_2d: a coordinate errs by about 3 u times the input's size.
    operator = Operator(f"aten::{name}", tolerance=conditioned(float32=64, float64=64, why="docs/numerics.md#interpolation"),
                        modes=("layouts", "channels_last", "deterministic", "threads"), nondeterministic=("cuda.backward",))
    operator.zero_gradient = "nearest does not depend on the grid but in jumps"
    operator.reference(sample)

    by_taps(operator)

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
        for padding, edge in ((ZEROS, "zeros"), (BORDER, "border"), (REFLECTION, "reflection")):
            for align in (False, True):
                yield Case(f"bicubic_{edge}_ac{int(align)}", input=draw.normal(1, 2, 3, 2, 2), grid=draw.uniform(-1.25, 1.25, 1, 1, 1, 3, 3), interpolation_mode=BICUBIC, padding_mode=padding,
                           align_corners=align, source="pytorch#194787", note="LibTorch refuses five dimensions before 2.15")

    return operator


operators = [sampler("grid_sampler_3d")]
