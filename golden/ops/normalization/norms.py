"""Batch, layer, group, instance and RMS normalization: (x - mean) / sqrt(variance + eps) over the axes that each one takes."""

import math

import numpy

from golden import Case, Operator, Out, conditioned
from golden import numpy_ad as np

EPS = 2.0**-17
operators = []


def moments(x, axes):
    n = math.prod(x.shape[a] for a in axes)
    mean = np.sum(x, axis=axes, keepdims=True) / n
    return mean, np.sum((x - mean) * (x - mean), axis=axes, keepdims=True) / n, n


def along(v, x, axis=1):
    """A vector of channels against x."""
    return np.reshape(v, tuple(-1 if a == axis else 1 for a in range(x.ndim)))


def affine(y, weight, bias, axis=1):
    y = y if weight is None else y * along(weight, y, axis)
    return y if bias is None else y + along(bias, y, axis)


def loops(x, groups, weight, bias, eps, given=None):
    """The definition in a loop. `groups`: index tuples, one a set that is normalized together; `weight`, `bias` in x's shape."""
    out = numpy.zeros(x.shape)
    for k, g in enumerate(groups):
        mean, var = (x[g].mean(), ((x[g] - x[g].mean()) ** 2).mean()) if given is None else (given[0][k], given[1][k])
        out[g] = (x[g] - mean) / math.sqrt(var + eps) * weight[g] + bias[g]
    return out


def wide(v, x, default, axis=1):
    return numpy.broadcast_to(default if v is None else v.reshape([-1 if a == axis else 1 for a in range(x.ndim)]), x.shape)


def sources(draw, *shape):
    """(name, source, values, backward): ordinary, offset by 1e3, huge; the last as in the report, scaled by a power of two."""
    yield "plain", None, draw.normal(*shape), {}
    yield "offset_1000", "pytorch#51102", draw.integers(-64, 65, *shape) / 16 + 1000.0, {}
    yield "huge_1e18", "pytorch#162489", draw.normal(*shape) * 2.0**60, {}
    yield "huge_1e19", "pytorch#162489", draw.normal(*shape) * 2.0**66, {"note": "the sum of squares overflows float32, the answer does not"}


# Batch normalization --------------------------------------------------------------------------------------------------------------

MODES = ("layouts", "channels_last", "cudnn", "benchmark", "deterministic", "threads")


