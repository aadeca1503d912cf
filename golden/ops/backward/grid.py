"""grid_sampler_2d_backward and its 3-D form: the gradients of the sampled input and of the grid, given the upstream gradient."""

import numpy
from autograd import make_vjp

from golden import Case, Operator, Out, conditioned
from golden import numpy_ad as np
from golden.ops.resampling.grid import BICUBIC, BILINEAR, BORDER, NEAREST, REFLECTION, ZEROS, each, sample, sampler

STEP = 2.0**-18
BOTH = (True, True)
operators = []


def pulled(grad_output, input, grid, *modes):
    """(input's, grid's gradient): autograd's, of the forward formula."""
    def loss(i, g):
        return np.total(sample(i, g, *modes) * grad_output)

    pull, _ = make_vjp(loss, argnum=(0, 1))(input, grid)
    return pull(np.balls(numpy.ones(1)))


def reference(grad_output, input, grid, interpolation_mode, padding_mode, align_corners, output_mask):
    first, second = pulled(grad_output, input, grid, interpolation_mode, padding_mode, align_corners)
    if interpolation_mode != NEAREST:
        return first, second
    return first, Out(second, trivial="nearest does not depend on the grid but in jumps")


def by_differences(grad_output, input, grid, interpolation_mode, padding_mode, align_corners, output_mask):
    """The input's gradient tap by tap; the grid's by central differences of the sum over taps, which is a polynomial of degree 3 at most."""
    modes = (interpolation_mode, padding_mode, align_corners)
    first, slope = numpy.zeros(input.shape), numpy.zeros(grid.shape)
    for o, i, w in each(input, grid, *modes):
        first[i] += grad_output[o] * w
    for axis in range(grid.shape[-1]):
        for sign in (1, -1):
            moved = grid.copy()
            moved[..., axis] += sign * STEP
            slope[..., axis] += sign * (grad_output * sampler.second_function(input, moved, *modes)).sum(1) / (2 * STEP)
    return first, slope


def scale(outputs, grad_output, input, grid, interpolation_mode, padding_mode, align_corners, output_mask):
    """As the forward's gradients: the sum over the taps of |upstream|, and of |upstream x| times half the input's size."""
    given = {"input": outputs[0], "grid": outputs[1]}
    found = sampler.backward_scale_function(given, [grad_output], input, grid, interpolation_mode=interpolation_mode, padding_mode=padding_mode, align_corners=align_corners)
    return found["input"], found["grid"]


def backward(dimensions):
    operator = Operator(f"aten::grid_sampler_{dimensions}d_backward", tolerance=conditioned(float32=64, float64=64, why="docs/numerics.md#interpolation"), differentiable=(),
                        modes=("layouts", "channels_last", "deterministic", "threads"), nondeterministic=("cuda.forward",))
    operator.reference(reference)
    operator.second(by_differences)
    operator.scale(scale)

    @operator.cases
    def cases(draw):
        image, points = ((4, 3), (2, 3)) if dimensions == 2 else ((2, 3, 2), (1, 2, 2))
        for mode, name in ((BILINEAR, "bilinear"), (NEAREST, "nearest"), (BICUBIC, "bicubic")):
            since = {"source": "pytorch#194787", "note": "LibTorch refuses five dimensions before 2.15"} if mode == BICUBIC and dimensions == 3 else {}
            for padding, label in ((ZEROS, "zeros"), (BORDER, "border"), (REFLECTION, "reflection")):
                for align in (False, True):
                    yield Case(f"{name}_{label}_ac{int(align)}", grad_output=draw.normal(1, 2, *points), input=draw.normal(1, 2, *image), grid=draw.uniform(-1.5, 1.5, 1, *points, dimensions),
                               interpolation_mode=mode, padding_mode=padding, align_corners=align, output_mask=BOTH, **since)
        yield Case("batch", grad_output=draw.normal(2, 3, *points), input=draw.normal(2, 3, *image), grid=draw.uniform(-1, 1, 2, *points, dimensions), interpolation_mode=BILINEAR,
                   padding_mode=ZEROS, align_corners=True, output_mask=BOTH)
        place = draw.uniform(-0.5, 0.5, 1, *(1,) * dimensions, dimensions)
        yield Case("one_place", grad_output=draw.normal(1, 2, *points, 5)[..., 0], input=draw.normal(1, 2, *image), grid=numpy.broadcast_to(place, (1, *points, dimensions)).copy(),
                   interpolation_mode=BILINEAR, padding_mode=ZEROS, align_corners=False, output_mask=BOTH, note="all points add to the same pixels")
        yield Case("outside", grad_output=draw.normal(1, 2, *points), input=draw.normal(1, 2, *image), grid=draw.uniform(3, 4, 1, *points, dimensions), interpolation_mode=BILINEAR,
                   padding_mode=ZEROS, align_corners=False, output_mask=BOTH, trivial="every sample lies outside: no gradient")

    return operator


operators += [backward(2), backward(3)]
