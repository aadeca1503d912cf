"""The layers of the models, in operations of the tape: weights are looked up by LibTorch's names."""

from __future__ import annotations

import math
from typing import Any

import numpy

from golden.draw import Draw
from golden.models._tape import (
    Node,
    add,
    broadcast,
    choose,
    contract,
    divide,
    erf,
    exp,
    fit,
    fixed,
    log,
    multiply,
    node,
    put,
    reshape,
    scale,
    sigmoid,
    sqrt,
    subtract,
    take,
    tanh,
    total,
    transpose,
)

HALF = numpy.longdouble(1) / 2


class Scope:
    """The weights under a prefix, and the notebook that the layers write their results into."""

    def __init__(self, weights: dict[str, Node], notes: dict[str, Any] | None = None, prefix: str = "") -> None:
        self.weights, self.notes, self.prefix = weights, notes, prefix

    def __getitem__(self, name: str) -> Node:
        return self.weights[self.prefix + name]

    def __contains__(self, name: str) -> bool:
        return self.prefix + name in self.weights

    def under(self, name: str) -> Scope:
        return Scope(self.weights, self.notes, f"{self.prefix}{name}.")

    def note(self, name: str, x: Node) -> Node:
        if self.notes is not None:
            key = self.prefix + name
            if key in self.notes:
                raise ValueError(f"two layers are called {key}")
            self.notes[key] = x.value
        return x


class Weights:
    """Draws a model's parameters: `specs` go into the JSON, `values` into the tape."""

    def __init__(self, model: str) -> None:
        self.draw, self.values = Draw(f"{model}/weights"), {}

    def uniform(self, name: str, bound: float, *shape: int, centre: float = 0.0) -> None:
        bound = float(numpy.float32(bound))
        self.values[name] = self.draw.uniform(centre - bound, centre + bound, *shape, stored=False)

    def linear(self, name: str, inputs: int, outputs: int, bias: bool = True, gain: float = 1.0) -> None:
        self.uniform(f"{name}.weight", gain * math.sqrt(3 / inputs), outputs, inputs)
        if bias:
            self.uniform(f"{name}.bias", 0.2, outputs)

    def norm(self, name: str, size: int) -> None:
        self.uniform(f"{name}.weight", 0.25, size, centre=1.0)
        self.uniform(f"{name}.bias", 0.25, size)

    def convolution(self, name: str, outputs: int, inputs: int, k: int, bias: bool = True, gain: float = 1.0) -> None:
        """`inputs` of one group."""
        self.uniform(f"{name}.weight", gain * math.sqrt(3 / (inputs * k * k)), outputs, inputs, k, k)
        if bias:
            self.uniform(f"{name}.bias", 0.2, outputs)


# ---- pointwise


def gelu(x: Node) -> Node:
    return multiply(scale(x, 0.5), add(1.0, erf(scale(x, numpy.sqrt(HALF)))))


def relu(x: Node) -> Node:
    return choose(x, x.value > 0)


def softmax(x: Node, mask: numpy.ndarray | None = None) -> Node:
    """Over the last axis; where the mask is false, 0. The largest is subtracted, as an exact choice."""
    far = x.value if mask is None else numpy.where(mask, x.value, -numpy.inf)
    shifted = subtract(x, Node(far.max(-1, keepdims=True)))
    grown = exp(shifted if mask is None else choose(shifted, mask))
    grown = grown if mask is None else choose(grown, mask)
    return divide(grown, broadcast_last(total(grown, (x.value.ndim - 1,)), x.shape))


def broadcast_last(x: Node, shape: tuple[int, ...]) -> Node:
    return broadcast(reshape(x, *x.shape, 1), shape)


def cross_entropy(logits: Node, positions: numpy.ndarray) -> Node:
    """Mean over the rows of log Σ exp(x - max) - (x_position - max)."""
    shifted = subtract(logits, Node(logits.value.max(-1, keepdims=True)))
    rows = numpy.arange(len(positions))
    return scale(total(subtract(log(total(exp(shifted), (1,))), take(shifted, (rows, positions))), (0,)), numpy.longdouble(1) / len(positions))


