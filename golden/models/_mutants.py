"""Mutants of LeNet: a seeded rule that draws them, their layers on NumPy arrays of any float dtype, and the error that rounding explains.

A mutant is a list of layers, each a dict of JSON values; the suite builds its modules from the same list. What is the same for every mutant is the
order: conv1 act1 pool1 conv2 act2 pool2 flatten fc1 act3 fc2 act4 fc3, two images of 28x28, ten classes, cross entropy."""

from __future__ import annotations

import hashlib
import math
from typing import Any

import numpy

from golden.draw import Draw

NAMES = ("conv1", "act1", "pool1", "conv2", "act2", "pool2", "flatten", "fc1", "act3", "fc2", "act4", "fc3")
IMAGES, SIDE, CLASSES = 2, 28, 10
STEPS = ("floor", "round", "sign", "heaviside", "argmax", "topk", "fake_quantize", "ceil")
PLACES = (4, 3, 2, 1)  # behind which of the four products
SMOOTH = ("relu", "elu", "leaky_relu", "tanh", "sigmoid", "softplus", "hardtanh")
Layer = dict[str, Any]


# ---- the rule


def mutant(number: int, attempt: int) -> list[Layer]:
    """The layers of mutant `number`; the next attempt where an earlier one was refused. Mutant k has the discontinuity k mod 8 in place k / 8 mod 4."""
    draw = Draw(f"mutation_sweep/{number}/{attempt}")

    def pick(*options: Any) -> Any:
        return options[int(draw.integers(0, len(options), 1)[0])]

    def convolution(inputs: int, channels: int) -> Layer:
        back = pick(False, True)
        one: Layer = {"op": "conv_transpose2d" if back else "conv2d", "channels": channels, "kernel": [pick(5, 5, 2, 3, 4, 7), pick(5, 5, 2, 3, 4, 7)]}
        one["stride"] = [pick(1, 1, 2, 3), pick(1, 1, 2, 3)]
        one["padding"] = [pick(0, 0, 1, 2), pick(0, 0, 1, 2)]
        one["dilation"] = [pick(1, 1, 2), pick(1, 1, 2)]
        one["groups"] = pick(1, 2) if inputs % 2 == 0 else 1
        if back:
            one["output_padding"] = [pick(0, max(s, d) - 1) for s, d in zip(one["stride"], one["dilation"], strict=True)]
        return one

    def activation(step: str | None) -> Layer:
        op = step or pick("relu", "relu", *SMOOTH)
        extra = {"elu": {"alpha": 0.1}, "leaky_relu": {"slope": 0.125}, "topk": {"k": 3}, "fake_quantize": {"scale": 0.25, "low": -8, "high": 7}}
        return {"op": op, **extra.get(op, {})}

    def pool() -> Layer:
        kernel = pick(2, 2, 3)
        return {"op": pick("max_pool2d", "max_pool2d", "avg_pool2d"), "kernel": kernel, "stride": pick(2, 2, 3), "padding": pick(0, 0, 1)}

    step = {PLACES[number // len(STEPS) % len(PLACES)]: STEPS[number % len(STEPS)]}
    first = [convolution(1, 6), activation(step.get(1)), pool(), convolution(6, 16), activation(step.get(2)), pool(), {"op": "flatten"}]
    tail = [{"op": "linear", "features": 120}, activation(step.get(3)), {"op": "linear", "features": 84}, activation(step.get(4)), {"op": "linear", "features": CLASSES}]
    return first + tail


def title(layers: list[Layer]) -> str:
    """Its discontinuities and where they are: part of the name of its checks."""
    return "_".join(f"{one['op']}_{name}" for name, one in zip(NAMES, layers, strict=True) if one["op"] in STEPS)


def shapes(layers: list[Layer]) -> list[tuple[int, ...]]:
    """The shape before the first layer and behind each; ValueError for a mutant that cannot be, or is too large."""
    out: list[tuple[int, ...]] = [(IMAGES, 1, SIDE, SIDE)]
    for name, one in zip(NAMES, layers, strict=True):
        shape = out[-1]
        if one["op"] in ("conv2d", "conv_transpose2d"):
            out.append((IMAGES, one["channels"], *sides(one, shape[2:])))
        elif one["op"].endswith("pool2d"):
            out.append((*shape[:2], *((n + 2 * one["padding"] - one["kernel"]) // one["stride"] + 1 for n in shape[2:])))
        elif one["op"] == "flatten":
            out.append((IMAGES, math.prod(shape[1:])))
        else:
            out.append((IMAGES, one["features"]) if one["op"] == "linear" else shape)
        limit = {"conv1": 10_000, "conv2": 1600, "flatten": 400}.get(name, 10_000)
        if min(out[-1]) < 1 or math.prod(out[-1][1:]) > limit:
            raise ValueError(f"{name} would have the shape {out[-1]}")
    return out


def sides(one: Layer, before: tuple[int, ...]) -> list[int]:
    rows = zip(before, one["kernel"], one["stride"], one["padding"], one["dilation"], one.get("output_padding", (0, 0)), strict=True)
    if one["op"] == "conv2d":
        return [(n + 2 * p - d * (k - 1) - 1) // s + 1 for n, k, s, p, d, _ in rows]
    return [(n - 1) * s - 2 * p + d * (k - 1) + o + 1 for n, k, s, p, d, o in rows]


def spec(name: str, kind: str, shape: tuple[int, ...], low: float = 0, high: float = 1) -> dict[str, Any]:
    """A draw whose key is the beginning of its name's SHA-256: both sides know it without storing it."""
    digest = hashlib.sha256(name.encode()).digest()
    return {"kind": kind, "shape": list(shape), "key": [int.from_bytes(digest[:4], "little"), int.from_bytes(digest[4:8], "little")], "low": low, "high": high}


def weight_specs(number: int, layers: list[Layer]) -> dict[str, dict[str, Any]]:
    """Uniform within sqrt(6 / fan in) (He), so that activations stay near 1 and a rounding has something to round; biases within 1/2."""
    out = {}
    for name, one, shape in zip(NAMES, layers, shapes(layers), strict=False):
        if one["op"] == "linear":
            weight, outputs, fan = (one["features"], shape[1]), one["features"], shape[1]
        elif one["op"].startswith("conv"):
            outputs, groups = one["channels"], one["groups"]
            weight = (shape[1], outputs // groups, *one["kernel"]) if one["op"] == "conv_transpose2d" else (outputs, shape[1] // groups, *one["kernel"])
            fan = shape[1] // groups * math.prod(one["kernel"])
        else:
            continue
        bound = float(numpy.float32(math.sqrt(6 / fan)))
        out[f"{name}.weight"] = spec(f"mutation_sweep/{number}/{name}.weight", "uniform", weight, -bound, bound)
        out[f"{name}.bias"] = spec(f"mutation_sweep/{number}/{name}.bias", "uniform", (outputs,), -0.5, 0.5)
    return out


# ---- products: (B, C, H, W) by kernels (O, C / groups, kh, kw); `gather` is a convolution, `scatter` its transpose


def _slices(one: Layer, k: tuple[int, int], size: tuple[int, ...]) -> tuple[slice, ...]:
    return tuple(slice(i * d, i * d + s * (n - 1) + 1, s) for i, d, s, n in zip(k, one["dilation"], one["stride"], size, strict=True))


def _groups(one: Layer, outputs: int, inputs: int) -> list[tuple[slice, slice]]:
    o, c = outputs // one["groups"], inputs // one["groups"]
    return [(slice(g * o, (g + 1) * o), slice(g * c, (g + 1) * c)) for g in range(one["groups"])]


def _around(x: numpy.ndarray, one: Layer, kernel: tuple[int, ...], size: tuple[int, ...]) -> numpy.ndarray:
    """x with its padding in front, and as much behind as the last tap of `size` outputs reaches (a transposed convolution's output is cut there)."""
    reach = [s * (n - 1) + d * (k - 1) + 1 for s, n, d, k in zip(one["stride"], size, one["dilation"], kernel, strict=True)]
    behind = [max(r - p - n, 0) for r, p, n in zip(reach, one["padding"], x.shape[2:], strict=True)]
    return numpy.pad(x, ((0, 0), (0, 0), *zip(one["padding"], behind, strict=True)))


def gather(x: numpy.ndarray, w: numpy.ndarray, one: Layer, size: tuple[int, ...]) -> numpy.ndarray:
    x = _around(x, one, w.shape[2:], size)
    out = numpy.zeros((x.shape[0], w.shape[0], *size), dtype=x.dtype)
    for k in numpy.ndindex(*w.shape[2:]):
        window = x[(slice(None), slice(None), *_slices(one, k, size))]
        for o, c in _groups(one, w.shape[0], x.shape[1]):
            out[:, o] += numpy.einsum("bchw,oc->bohw", window[:, c], w[(o, slice(None), *k)], optimize=x.dtype == numpy.float64)
    return out


def scatter(y: numpy.ndarray, w: numpy.ndarray, one: Layer, channels: int, size: tuple[int, ...]) -> numpy.ndarray:
    padding, small = one["padding"], y.shape[2:]
    whole = [max(s * (n - 1) + d * (k - 1) + 1, p + m) for s, n, d, k, p, m in
             zip(one["stride"], small, one["dilation"], w.shape[2:], padding, size, strict=True)]
    out = numpy.zeros((y.shape[0], channels, *whole), dtype=y.dtype)
    for k in numpy.ndindex(*w.shape[2:]):
        into = out[(slice(None), slice(None), *_slices(one, k, small))]
        for o, c in _groups(one, w.shape[0], channels):
            into[:, c] += numpy.einsum("bohw,oc->bchw", y[:, o], w[(o, slice(None), *k)], optimize=y.dtype == numpy.float64)
    return out[:, :, padding[0] : padding[0] + size[0], padding[1] : padding[1] + size[1]]


def kernel_gradient(large: numpy.ndarray, small: numpy.ndarray, one: Layer, shape: tuple[int, ...]) -> numpy.ndarray:
    large = _around(large, one, shape[2:], small.shape[2:])
    out = numpy.zeros(shape, dtype=large.dtype)
    for k in numpy.ndindex(*shape[2:]):
        window = large[(slice(None), slice(None), *_slices(one, k, small.shape[2:]))]
        for o, c in _groups(one, shape[0], large.shape[1]):
            out[(o, slice(None), *k)] = numpy.einsum("bchw,bohw->oc", window[:, c], small[:, o])
    return out


def product(one: Layer, x: numpy.ndarray, w: numpy.ndarray, b: numpy.ndarray | None) -> numpy.ndarray:
    if one["op"] == "linear":
        return numpy.einsum("bi,oi->bo", x, w) + (0 if b is None else b)
    size = tuple(sides(one, x.shape[2:]))
    y = gather(x, w, one, size) if one["op"] == "conv2d" else scatter(x, w, one, one["channels"], size)
    return y if b is None else y + b[:, None, None]


def to_input(one: Layer, g: numpy.ndarray, w: numpy.ndarray, shape: tuple[int, ...]) -> numpy.ndarray:
    """The upstream gradient g (B, …) times the product's Jacobian by its input, of `shape` (…)."""
    if one["op"] == "linear":
        return g @ w
    return scatter(g, w, one, shape[0], shape[1:]) if one["op"] == "conv2d" else gather(g, w, one, shape[1:])


def to_weight(one: Layer, g: numpy.ndarray, x: numpy.ndarray, w: numpy.ndarray) -> numpy.ndarray:
    if one["op"] == "linear":
        return numpy.einsum("bo,bi->oi", g, x)
    return kernel_gradient(x, g, one, w.shape) if one["op"] == "conv2d" else kernel_gradient(g, x, one, w.shape)


# ---- pooling


def cells(x: numpy.ndarray, one: Layer, fill: float) -> numpy.ndarray:
    """(N, C, H, W) to its windows (N, C, H', W', k k)."""
    p, k, s = one["padding"], one["kernel"], one["stride"]
    wide = numpy.pad(x, ((0, 0), (0, 0), (p, p), (p, p)), constant_values=fill)
    view = numpy.lib.stride_tricks.sliding_window_view(wide, (k, k), axis=(2, 3))[:, :, ::s, ::s]
    return view.reshape(*view.shape[:4], k * k)


def uncells(parts: numpy.ndarray, one: Layer, shape: tuple[int, ...]) -> numpy.ndarray:
    """The transpose of `cells`: (…, H', W', k k) to (…, H, W)."""
    p, k, s = one["padding"], one["kernel"], one["stride"]
    rows, columns = parts.shape[-3:-1]
    out = numpy.zeros((*parts.shape[:-3], max(shape[0] + 2 * p, s * (rows - 1) + k), max(shape[1] + 2 * p, s * (columns - 1) + k)), dtype=parts.dtype)
    for i in range(k):
        for j in range(k):
            out[..., i : i + s * (rows - 1) + 1 : s, j : j + s * (columns - 1) + 1 : s] += parts[..., i * k + j]
    return out[..., p : p + shape[0], p : p + shape[1]]


def pooled(x: numpy.ndarray, one: Layer) -> numpy.ndarray:
    return cells(x, one, -numpy.inf).max(-1) if one["op"] == "max_pool2d" else cells(x, one, 0.0).sum(-1) / one["kernel"] ** 2


# ---- elementwise: all are monotone, with slopes of at most 1 where they have one


def value(one: Layer, x: numpy.ndarray) -> numpy.ndarray:
    op, zero = one["op"], x * 0
    if op in ("floor", "ceil", "sign", "tanh"):
        return getattr(numpy, op)(x)
    if op == "round":
        return numpy.rint(x)
    if op == "heaviside":
        return numpy.where(x > 0, zero + 1, zero)
    if op == "fake_quantize":
        return numpy.clip(numpy.rint(x / one["scale"]), one["low"], one["high"]) * one["scale"]
    if op == "relu":
        return numpy.maximum(x, 0)
    if op == "elu":
        return numpy.where(x > 0, x, numpy.expm1(numpy.minimum(x, 0)) * x.dtype.type(one["alpha"]))
    if op == "leaky_relu":
        return numpy.where(x > 0, x, x * one["slope"])
    if op == "sigmoid":
        return 1 / (1 + numpy.exp(-x))
    if op == "softplus":
        return numpy.log1p(numpy.exp(x))
    return numpy.clip(x, -1, 1)  # hardtanh


def slope(one: Layer, x: numpy.ndarray) -> numpy.ndarray:
    """The derivative that a backward pass takes: of fake_quantize that of clipping (straight through), of other steps 0."""
    op, ones = one["op"], numpy.ones_like(x)
    if op == "fake_quantize":
        level = numpy.rint(x / one["scale"])
        return numpy.where((level >= one["low"]) & (level <= one["high"]), ones, 0)
    if op in STEPS:
        return ones * 0
    if op == "tanh":
        return 1 - numpy.tanh(x) ** 2
    if op == "sigmoid":
        return value(one, x) * (1 - value(one, x))
    if op == "softplus":
        return 1 / (1 + numpy.exp(-x))
    if op == "hardtanh":
        return numpy.where((x > -1) & (x < 1), ones, 0)
    if op == "elu":
        return numpy.where(x > 0, ones, x.dtype.type(one["alpha"]) * numpy.exp(numpy.minimum(x, 0)))
    return numpy.where(x > 0, ones, ones * one.get("slope", 0.0))


def kinks(one: Layer) -> list[tuple[float, float]]:
    """Where the slope jumps, and by how much."""
    if one["op"] == "fake_quantize":  # the slope of the backward pass
        return [((one["low"] - 0.5) * one["scale"], 1.0), ((one["high"] + 0.5) * one["scale"], 1.0)]
    return {"relu": [(0.0, 1.0)], "elu": [(0.0, 1 - one.get("alpha", 0))], "leaky_relu": [(0.0, 1 - one.get("slope", 0))],
            "hardtanh": [(-1.0, 1.0), (1.0, 1.0)]}.get(one["op"], [])


def curvature(one: Layer) -> float:
    """The largest second derivative."""
    return {"tanh": 0.77, "sigmoid": 0.0963, "softplus": 0.25, "elu": one.get("alpha", 0)}.get(one["op"], 0.0)


def chosen(one: Layer, x: numpy.ndarray) -> tuple[numpy.ndarray, numpy.ndarray]:
    """Of argmax and topk, along axis 1: which elements are among the k largest, and how far each value is from the border between them, halved: it stays
    where it is as long as no value errs by more."""
    k = one.get("k", 1)
    ranked = -numpy.sort(-x, axis=1)
    last, next_one = ranked[:, k - 1 : k], ranked[:, k : k + 1]
    inside = x >= last
    return inside, numpy.where(inside, x - next_one, last - x) / 2


def step_range(one: Layer, x: numpy.ndarray, error: float) -> tuple[numpy.ndarray, numpy.ndarray]:
    """The least and the largest value of a step whose input errs by at most `error`."""
    if one["op"] in ("argmax", "topk"):
        inside, margin = chosen(one, x)
        surely, perhaps = inside & (margin > error), inside | (margin <= error)
        if one["op"] == "argmax":
            return surely * 1.0, perhaps * 1.0
        return numpy.where(surely, x - error, numpy.where(perhaps, numpy.minimum(x - error, 0), 0)), numpy.where(surely, x + error, numpy.where(perhaps, numpy.maximum(x + error, 0), 0))
    return value(one, x - error), value(one, x + error)


# ---- a run


def forward(layers: list[Layer], w: dict[str, numpy.ndarray], image: numpy.ndarray) -> list[numpy.ndarray]:
    """The image and every layer's output."""
    out = [image]
    for name, one in zip(NAMES, layers, strict=True):
        out.append(apply(one, out[-1], w.get(f"{name}.weight"), w.get(f"{name}.bias")))
    return out


def apply(one: Layer, x: numpy.ndarray, w: Any = None, b: Any = None) -> numpy.ndarray:
    if w is not None:
        return product(one, x, w, b)
    if one["op"].endswith("pool2d"):
        return pooled(x, one)
    if one["op"] == "flatten":
        return x.reshape(len(x), -1)
    if one["op"] in ("argmax", "topk"):
        inside = chosen(one, x)[0]
        return inside.astype(x.dtype) if one["op"] == "argmax" else numpy.where(inside, x, 0)
    return value(one, x)


def loss_of(logits: numpy.ndarray, labels: numpy.ndarray) -> tuple[Any, numpy.ndarray]:
    """Mean cross entropy, and softmax."""
    shifted = logits - logits.max(1, keepdims=True)
    p = numpy.exp(shifted)
    total = p.sum(1, keepdims=True)
    rows = numpy.arange(len(labels))
    return (numpy.log(total[:, 0]) - shifted[rows, labels]).sum() / len(labels), p / total


def pulled_back(one: Layer, g: numpy.ndarray, x: numpy.ndarray, w: numpy.ndarray | None, through_steps: bool) -> numpy.ndarray:
    """Upstream gradients g (O, N, output) times the Jacobian at x: (O, N, input). `through_steps`: fake_quantize lets a gradient through."""
    batch = g.reshape(-1, *g.shape[2:])
    if w is not None:
        return to_input(one, batch, w, x.shape[1:]).reshape(*g.shape[:2], *x.shape[1:])
    if one["op"] == "flatten":
        return g.reshape(g.shape[0], *x.shape)
    if one["op"] == "max_pool2d":
        best = cells(x, one, -numpy.inf).argmax(-1)
        return uncells((numpy.arange(one["kernel"] ** 2) == best[..., None]) * g[..., None], one, x.shape[2:])
    if one["op"] == "avg_pool2d":
        share = g[..., None] / g.dtype.type(one["kernel"] ** 2)
        return uncells(numpy.broadcast_to(share, (*g.shape, one["kernel"] ** 2)), one, x.shape[2:])
    if one["op"] == "topk":
        return g * chosen(one, x)[0]
    if one["op"] in STEPS and not (through_steps and one["op"] == "fake_quantize"):
        return g * 0
    return g * slope(one, x)


def backward(layers: list[Layer], w: dict[str, numpy.ndarray], values: list[numpy.ndarray], p: numpy.ndarray, labels: numpy.ndarray) -> dict[str, numpy.ndarray]:
    """Gradients of every weight, and of every layer's output by the layer's name."""
    g = p.copy()
    g[numpy.arange(len(labels)), labels] -= 1
    g = g / g.dtype.type(len(labels))
    out = {}
    for k in range(len(layers) - 1, -1, -1):
        name, one, x = NAMES[k], layers[k], values[k]
        out[name] = g
        weight = w.get(f"{name}.weight")
        if weight is not None:
            out[f"{name}.weight"] = to_weight(one, g, x, weight)
            out[f"{name}.bias"] = g.sum((0, *range(2, g.ndim)))
        g = pulled_back(one, g[None], x, weight, True)[0]
    return out
