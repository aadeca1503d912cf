"""Convolution and transposed convolution in 1 to 3 dimensions: sums over kernel positions; checked by the definition, element by element."""

import itertools

import numpy

from golden import Case, Operator, conditioned
from golden import numpy_ad as np

MODES = ("layouts", "channels_last", "math", "cudnn", "benchmark", "deterministic", "threads")
TOLERANCE = conditioned(tf32=32800)
operators = []


def padded(x, before, after):
    """Zeros around (or a crop, where negative) the spatial axes of (N, C, …)."""
    x = np.pad(x, ((0, 0), (0, 0), *((max(a, 0), max(b, 0)) for a, b in zip(before, after, strict=True))))
    return x[(slice(None), slice(None), *(slice(max(-a, 0), n - max(-b, 0)) for a, b, n in zip(before, after, x.shape[2:], strict=True)))]


def correlate(x, weight, stride, dilation, groups):
    """out[n, o, y] = sum over c, k of x[n, c, y stride + k dilation] weight[o, c, k]; x is padded already."""
    outs, ins, *kernel = weight.shape
    size = [(n - d * (k - 1) - 1) // s + 1 for n, k, s, d in zip(x.shape[2:], kernel, stride, dilation, strict=True)]
    parts = []
    for g in range(groups):
        xs, ws = x[:, g * ins : (g + 1) * ins], weight[g * (outs // groups) : (g + 1) * (outs // groups)]
        total = 0
        for k in itertools.product(*map(range, kernel)):
            window = xs[(slice(None), slice(None), *(slice(i * d, i * d + s * (m - 1) + 1, s) for i, d, s, m in zip(k, dilation, stride, size, strict=True)))]
            total = total + np.einsum("nc...,oc->no...", window, ws[(slice(None), slice(None), *k)])
        parts.append(total)
    return np.concatenate(parts, axis=1)


def with_bias(out, bias):
    return out if bias is None else out + np.reshape(bias, (1, -1, *[1] * (out.ndim - 2)))


def convolution(input, weight, bias, stride, padding, dilation, groups):
    return with_bias(correlate(padded(input, padding, padding), weight, stride, dilation, groups), bias)


def transposed(input, weight, bias, stride, padding, output_padding, groups, dilation):
    """Zeros between the inputs, then a correlation with the flipped kernel, input and output channels swapped."""
    x, spatial = input, input.ndim - 2
    for axis, s in enumerate(stride, 2):
        rest = [np.value(x) * 0] * (s - 1)
        wide = np.reshape(np.stack([x, *rest], axis=axis + 1), (*x.shape[:axis], x.shape[axis] * s, *x.shape[axis + 1 :]))
        x = wide[(*(slice(None),) * axis, slice(0, x.shape[axis] * s - s + 1))]
    ins, outs, *kernel = weight.shape
    w = weight[(slice(None), slice(None), *(slice(None, None, -1),) * spatial)]
    w = np.concatenate([np.swapaxes(w[g * (ins // groups) : (g + 1) * (ins // groups)], 0, 1) for g in range(groups)], axis=0)
    before = [d * (k - 1) - p for d, k, p in zip(dilation, kernel, padding, strict=True)]
    after = [b + o for b, o in zip(before, output_padding, strict=True)]
    return with_bias(correlate(padded(x, before, after), w, (1,) * spatial, dilation, groups), bias)


def definition(input, weight, bias, stride, padding, dilation, groups, output_padding=None):
    """One product at a time, into its output element; transposed where `output_padding` is given."""
    spatial, kernel = input.ndim - 2, weight.shape[2:]
    back = output_padding is not None
    channels = weight.shape[1] * groups if back else weight.shape[0]
    if back:
        size = [(n - 1) * s - 2 * p + d * (k - 1) + o + 1 for n, s, p, d, k, o in zip(input.shape[2:], stride, padding, dilation, kernel, output_padding, strict=True)]
    else:
        size = [(n + 2 * p - d * (k - 1) - 1) // s + 1 for n, s, p, d, k in zip(input.shape[2:], stride, padding, dilation, kernel, strict=True)]
    out = numpy.zeros((input.shape[0], channels, *size)) + (0 if bias is None else bias.reshape(1, -1, *[1] * spatial))
    per_in, per_out = input.shape[1] // groups, channels // groups
    small, large = (input.shape[2:], size) if back else (size, input.shape[2:])
    for y in numpy.ndindex(*small):
        for k in numpy.ndindex(*kernel):
            z = tuple(a * s - p + b * d for a, b, s, p, d in zip(y, k, stride, padding, dilation, strict=True))
            if not all(0 <= a < n for a, n in zip(z, large, strict=True)):
                continue
            for g in range(groups):
                i, o = slice(g * per_in, (g + 1) * per_in), slice(g * per_out, (g + 1) * per_out)
                if back:
                    out[(slice(None), o, *z)] += input[(slice(None), i, *y)] @ weight[(i, slice(None), *k)]
                else:
                    out[(slice(None), o, *y)] += input[(slice(None), i, *z)] @ weight[(o, slice(None), *k)].T
    return out


def attributes(spatial, n):
    """stride x dilation x groups x padding (x output_padding), crossed; rotated so that axes differ."""
    rows = [(1, 1, 1, 0, 0), (2, 1, 2, 1, 1), (1, 2, 1, 1, 0), (2, 2, 2, 2, 1), (3, 1, 4, 1, 2), (3, 2, 1, 2, 1), (2, 1, 1, 0, 0), (1, 1, 4, 2, 0)]
    for stride, dilation, groups, padding, extra in rows[:n]:
        turn = lambda v, other: tuple(v if a % 2 == 0 else other for a in range(spatial))  # noqa: E731
        yield turn(stride, max(stride - 1, 1)), turn(dilation, 1), groups, turn(padding, max(padding - 1, 0)), turn(extra, 0)


def forward_cases(draw, spatial, size, n):
    for stride, dilation, groups, padding, _ in attributes(spatial, n):
        name = f"s{''.join(map(str, stride))}_d{''.join(map(str, dilation))}_g{groups}_p{''.join(map(str, padding))}"
        yield Case(name, input=draw.normal(2, 4, *size), weight=draw.normal(4, 4 // groups, *(3,) * spatial), bias=draw.normal(4),
                   stride=stride, padding=padding, dilation=dilation, groups=groups)
    one = (1,) * spatial
    yield Case("one_channel", input=draw.normal(2, 1, *size), weight=draw.normal(3, 1, *(3,) * spatial), padding=one, source="pytorch#82060")
    yield Case("pointwise_size_1", input=draw.normal(3, 16, *one), weight=draw.normal(8, 16, *one), bias=draw.normal(8), source="pytorch#107199")
    yield Case("counting", input=numpy.ones((1, 2, *size)), weight=numpy.ones((2, 2, *(3,) * spatial)), padding=one, note="every product is 1: the output counts the taps")
    yield Case("integers", input=draw.integers(-7, 8, 1, 4, *size).astype(float), weight=draw.integers(-7, 8, 4, 4, *(3,) * spatial).astype(float),
               note="integers: exact in any order of IEEE additions")
    yield Case("one_by_one_kernel", input=draw.normal(1, 5, *size), weight=draw.normal(7, 5, *one), stride=(2,) * spatial)


def transposed_cases(draw, spatial, size, n):
    for stride, dilation, groups, padding, extra in attributes(spatial, n):
        extra = tuple(min(e, max(s, d) - 1) for e, s, d in zip(extra, stride, dilation, strict=True))
        name = f"s{''.join(map(str, stride))}_d{''.join(map(str, dilation))}_g{groups}_p{''.join(map(str, padding))}_o{''.join(map(str, extra))}"
        yield Case(name, input=draw.normal(2, 4, *size), weight=draw.normal(4, 4 // groups, *(3,) * spatial), bias=draw.normal(4 // groups * groups),
                   stride=stride, padding=padding, dilation=dilation, groups=groups, output_padding=extra)
    one = (1,) * spatial
    yield Case("counting", input=numpy.ones((1, 1, *size)), weight=numpy.ones((1, 1, *(3,) * spatial)), stride=(2,) * spatial, padding=one, output_padding=one,
               dilation=(2,) * spatial, source="pytorch#1565", note="dilation was dropped: the pattern of the counts shows it")
    yield Case("channels_16", input=draw.normal(1, 16, *(2,) * spatial), weight=draw.normal(16, 3, *(3,) * spatial), stride=(2,) * spatial, padding=one, output_padding=one,
               source="tvm#19524")
    yield Case("pointwise_size_1", input=draw.normal(2, 6, *one), weight=draw.normal(6, 4, *one), bias=draw.normal(4))


def extra_2d(draw):
    for c in (23, 24, 25, 31, 32, 33):
        yield Case(f"depthwise_{c}", input=draw.normal(1, c, 6, 6), weight=draw.normal(c, 1, 3, 3), stride=(2, 2), padding=(1, 1), groups=c, source="pytorch#50042")
    yield Case("depthwise_ones", input=numpy.ones((1, 24, 6, 6)), weight=numpy.ones((24, 1, 3, 3)), stride=(2, 2), padding=(1, 1), groups=24, source="pytorch#50042")
    yield Case("six_channels", input=draw.normal(1, 6, 5, 5), weight=draw.normal(8, 6, 3, 3), source="pytorch#21597")
    yield Case("lenet_stride_75", input=draw.normal(1, 6, 15, 11), weight=draw.normal(16, 6, 5, 5), bias=draw.normal(16), stride=(7, 5), source="paddle#64591")
    for c in (31, 32, 33):
        yield Case(f"k{c}", input=draw.normal(1, c, 5, 5), weight=draw.normal(c, c, 3, 3), padding=(1, 1), source="mlx#4242")
    zeros = numpy.zeros((1, 8, 5, 6))
    zeros[:, 3, 1:4, 2] = draw.normal(1, 3)
    yield Case("structural_zeros", input=zeros, weight=draw.normal(8, 8, 3, 3), padding=(1, 1), source="mlx#4242", note="one column of one channel: a transform's rounding shows where only zeros are summed")
    yield Case("k64_integers", input=draw.integers(-3, 4, 1, 32, 4, 4).astype(float), weight=draw.integers(-3, 4, 64, 32, 3, 3).astype(float), padding=(1, 1), backward=False, source="mlx#4242",
               note="integers: exact in any order of IEEE additions")
    for shape, kernel in (((3, 1, 1, 7), (1, 3)), ((1, 5, 6, 1), (3, 1)), ((2, 8, 1, 1), (3, 3))):
        yield Case(f"size_1_{'x'.join(map(str, shape))}", input=draw.normal(*shape), weight=draw.normal(4, shape[1], *kernel), bias=draw.normal(4), padding=tuple(k // 2 for k in kernel),
                   source="pytorch#82060", note="strides of axes of size 1 are ambiguous between the layouts")
    wide = 2.0 ** draw.integers(-26, 27, 6, 3, 3, 3)
    yield Case("non_negative", input=draw.uniform(0, 2.0**-6, 1, 3, 6, 6), weight=wide, source="pytorch#30934", note="a sum of non-negative products is not negative")


for spatial, size, n in ((1, (9,), 8), (2, (7, 6), 8), (3, (4, 3, 4), 5)):
    # cuDNN's BackwardData ALGO_0 and BackwardFilter ALGO_0 and ALGO_3 use atomics and are allowed unless deterministic mode forbids them.
    modes = tuple(m for m in MODES if spatial > 1 or m != "channels_last")
    ahead = Operator(f"aten::conv{spatial}d", tolerance=TOLERANCE, modes=modes, scale="multilinear", nondeterministic=("cuda.backward",))
    one, none = (1,) * spatial, (0,) * spatial
    ahead.reference(lambda input, weight, bias=None, stride=one, padding=none, dilation=one, groups=1: convolution(input, weight, bias, stride, padding, dilation, groups))
    ahead.second(lambda input, weight, bias=None, stride=one, padding=none, dilation=one, groups=1: definition(input, weight, bias, stride, padding, dilation, groups))

    @ahead.cases
    def cases(draw, spatial=spatial, size=size, n=n):
        yield from forward_cases(draw, spatial, size, n)
        yield from extra_2d(draw) if spatial == 2 else ()

    # A transposed convolution is cuDNN's BackwardData, so its forward may use atomics too.
    back = Operator(f"aten::conv_transpose{spatial}d{'.input' if spatial > 1 else ''}", tolerance=TOLERANCE, modes=modes, scale="multilinear",
                    nondeterministic=("cuda.forward", "cuda.backward"))
    back.reference(lambda input, weight, bias=None, stride=one, padding=none, output_padding=none, groups=1, dilation=one:
                   transposed(input, weight, bias, stride, padding, output_padding, groups, dilation))
    back.second(lambda input, weight, bias=None, stride=one, padding=none, output_padding=none, groups=1, dilation=one:
                definition(input, weight, bias, stride, padding, dilation, groups, output_padding))
    back.cases(lambda draw, spatial=spatial, size=size, n=n: transposed_cases(draw, spatial, tuple(s // 2 + 1 for s in size), n))
    operators += [ahead, back]


# The same through other doors: convolution and _convolution (all dimensions, both directions), and padding by name ---------------------------


transpose_of = transposed


def general(name, library):
    """`library`: benchmark, deterministic, cudnn_enabled, allow_tf32, which change no value beyond the bound."""
    operator = Operator(f"aten::{name}", tolerance=TOLERANCE, modes=MODES, scale="multilinear", nondeterministic=("cuda.forward", "cuda.backward"))

    @operator.reference
    def reference(input, weight, bias, stride, padding, dilation, transposed, output_padding, groups, **_):
        if transposed:
            return transpose_of(input, weight, bias, stride, padding, output_padding, groups, dilation)
        return convolution(input, weight, bias, stride, padding, dilation, groups)

    @operator.second
    def second(input, weight, bias, stride, padding, dilation, transposed, output_padding, groups, **_):
        return definition(input, weight, bias, stride, padding, dilation, groups, output_padding if transposed else None)

    @operator.cases
    def cases(draw):
        more = {"benchmark": False, "cudnn_enabled": True, "allow_tf32": False} if library else {}
        for spatial, size in ((1, (7,)), (2, (5, 4)), (3, (3, 2, 3))):
            for transposed in (False, True):
                for row, (stride, dilation, groups, padding, extra) in enumerate(attributes(spatial, 4)):
                    extra = tuple(min(e, max(s, d) - 1) for e, s, d in zip(extra, stride, dilation, strict=True))
                    # dilation 2 and kernel 3 span five: padding makes room
                    padding = tuple(max(p, -(-(d * 2 + 1 - n) // 2)) for p, d, n in zip(padding, dilation, size, strict=True))
                    if library:
                        more["deterministic"] = row % 2 == 1
                    yield Case(f"{spatial}d_{'back' if transposed else 'ahead'}_{row}", input=draw.normal(1, 4, *size), weight=draw.normal(4, 4 // groups, *(3,) * spatial),
                               bias=draw.normal(4) if row % 2 else None, stride=stride, padding=padding, dilation=dilation, transposed=transposed,
                               output_padding=extra if transposed else (0,) * spatial, groups=groups, **more)
        if not library:
            for c in (25, 33):
                yield Case(f"depthwise_{c}", input=draw.normal(1, c, 3, 3), weight=draw.normal(c, 1, 3, 3), bias=None, stride=(1, 1), padding=(1, 1), dilation=(1, 1), transposed=False,
                           output_padding=(0, 0), groups=c, source="pytorch#50042")

    return operator


def named(spatial, size):
    """padding="same" adds dilation (kernel - 1) zeros an axis, the odd one behind; "valid" adds none."""
    operator = Operator(f"aten::conv{spatial}d.padding", tolerance=TOLERANCE, modes=tuple(m for m in MODES if spatial > 1 or m != "channels_last"), scale="multilinear",
                        nondeterministic=("cuda.backward",))

    def sides(weight, padding, dilation):
        whole = [d * (k - 1) if padding == "same" else 0 for d, k in zip(dilation, weight.shape[2:], strict=True)]
        return [w // 2 for w in whole], [w - w // 2 for w in whole]

    @operator.reference
    def reference(input, weight, bias, stride, padding, dilation, groups):
        return with_bias(correlate(padded(input, *sides(weight, padding, dilation)), weight, stride, dilation, groups), bias)

    @operator.second
    def second(input, weight, bias, stride, padding, dilation, groups):
        before, after = sides(weight, padding, dilation)
        wide = numpy.pad(input, ((0, 0), (0, 0), *zip(before, after, strict=True)))
        return definition(wide, weight, bias, stride, (0,) * spatial, dilation, groups)

    @operator.cases
    def cases(draw):
        for kernel, dilation, groups in ((3, 1, 1), (2, 1, 2), (2, 2, 1), (4, 1, 4), (1, 1, 1)):
            shape = tuple(max(kernel - k, 1) for k in range(spatial))
            yield Case(f"same_k{kernel}_d{dilation}_g{groups}", input=draw.normal(2, 4, *size), weight=draw.normal(4, 4 // groups, *shape), bias=draw.normal(4), stride=(1,) * spatial,
                       padding="same", dilation=(dilation,) * spatial, groups=groups)
        yield Case("same_counting", input=numpy.ones((1, 1, *size)), weight=numpy.ones((1, 1, *(2,) * spatial)), bias=None, stride=(1,) * spatial, padding="same", dilation=(1,) * spatial,
                   groups=1, note="an even kernel: the odd zero is behind")
        for stride, dilation, groups in ((1, 1, 1), (2, 1, 2)):
            yield Case(f"valid_s{stride}_d{dilation}_g{groups}", input=draw.normal(2, 4, *size), weight=draw.normal(4, 4 // groups, *(2,) * spatial), bias=None, stride=(stride,) * spatial,
                       padding="valid", dilation=(dilation,) * spatial, groups=groups)
        yield Case("same_strided", input=draw.normal(1, 1, *size), weight=draw.normal(1, 1, *(3,) * spatial), bias=None, stride=(2,) * spatial, padding="same", dilation=(1,) * spatial,
                   groups=1, expect="error", note="documented: same is not for a stride")

    return operator


operators += [general("convolution", False), general("_convolution", True), named(1, (7,)), named(2, (5, 4)), named(3, (3, 4, 3))]
