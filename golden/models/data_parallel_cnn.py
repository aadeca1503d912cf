"""A small convolutional network for DataParallel: convolution, BatchNorm, ReLU, max pooling, linear. In train mode BatchNorm normalizes every
shard with that shard's own statistics, so each number of shards has a golden of its own (the report: ResNet-50 on two GPUs is off by 0.25)."""

from __future__ import annotations

import sys
from typing import Any

import autograd.numpy as anp
import numpy as np

from golden.draw import Draw
from golden.models import _data_parallel as dp

NAME, SOURCE = "data_parallel_cnn", "pytorch#21144"
NOTE = "conv 3 -> 6 (3x3, no bias), BatchNorm2d, ReLU, MaxPool2d(2), Linear 24 -> 5, mean cross entropy over the whole batch"
CHANNELS, IN, SIDE, KERNEL, CLASSES = 6, 3, 6, 3, 5
OUT, HALF = SIDE - KERNEL + 1, (SIDE - KERNEL + 1) // 2
EPS, MOMENTUM = 1e-5, 0.1
LAYERS_AT = 64  # the batch whose unsharded layers are stored
MODEL = sys.modules[__name__]


def weights() -> tuple[dict[str, np.ndarray], dict[str, np.ndarray]]:
    draw = Draw(f"{NAME}/weights")
    parameters = {
        "conv.weight": draw.uniform(-0.2, 0.2, CHANNELS, IN, KERNEL, KERNEL, stored=False),
        "bn.weight": draw.uniform(0.5, 1.5, CHANNELS, stored=False),
        "bn.bias": draw.uniform(-0.5, 0.5, CHANNELS, stored=False),
        "fc.weight": draw.uniform(-0.2, 0.2, CLASSES, CHANNELS * HALF * HALF, stored=False),
        "fc.bias": draw.uniform(-0.2, 0.2, CLASSES, stored=False),
    }
    buffers = {"bn.running_mean": draw.uniform(-0.25, 0.25, CHANNELS, stored=False), "bn.running_var": draw.uniform(0.5, 1.5, CHANNELS, stored=False)}
    return parameters, buffers


parameters, buffers = weights()
# Images with an offset, as images have. The first draw in which float32 decides every ReLU and every maximum, in every layout.
x = Draw(f"{NAME}/input/8").uniform(-1, 3, dp.MOST, IN, SIDE, SIDE, stored=False)
y = Draw(f"{NAME}/labels").integers(0, CLASSES, dp.MOST, stored=False)


def patches(images: np.ndarray) -> np.ndarray:
    """(n OUT OUT, IN KERNEL KERNEL): a row a position, so that the convolution is a product of matrices."""
    windows = np.lib.stride_tricks.sliding_window_view(np.asarray(images), (KERNEL, KERNEL), axis=(2, 3))
    return windows.transpose(0, 2, 3, 1, 4, 5).reshape(-1, IN * KERNEL * KERNEL)


def largest(values: np.ndarray) -> np.ndarray:
    """(n, CHANNELS HALF HALF): where in the flattened (n OUT OUT, CHANNELS) matrix the maximum of each 2x2 window stands, in the order of flatten."""
    cells = np.arange(values.size).reshape(-1, HALF, 2, HALF, 2, CHANNELS).transpose(0, 5, 1, 3, 2, 4).reshape(-1, CHANNELS * HALF * HALF, 4)
    best = values.reshape(-1)[cells].argmax(-1)
    return np.take_along_axis(cells, best[..., None], -1)[..., 0]


def convolved(t: dp.Tape, images: np.ndarray) -> tuple[dp.Node, dp.Node]:
    columns = t.constant(patches(images))
    weight = t.constant(np.asarray(parameters["conv.weight"]).reshape(CHANNELS, -1))
    return columns, t.matmul(columns, t.transposed(weight))


def normalized(t: dp.Tape, conv: dp.Node, mean: dp.Node, var: dp.Node) -> tuple[dp.Node, dp.Node, dp.Node, np.ndarray]:
    """BatchNorm's output, 1 / sqrt(var + eps), the normalized values and their magnitude before cancellation.

    A kernel may compute (x - mean) inv weight + bias or x alpha + (bias - mean alpha): the second form's rounding is the larger."""
    gamma, beta = t.constant(parameters["bn.weight"]), t.constant(parameters["bn.bias"])
    shifted = t.rounded(t.made(var.value + EPS, [(var, lambda g: g)]), var.size + EPS)
    root = 1 / np.sqrt(shifted.value)
    inv = t.rounded(t.unary(shifted, root, -root / (2 * shifted.value)), 4 * root)
    size = (conv.size + mean.size) * inv.size
    xhat = t.multiply(t.subtract(conv, mean), inv)
    z = t.add(t.multiply(xhat, gamma), beta)
    return t.rounded(z, 4 * size * gamma.size + 2 * beta.size + z.size), inv, xhat, size