def negative_log_likelihood(probabilities: Node, positions: numpy.ndarray) -> Node:
    picked = take(log(probabilities), (numpy.arange(len(positions)), positions))
    return scale(total(picked, (0,)), numpy.longdouble(-1) / len(positions))


# ---- layers


def linear(s: Scope, name: str, x: Node) -> Node:
    """x (…, inputs) to (…, outputs)."""
    flat = reshape(x, math.prod(x.shape[:-1]), x.shape[-1])
    y = contract("ni,oi->no", flat, s[f"{name}.weight"])
    if f"{name}.bias" in s:
        y = add(y, s[f"{name}.bias"])
    return s.note(name, reshape(y, *x.shape[:-1], y.shape[-1]))


def embedding(s: Scope, name: str, index: numpy.ndarray) -> Node:
    return take(s[f"{name}.weight"], index)


def normalised(x: Node, axes: tuple[int, ...], eps: float) -> tuple[Node, Node, Node]:
    """(x - mean) / sqrt(var + eps) over the axes, and mean and (biased) variance."""
    share = numpy.longdouble(1) / math.prod(x.shape[a] for a in axes)
    kept = tuple(1 if i in axes else n for i, n in enumerate(x.shape))
    mean = scale(reshape(total(x, axes), *kept), share)
    centred = subtract(x, mean)
    variance = scale(reshape(total(multiply(centred, centred), axes), *kept), share)
    return divide(centred, sqrt(add(variance, eps))), mean, variance


def layer_norm(s: Scope, name: str, x: Node, eps: float) -> Node:
    y, _, _ = normalised(x, (x.value.ndim - 1,), eps)
    return s.note(name, add(multiply(y, s[f"{name}.weight"]), s[f"{name}.bias"]))