def batch(schema, outputs, library=False):
    """`outputs`: also return the saved mean and 1/sqrt(variance + eps)."""
    operator = Operator(f"aten::{schema}", tolerance=conditioned(), modes=MODES, differentiable=("input", "weight", "bias"), mutates=("running_mean", "running_var"))

    @operator.reference
    def reference(input, weight, bias, running_mean, running_var, training, momentum, eps, cudnn_enabled=None):
        axes = (0, *range(2, input.ndim))
        if not training:
            y = affine((input - along(running_mean, input)) / np.sqrt(along(running_var, input) + eps), weight, bias)
            rest = (Out(unchecked="evaluation saves nothing that is used"),) * 2 if outputs else ()
            return (y, *rest, running_mean, running_var)
        mean, var, n = moments(input, axes)
        y = affine((input - mean) / np.sqrt(var + eps), weight, bias)
        mean, var = np.reshape(mean, (-1,)), np.reshape(var, (-1,))
        left = ((1 - momentum) * running_mean + momentum * mean, (1 - momentum) * running_var + momentum * var * n / (n - 1))
        return (y, *((Out(mean, constant=True), Out(1 / np.sqrt(var + eps), constant=True)) if outputs else ()), *left)

    @operator.second
    def second(input, weight, bias, running_mean, running_var, training, momentum, eps, cudnn_enabled=None):
        channels = input.shape[1]
        sets = [(slice(None), c) for c in range(channels)]
        y = loops(input, sets, wide(weight, input, 1.0), wide(bias, input, 0.0), eps, None if training else (running_mean, running_var))
        if not training:
            return (y, *((None, None) if outputs else ()), running_mean, running_var)
        mean = numpy.array([input[:, c].mean() for c in range(channels)])
        var, unbiased = (numpy.array([input[:, c].var(ddof=d) for c in range(channels)]) for d in (0, 1))
        left = (running_mean + momentum * (mean - running_mean), running_var + momentum * (unbiased - running_var))
        return (y, *((mean, 1 / numpy.sqrt(var + eps)) if outputs else ()), *left)

    @operator.cases
    def cases(draw):
        def fixed(c, affine, training, momentum):
            given = {"weight": draw.uniform(0.5, 2, c) if affine else None, "bias": draw.normal(c) if affine else None, "running_mean": draw.normal(c),
                     "running_var": draw.uniform(0.5, 2, c), "training": training, "momentum": momentum, "eps": EPS}
            return given | ({"cudnn_enabled": True} if library else {})

        for training in (True, False):
            for shape in ((3, 2), (2, 3, 5), (2, 3, 2, 3), (2, 2, 2, 1, 3)):
                for is_affine in (True, False):
                    yield Case(f"{'train' if training else 'eval'}_s{'x'.join(map(str, shape))}_affine{int(is_affine)}", input=draw.normal(*shape), **fixed(shape[1], is_affine, training, 0.125))
            for label, source, x, more in sources(draw, 4, 2, 3):
                if label != "plain" and (training or "huge" not in label):
                    given = fixed(2, True, training, 0.125)
                    if "huge" in label:
                        given["momentum"] = 0.0
                    yield Case(f"{'train' if training else 'eval'}_{label}", input=x, **given, source=source, **more)
        yield Case("train_size_1_spatial", input=draw.normal(4, 16, 1, 1), **fixed(16, True, True, 0.5), source="pytorch#107199", note="channels_last with H = W = 1")
        yield Case("train_halves", input=numpy.array([0.0, 0.0, 10.0, 10.0]).reshape(4, 1), **fixed(1, True, True, 0.25), source="pytorch#1051",
                   note="the whole batch: +-1 before weight and bias; two shards of it would give zeros")

    return operator


operators += [batch("batch_norm", False, library=True), batch("native_batch_norm", True), batch("_native_batch_norm_legit", True)]

# Layer, RMS ------------------------------------------------------------------------------------------------------------------------


def layer(schema, outputs):
    operator = Operator(f"aten::{schema}", tolerance=conditioned(), modes=("layouts", "deterministic", "threads"))

    @operator.reference
    def reference(input, normalized_shape, weight=None, bias=None, eps=1e-5):
        axes = tuple(range(input.ndim - len(normalized_shape), input.ndim))
        mean, var, _ = moments(input, axes)
        y = (input - mean) / np.sqrt(var + eps)
        y = y if weight is None else y * weight
        y = y if bias is None else y + bias
        return (y, Out(mean, constant=True), Out(1 / np.sqrt(var + eps), constant=True)) if outputs else y

    @operator.second
    def second(input, normalized_shape, weight=None, bias=None, eps=1e-5):
        ahead = input.shape[: input.ndim - len(normalized_shape)]
        w, b = (numpy.broadcast_to(d if v is None else v, input.shape) for v, d in ((weight, 1.0), (bias, 0.0)))
        y = loops(input, list(numpy.ndindex(*ahead)), w, b, eps)
        rows = input.reshape(*ahead, -1)
        keep = (*ahead, *(1,) * len(normalized_shape))
        return (y, rows.mean(-1).reshape(keep), 1 / numpy.sqrt(rows.var(-1) + eps).reshape(keep)) if outputs else y

    @operator.cases
    def cases(draw):
        for shape, tail in (((3, 5), 1), ((1, 3), 1), ((2, 17), 1), ((2, 3, 4), 2), ((5, 64), 1), ((2, 129), 1)):
            for is_affine in (True, False):
                if shape[-1] > 32 and not is_affine:
                    continue
                yield Case(f"s{'x'.join(map(str, shape))}_n{tail}_affine{int(is_affine)}", input=draw.normal(*shape), normalized_shape=shape[-tail:],
                           weight=draw.normal(*shape[-tail:]) if is_affine else None, bias=draw.normal(*shape[-tail:]) if is_affine else None, eps=EPS)
        for label, source, x, more in sources(draw, 2, 7):
            if label != "plain":
                yield Case(label, input=x, normalized_shape=(7,), weight=draw.normal(7), bias=draw.normal(7), eps=EPS, source=source, **more)
        yield Case("report_1236e19", input=numpy.array([[1.0, 2.0, 3.0, 6.0]]) * 2.0**63, normalized_shape=(4,), weight=None, bias=None, eps=EPS, source="pytorch#162489")

    return operator