def head(t: dp.Tape, z: dp.Node) -> tuple[dp.Node, dp.Node, np.ndarray, np.ndarray]:
    """(relu, pooled, index of the maxima, mask) behind BatchNorm."""
    mask = (z.value > 0).astype(float)
    relu = t.scaled(z, mask)
    index = largest(np.asarray(relu.value, np.float64))
    return relu, t.picked(relu, index), index, mask


def run(t: dp.Tape, images: np.ndarray, labels: np.ndarray, whole: int) -> dict[str, dp.Node]:
    """One shard in train mode, forward and backward."""
    columns, conv = convolved(t, images)
    m = conv.value.shape[0]
    mean = t.scaled(t.total(conv), 1 / np.asarray(m, t.dtype))
    centred = t.subtract(conv, mean)
    # E[(x - mean)^2], Welford's or E[x^2] - mean^2: the last one's terms are x^2 and mean^2
    var = t.scaled(t.total(t.multiply(centred, centred), 2 * (conv.size**2 + mean.size**2)), 1 / np.asarray(m, t.dtype))
    z, inv, xhat, size = normalized(t, conv, mean, var)
    relu, pooled, index, mask = head(t, z)
    weight = t.constant(parameters["fc.weight"])
    logits = dp.linear(t, pooled, weight, t.constant(parameters["fc.bias"]))
    loss, g = dp.cross_entropy(t, logits, np.asarray(labels), whole)
    g_pooled, g_weight, g_bias = dp.linear_backward(t, g, pooled, weight)
    g_z = t.scaled(t.placed(g_pooled, index, z.value.shape), mask)
    g_conv, g_gamma, g_beta = normalized_backward(t, g_z, xhat, inv, size, m)
    g_kernel = t.reshaped(t.matmul(t.transposed(g_conv), columns), CHANNELS, IN, KERNEL, KERNEL)
    t.layers = {"conv": conv, "bn": z, "relu": relu, "pool": pooled, "fc": logits}
    gradients = {"conv.weight": g_kernel, "bn.weight": g_gamma, "bn.bias": g_beta, "fc.weight": g_weight, "fc.bias": g_bias}
    return {
        "output": logits, "loss": loss, **{f"gradient.{n}": g for n, g in gradients.items()},
        "state.bn.running_mean": running(t, "bn.running_mean", mean, 1.0), "state.bn.running_var": running(t, "bn.running_var", var, m / (m - 1)),
    }


def normalized_backward(t: dp.Tape, g: dp.Node, xhat: dp.Node, inv: dp.Node, size: np.ndarray, m: int) -> tuple[dp.Node, dp.Node, dp.Node]:
    """dx = weight inv (g - sum(g) / m - xhat sum(g xhat) / m), and the gradients of weight and bias (Ioffe and Szegedy 2015)."""
    gamma = t.constant(parameters["bn.weight"])
    g_beta = t.total(g)
    g_gamma = t.total(t.multiply(g, xhat), 3 * g.size * size)
    part = 1 / np.asarray(m, t.dtype)
    inner = t.subtract(t.subtract(g, t.scaled(g_beta, part)), t.multiply(xhat, t.scaled(g_gamma, part)))
    g_x = t.multiply(t.multiply(inner, inv), gamma)
    local = 6 * gamma.size * inv.size * (g.size + (g_beta.size + size * g_gamma.size) / m)
    return t.rounded(g_x, local), g_gamma, g_beta


def running(t: dp.Tape, name: str, statistic: dp.Node, correction: float) -> dp.Node:
    """(1 - momentum) old + momentum statistic; momentum itself is rounded too."""
    old = np.asarray(buffers[name])
    new = t.add(t.constant((1 - MOMENTUM) * old), t.scaled(statistic, MOMENTUM * correction))
    return t.rounded(new, 4 * (np.abs(old) + MOMENTUM * correction * statistic.size))


def evaluate(t: dp.Tape, images: np.ndarray) -> dict[str, dp.Node]:
    """The logits in eval mode: running statistics, no shard sees another."""
    _, conv = convolved(t, images)
    z, *_ = normalized(t, conv, t.constant(buffers["bn.running_mean"]), t.constant(buffers["bn.running_var"]))
    _, pooled, _, _ = head(t, z)
    return {"output": dp.linear(t, pooled, t.constant(parameters["fc.weight"]), t.constant(parameters["fc.bias"]))}


