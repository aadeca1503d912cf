"""convolution_backward as an operator of its own: the three gradients of a convolution, of both directions."""

import numpy
from autograd import make_vjp

from golden import Case, Operator
from golden import numpy_ad as np
from golden.ops.convolution.convolution import MODES, TOLERANCE, attributes, convolution, definition, transposed

operator = Operator("aten::convolution_backward", tolerance=TOLERANCE, modes=MODES, scale="multilinear", differentiable=(), nondeterministic=("cuda.forward",))
transpose_of = transposed


@operator.reference
def reference(grad_output, input, weight, bias_sizes, stride, padding, dilation, transposed, output_padding, groups, output_mask):
    """Autograd's vector-Jacobian products of the forward definition; the bias collects the upstream gradient of its channel."""
    def forward(x, w):
        return transpose_of(x, w, None, stride, padding, output_padding, groups, dilation) if transposed else convolution(x, w, None, stride, padding, dilation, groups)

    pull, _ = make_vjp(forward, argnum=(0, 1))(input, weight)
    return *pull(grad_output), np.sum(grad_output, axis=(0, *range(2, grad_output.ndim)))


@operator.second
def second(grad_output, input, weight, bias_sizes, stride, padding, dilation, transposed, output_padding, groups, output_mask):
    """By linearity: the forward definition of one element of the input (the weight) at a time, against the upstream gradient."""
    extra = output_padding if transposed else None

    def against(which, shape):
        out = numpy.zeros(shape)
        for i in numpy.ndindex(*shape):
            unit = numpy.zeros(shape)
            unit[i] = 1
            x, w = (unit, weight) if which == 0 else (input, unit)
            out[i] = (definition(x, w, None, stride, padding, dilation, groups, extra) * grad_output).sum()
        return out

    return against(0, input.shape), against(1, weight.shape), grad_output.sum(axis=(0, *range(2, grad_output.ndim)))


@operator.cases
def cases(draw):
    for spatial, size, count in ((1, (7,), 6), (2, (5, 4), 4), (3, (3, 2, 3), 2)):
        for back in (False, True):
            for row, (stride, dilation, groups, padding, extra) in enumerate(attributes(spatial, count)):
                extra = tuple(min(e, max(s, d) - 1) for e, s, d in zip(extra, stride, dilation, strict=True)) if back else (0,) * spatial
                padding = tuple(max(p, -(-(d * 2 + 1 - n) // 2)) for p, d, n in zip(padding, dilation, size, strict=True))
                x, w = draw.normal(1, 4, *size), draw.normal(4, 4 // groups, *(3,) * spatial)
                shape = definition(x, w, None, stride, padding, dilation, groups, extra if back else None).shape
                yield Case(f"{spatial}d_{'back' if back else 'ahead'}_{row}", grad_output=draw.normal(*shape), input=x, weight=w, bias_sizes=(shape[1],), stride=stride, padding=padding,
                           dilation=dilation, transposed=back, output_padding=extra, groups=groups, output_mask=(True, True, True))