operators += [layer("layer_norm", False), layer("native_layer_norm", True)]

rms = Operator("aten::rms_norm", tolerance=conditioned(), modes=("layouts", "threads"))


@rms.reference
def rms_reference(input, normalized_shape, weight=None, eps=EPS):
    axes = tuple(range(input.ndim - len(normalized_shape), input.ndim))
    y = input / np.sqrt(np.sum(input * input, axis=axes, keepdims=True) / math.prod(normalized_shape) + eps)
    return y if weight is None else y * weight


@rms.second
def rms_second(input, normalized_shape, weight=None, eps=EPS):
    out = numpy.zeros(input.shape)
    for i in numpy.ndindex(*input.shape[: input.ndim - len(normalized_shape)]):
        out[i] = input[i] / math.sqrt((input[i] ** 2).mean() + eps) * (1 if weight is None else weight)
    return out


@rms.cases
def rms_cases(draw):
    for shape, tail in (((3, 5), 1), ((2, 17), 1), ((2, 3, 4), 2), ((3, 64), 1)):
        for weighted in (True, False):
            yield Case(f"s{'x'.join(map(str, shape))}_n{tail}_w{int(weighted)}", input=draw.normal(*shape), normalized_shape=shape[-tail:],
                       weight=draw.normal(*shape[-tail:]) if weighted else None, eps=EPS)
    for label, source, x, more in sources(draw, 2, 7):
        if label != "plain":
            yield Case(label, input=x, normalized_shape=(7,), weight=draw.normal(7), eps=EPS, source=source, **more)


operators.append(rms)

# Group, instance -------------------------------------------------------------------------------------------------------------------


def group_norm(input, num_groups, weight, bias, eps):
    split = np.reshape(input, (input.shape[0], num_groups, -1))
    mean, var, _ = moments(split, (2,))
    return affine(np.reshape((split - mean) / np.sqrt(var + eps), input.shape), weight, bias), mean, var


def group_second(input, num_groups, weight, bias, eps):
    each = input.shape[1] // num_groups
    sets = [(n, slice(g * each, (g + 1) * each)) for n in range(input.shape[0]) for g in range(num_groups)]
    return loops(input, sets, wide(weight, input, 1.0), wide(bias, input, 0.0), eps)


group = Operator("aten::group_norm", tolerance=conditioned(), modes=("layouts", "channels_last", "deterministic", "threads"))
group.reference(lambda input, num_groups, weight=None, bias=None, eps=1e-5: group_norm(input, num_groups, weight, bias, eps)[0])
group.second(lambda input, num_groups, weight=None, bias=None, eps=1e-5: group_second(input, num_groups, weight, bias, eps))