def plain_forward(w: dict[str, Any], images: np.ndarray, mean: Any = None, var: Any = None):
    """Logits by the definitions, in NCHW; the images' own statistics unless some are given."""
    windows = np.lib.stride_tricks.sliding_window_view(np.asarray(images), (KERNEL, KERNEL), axis=(2, 3))
    conv = anp.einsum("ncpqij,ocij->nopq", windows, w["conv.weight"])
    if mean is None:
        mean = anp.mean(conv, axis=(0, 2, 3))
        var = anp.mean((conv - mean[:, None, None]) ** 2, axis=(0, 2, 3))
    z = (conv - mean[:, None, None]) / anp.sqrt(var[:, None, None] + EPS) * w["bn.weight"][:, None, None] + w["bn.bias"][:, None, None]
    windows = anp.reshape(anp.maximum(z, 0), (len(images), CHANNELS, HALF, 2, HALF, 2))
    pooled = anp.reshape(anp.max(anp.max(windows, axis=5), axis=3), (len(images), -1))
    return pooled @ w["fc.weight"].T + w["fc.bias"]


def second(sizes: tuple[int, ...]) -> dict[str, np.ndarray]:
    """Loss and gradients by the second formula, differentiated by HIPS autograd."""
    return dp.second_gradients(plain_forward, {n: np.asarray(v) for n, v in parameters.items()}, np.asarray(x), np.asarray(y), sizes)


def second_evaluate() -> np.ndarray:
    statistics = [np.asarray(v) for v in buffers.values()]
    return plain_forward({n: np.asarray(v) for n, v in parameters.items()}, np.asarray(x), *statistics)


def reach(t: dp.Tape) -> tuple[np.ndarray, np.ndarray]:
    """(z, how far float32 may carry it): the errors of convolution, mean and variance, magnitudes added."""
    conv, mean, z = t.layers["conv"].size, np.abs(t.layers["conv"].value.mean(0)), t.layers["bn"]
    m, centred = len(conv), np.abs(t.layers["conv"].value - t.layers["conv"].value.mean(0))
    var, gamma = (centred**2).mean(0) + EPS, np.abs(parameters["bn.weight"])
    made = {id(node): local for node, local in t.sources}
    e_conv = dp.LAMBDA * dp.U * made[id(t.layers["conv"])]
    e_mean = e_conv.mean(0) + dp.LAMBDA * dp.U * np.sqrt(m + 1) * conv.mean(0)
    e_var = 2 * (centred * (e_conv + e_mean)).mean(0) + dp.LAMBDA * dp.U * np.sqrt(m + 1) * 2 * (conv**2 + mean**2).mean(0)
    e_inv = e_var / (2 * var) + 5 * dp.U
    return z.value, gamma / np.sqrt(var) * (e_conv + e_mean + centred * e_inv) + dp.U * made[id(z)]


def demand_decided(sizes: tuple[int, ...]) -> None:
    """In float32 no ReLU may switch and no other element of a window may win: gradients would jump, and no bound of rounding would hold."""
    for tape, _ in dp.shards_of(MODEL, np.float64, sizes):
        z, error = reach(tape)
        if (np.abs(z) <= error).any():
            raise ValueError(f"{NAME}/{sizes}: a ReLU is undecided: choose another draw of the input")
        cells = np.arange(z.size).reshape(-1, HALF, 2, HALF, 2, CHANNELS).transpose(0, 5, 1, 3, 2, 4).reshape(-1, 4)
        order = np.argsort(z.reshape(-1)[cells], 1)[:, -2:]
        values, errors = (np.take_along_axis(a.reshape(-1)[cells], order, 1) for a in (z, error))
        if ((values[:, 1] > 0) & (values[:, 1] - values[:, 0] <= errors.sum(1))).any():
            raise ValueError(f"{NAME}/{sizes}: a maximum is undecided: choose another draw of the input")


def unsharded_layers(store: Any) -> dict[str, str]:
    """What every layer gives for LAYERS_AT samples that are one shard, as NCHW: what the shards are measured against."""
    ((tape, _),) = dp.shards_of(MODEL, np.longdouble, (LAYERS_AT,))
    out = {}
    for name, node in tape.layers.items():
        value = np.float64(node.value)
        if name in ("conv", "bn", "relu"):
            value = value.reshape(LAYERS_AT, OUT, OUT, CHANNELS).transpose(0, 3, 1, 2)
        elif name == "pool":
            value = value.reshape(LAYERS_AT, CHANNELS, HALF, HALF)
        out[name] = store(f"layer.{name}", value)
    return out


def build(store: Any) -> dict[str, Any]:
    for sizes in dp.layouts():
        demand_decided(sizes)
    return dp.document(MODEL, store) | {"eval": dp.evaluation(MODEL, store), "layers": {"batch": LAYERS_AT, "outputs": unsharded_layers(store)}}
