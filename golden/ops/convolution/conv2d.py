"""conv2d as a sum over kernel positions."""

import numpy

from golden import Case, Operator, conditioned
from golden import numpy_ad as np

operator = Operator(
    "aten::conv2d",
    tolerance=conditioned(tf32=16400),
    modes=("layouts", "channels_last", "math", "cudnn", "benchmark", "deterministic", "threads"),
    scale="multilinear",
    # cuDNN's BackwardData ALGO_0 and BackwardFilter ALGO_0 and ALGO_3 use atomics and are allowed unless deterministic mode forbids them.
    nondeterministic=("cuda.backward",),
)


@operator.reference
def conv2d(input, weight, bias=None, stride=(1, 1), padding=(0, 0), dilation=(1, 1), groups=1):
    x = np.pad(input, ((0, 0), (0, 0), (padding[0],) * 2, (padding[1],) * 2))
    out_channels, per_group, kh, kw = weight.shape
    height = (x.shape[2] - dilation[0] * (kh - 1) - 1) // stride[0] + 1
    width = (x.shape[3] - dilation[1] * (kw - 1) - 1) // stride[1] + 1
    parts = []
    for g in range(groups):
        xs = x[:, g * per_group : (g + 1) * per_group]
        ws = weight[g * (out_channels // groups) : (g + 1) * (out_channels // groups)]
        total = 0
        for i in range(kh):
            for j in range(kw):
                top, left = i * dilation[0], j * dilation[1]
                window = xs[:, :, top : top + stride[0] * (height - 1) + 1 : stride[0], left : left + stride[1] * (width - 1) + 1 : stride[1]]
                total = total + np.einsum("nchw,oc->nohw", window, ws[:, :, i, j])
        parts.append(total)
    out = np.concatenate(parts, axis=1)
    return out if bias is None else out + np.reshape(bias, (1, -1, 1, 1))


@operator.second
def conv2d_loops(input, weight, bias=None, stride=(1, 1), padding=(0, 0), dilation=(1, 1), groups=1):
    """The definition, one output element at a time."""
    x = numpy.pad(input, ((0, 0), (0, 0), (padding[0],) * 2, (padding[1],) * 2))
    o, c, kh, kw = weight.shape
    h = (x.shape[2] - dilation[0] * (kh - 1) - 1) // stride[0] + 1
    w = (x.shape[3] - dilation[1] * (kw - 1) - 1) // stride[1] + 1
    out = numpy.zeros((x.shape[0], o, h, w))
    for k, y, z in numpy.ndindex(o, h, w):
        g = k // (o // groups)
        rows = slice(y * stride[0], y * stride[0] + dilation[0] * (kh - 1) + 1, dilation[0])
        columns = slice(z * stride[1], z * stride[1] + dilation[1] * (kw - 1) + 1, dilation[1])
        out[:, k, y, z] = (x[:, g * c : (g + 1) * c, rows, columns] * weight[k]).sum(axis=(1, 2, 3)) + (0 if bias is None else bias[k])
    return out


@operator.cases
def cases(draw):
    for stride, dilation, groups, padding in (
        ((1, 1), (1, 1), 1, (0, 0)), ((2, 1), (1, 1), 2, (1, 1)), ((1, 2), (2, 1), 1, (1, 0)), ((2, 2), (2, 2), 2, (2, 2)), ((7, 5), (1, 1), 1, (1, 0))
    ):
        name = f"s{stride[0]}{stride[1]}_d{dilation[0]}{dilation[1]}_g{groups}_p{padding[0]}{padding[1]}"
        yield Case(name, input=draw.normal(2, 4, 9, 8), weight=draw.normal(6, 4 // groups, 3, 3), bias=draw.normal(6),
                   stride=stride, padding=padding, dilation=dilation, groups=groups)
    for c in (23, 24, 25):
        yield Case(f"depthwise_{c}", input=draw.normal(1, c, 6, 6), weight=draw.normal(c, 1, 3, 3), stride=(2, 2), padding=(1, 1), groups=c,
                   source="pytorch#50042")
    yield Case("one_channel", input=draw.normal(2, 1, 7, 6), weight=draw.normal(3, 1, 3, 3), padding=(1, 1), source="pytorch#82060")
    yield Case("six_channels", input=draw.normal(1, 6, 5, 5), weight=draw.normal(8, 6, 3, 3), source="pytorch#21597")
    yield Case("pointwise_h1_w1", input=draw.normal(3, 16, 1, 1), weight=draw.normal(8, 16, 1, 1))
    yield Case("k32", input=draw.normal(1, 32, 5, 5), weight=draw.normal(32, 32, 3, 3), padding=(1, 1), source="mlx#4242")