@group.cases
def group_cases(draw):
    for shape, groups in (((2, 8), 2), ((2, 6, 3), 3), ((2, 4, 2, 3), 2), ((1, 3, 3, 2), 1), ((2, 3, 2, 2), 3), ((1, 4, 2, 2, 2), 2)):
        for is_affine in (True, False):
            yield Case(f"s{'x'.join(map(str, shape))}_g{groups}_affine{int(is_affine)}", input=draw.normal(*shape), num_groups=groups, eps=EPS,
                       weight=draw.uniform(0.5, 2, shape[1]) if is_affine else None, bias=draw.normal(shape[1]) if is_affine else None)
    for label, source, x, more in sources(draw, 1, 4, 3, 2):
        if label != "plain":
            yield Case(label, input=x, num_groups=2, weight=draw.uniform(0.5, 2, 4), bias=draw.normal(4), eps=EPS, source=source, **more)
    yield Case("offset_1000_wide", input=draw.integers(-64, 65, 1, 8, 4, 4) / 16 + 1000.0, num_groups=2, weight=draw.uniform(0.5, 2, 8), bias=draw.normal(8), eps=EPS, backward=False,
               source="pytorch#54293", note="one-pass variance loses the digits: mean^2 is 1e6 times the variance")
    yield Case("size_1_spatial", input=draw.normal(2, 8, 1, 1), num_groups=2, weight=draw.uniform(0.5, 2, 8), bias=draw.normal(8), eps=EPS, source="pytorch#107199")


# The native operator demands a contiguous input (on a CPU channels_last too): group_norm makes one.
native_group = Operator("aten::native_group_norm", tolerance=conditioned(), modes=("deterministic", "threads"))


@native_group.reference
def native_group_reference(input, weight, bias, N, C, HxW, group, eps):
    y, mean, var = group_norm(input, group, weight, bias, eps)
    return y, Out(np.reshape(mean, (N, group)), constant=True), Out(np.reshape(1 / np.sqrt(var + eps), (N, group)), constant=True)


@native_group.second
def native_group_second(input, weight, bias, N, C, HxW, group, eps):
    rows = input.reshape(N, group, -1)
    return group_second(input, group, weight, bias, eps), rows.mean(-1), 1 / numpy.sqrt(rows.var(-1) + eps)


@native_group.cases
def native_group_cases(draw):
    for shape, groups in (((2, 4, 2, 3), 2), ((1, 6, 3), 3), ((2, 2, 5), 1)):
        yield Case(f"s{'x'.join(map(str, shape))}_g{groups}", input=draw.normal(*shape), weight=draw.uniform(0.5, 2, shape[1]), bias=draw.normal(shape[1]), N=shape[0], C=shape[1],
                   HxW=math.prod(shape[2:]), group=groups, eps=EPS)


instance = Operator("aten::instance_norm", tolerance=conditioned(), modes=MODES, differentiable=("input", "weight", "bias"))
instance.reference(lambda input, weight, bias, running_mean, running_var, use_input_stats, momentum, eps, cudnn_enabled: group_norm(input, input.shape[1], weight, bias, eps)[0])
instance.second(lambda input, weight, bias, running_mean, running_var, use_input_stats, momentum, eps, cudnn_enabled: group_second(input, input.shape[1], weight, bias, eps))


@instance.cases
def instance_cases(draw):
    for shape in ((2, 3, 5), (2, 2, 2, 3), (1, 3, 4, 2), (1, 2, 2, 3, 2)):
        for is_affine in (True, False):
            yield Case(f"s{'x'.join(map(str, shape))}_affine{int(is_affine)}", input=draw.normal(*shape), weight=draw.uniform(0.5, 2, shape[1]) if is_affine else None,
                       bias=draw.normal(shape[1]) if is_affine else None, running_mean=None, running_var=None, use_input_stats=True, momentum=0.125, eps=EPS, cudnn_enabled=True)
    for label, source, x, more in sources(draw, 2, 2, 7):
        if label != "plain":
            yield Case(label, input=x, weight=None, bias=None, running_mean=None, running_var=None, use_input_stats=True, momentum=0.125, eps=EPS, cudnn_enabled=True, source=source, **more)


operators += [group, native_group, instance]