def heads_of(x: Node, heads: int) -> Node:
    """(B, T, D) to (B, heads, T, D / heads)."""
    b, t, d = x.shape
    return transpose(reshape(x, b, t, heads, d // heads), 0, 2, 1, 3)


def attention(s: Scope, x: Node, heads: int, mask: numpy.ndarray) -> Node:
    """Self-attention before its output projection; mask (B or 1, 1, T or 1, T): true where a query may look."""
    q, k, v = (heads_of(linear(s, n, x), heads) for n in ("query", "key", "value"))
    return attend(s, q, k, v, mask)


def attend(s: Scope, q: Node, k: Node, v: Node, mask: numpy.ndarray) -> Node:
    b, h, t, d = q.shape
    scores = contract("bhid,bhjd->bhij", q, k)
    scores = s.note("scores", scale(scores, 1 / numpy.sqrt(numpy.longdouble(d))))
    p = s.note("probabilities", softmax(scores, numpy.broadcast_to(mask, scores.shape)))
    mixed = contract("bhij,bhjd->bhid", p, v)
    return s.note("context", reshape(transpose(mixed, 0, 2, 1, 3), b, t, h * d))


def windows(x: Node, k: int, stride: int, padding: int) -> Node:
    """(N, C, H, W) to its k×k windows (N, C, H', W', k, k); the padding is zeros."""
    n, c, h, w = x.shape
    side = [(size + 2 * padding - k) // stride + 1 for size in (h, w)]
    padded = put(x, (slice(None), slice(None), slice(padding, padding + h), slice(padding, padding + w)), (n, c, h + 2 * padding, w + 2 * padding)) if padding else x
    rows = numpy.arange(side[0])[:, None] * stride + numpy.arange(k)
    columns = numpy.arange(side[1])[:, None] * stride + numpy.arange(k)
    return take(padded, (slice(None), slice(None), rows[:, None, :, None], columns[None, :, None, :]))


def convolution(s: Scope, name: str, x: Node, stride: int = 1, padding: int = 0, groups: int = 1) -> Node:
    w = s[f"{name}.weight"]
    cells = windows(x, w.shape[-1], stride, padding)
    n, c, p, q, k, _ = cells.shape
    cells = reshape(cells, n, groups, c // groups, p, q, k, k)
    kernel = reshape(w, groups, w.shape[0] // groups, c // groups, k, k)
    y = reshape(contract("ngcpqij,gocij->ngopq", cells, kernel), n, w.shape[0], p, q)
    if f"{name}.bias" in s:
        y = add(y, reshape(s[f"{name}.bias"], w.shape[0], 1, 1))
    return s.note(name, y)


def doubled(s: Scope, name: str, x: Node) -> Node:
    """ConvTranspose2d with kernel 2 and stride 2: each pixel becomes a 2×2 block."""
    w = s[f"{name}.weight"]
    n, _, h, width = x.shape
    y = contract("ncij,coab->noiajb", x, w)
    return s.note(name, add(reshape(y, n, w.shape[1], 2 * h, 2 * width), reshape(s[f"{name}.bias"], w.shape[1], 1, 1)))


def max_pool(s: Scope, name: str, x: Node, k: int = 2, stride: int = 2, padding: int = 0) -> Node:
    """The choice is that of the values as they are: a perturbed run chooses anew."""
    if padding:  # behind relu: a padding of zeros never beats a value, and where it ties with one it is the same number
        if (x.value < 0).any():
            raise ValueError("a padded maximum of negative numbers")
    cells = windows(x, k, stride, padding)
    flat = reshape(cells, *cells.shape[:4], k * k)
    best = flat.value.argmax(-1)
    index = numpy.ogrid[tuple(slice(n) for n in best.shape)]
    return s.note(name, take(flat, (*index, best)))


def batch_norm(s: Scope, name: str, x: Node, eps: float = 1e-5, momentum: float | None = None) -> Node:
    """momentum None: by the running statistics; else by the batch's, and the running ones move, the variance unbiased."""
    shape = (1, x.shape[1], 1, 1)
    w, b = (reshape(s[f"{name}.{part}"], *shape) for part in ("weight", "bias"))
    running = [s[f"{name}.running_{part}"] for part in ("mean", "var")]
    if momentum is None:
        y = divide(subtract(x, reshape(running[0], *shape)), sqrt(add(reshape(running[1], *shape), eps)))
    else:
        y, mean, variance = normalised(x, (0, 2, 3), eps)
        count = math.prod(x.shape) // x.shape[1]
        now = reshape(fixed(mean), -1), scale(reshape(fixed(variance), -1), numpy.longdouble(count) / (count - 1))
        for part, old, new in zip(("mean", "var"), running, now, strict=True):
            moved = add(scale(old, 1 - momentum), scale(new, momentum))
            s.note(f"{name}.running_{part}", moved)
    return s.note(name, add(multiply(y, w), b))


def lstm_step(s: Scope, layer: int, x: Node, h: Node, c: Node) -> tuple[Node, Node]:
    """One step of one layer of torch::nn::LSTM; gates i, f, g, o."""
    gates = add(contract("bi,oi->bo", x, s[f"weight_ih_l{layer}"]), s[f"bias_ih_l{layer}"])
    gates = add(gates, add(contract("bi,oi->bo", h, s[f"weight_hh_l{layer}"]), s[f"bias_hh_l{layer}"]))
    size = h.shape[1]
    i, f, g, o = (take(gates, (slice(None), slice(k * size, (k + 1) * size))) for k in range(4))
    c = add(multiply(sigmoid(f), c), multiply(sigmoid(i), tanh(g)))
    return multiply(sigmoid(o), tanh(c)), c


def mean_of(x: Node, axes: tuple[int, ...]) -> Node:
    return scale(total(x, axes), numpy.longdouble(1) / math.prod(x.shape[a] for a in axes))


__all__ = [name for name in dir() if not name.startswith("_")] + ["fit", "node"]
