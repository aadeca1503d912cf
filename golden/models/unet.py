"""A 2-D U-Net of three levels: double convolutions with BatchNorm in train mode, max pooling, transposed convolutions, skips; loss and gradients."""

from __future__ import annotations

from typing import Any

import numpy

from golden.draw import Draw
from golden.models import _layers as nn
from golden.models._layers import Scope, Weights
from golden.models._observe import observed
from golden.models._tape import Node, gradients, join, node, parameter, reshape, transpose

CHANNELS, CLASSES, SIDE, BATCH = (4, 8, 16), 3, 16, 2
MOMENTUM = 0.1


def block_weights(w: Weights, name: str, inputs: int, outputs: int) -> None:
    for k, channels in enumerate((inputs, outputs), 1):
        w.convolution(f"{name}.convolution{k}", outputs, channels, 3, bias=False)
        norm_weights(w, f"{name}.norm{k}", outputs)


def norm_weights(w: Weights, name: str, size: int) -> None:
    w.norm(name, size)
    w.uniform(f"{name}.running_mean", 0.5, size)
    w.uniform(f"{name}.running_var", 0.5, size, centre=1.0)


def weights() -> Weights:
    w = Weights("unet")
    for k, channels in enumerate(CHANNELS):
        block_weights(w, f"down{k}", CHANNELS[k - 1] if k else 1, channels)
    for k in (1, 0):
        w.convolution(f"grow{k}", CHANNELS[k + 1], CHANNELS[k], 2)  # a transposed convolution's weight: inputs first
        w.values.pop(f"grow{k}.bias")
        w.uniform(f"grow{k}.bias", 0.2, CHANNELS[k])
        block_weights(w, f"up{k}", 2 * CHANNELS[k], CHANNELS[k])
    w.convolution("head", CLASSES, CHANNELS[0], 1)
    return w


def block(s: Scope, x: Node) -> Node:
    for k in (1, 2):
        x = nn.relu(nn.batch_norm(s, f"norm{k}", nn.convolution(s, f"convolution{k}", x, padding=1), momentum=MOMENTUM))
    return x


def run(w: Weights, given: dict[str, numpy.ndarray]) -> dict[str, Any]:
    leaves = {n: (node if ".running_" in n else parameter)(v) for n, v in w.values.items()}
    results: dict[str, Any] = {}
    s = Scope(leaves, results)
    x, skips = node(given["image"]), []
    for k in range(len(CHANNELS)):
        x = block(s.under(f"down{k}"), x if k == 0 else nn.max_pool(s, f"pool{k}", x))
        skips.append(x)
    for k in (1, 0):
        x = block(s.under(f"up{k}"), join([skips[k], nn.doubled(s, f"grow{k}", x)], 1))
    logits = nn.convolution(s, "head", x)
    flat = reshape(transpose(logits, 0, 2, 3, 1), BATCH * SIDE * SIDE, CLASSES)
    loss = nn.cross_entropy(flat, given["classes"].reshape(-1))
    found = gradients([(loss, node(1.0))], [v for n, v in leaves.items() if ".running_" not in n])
    return {**results, "loss": loss.value, **{f"gradient/{n}": found[v.serial].value for n, v in leaves.items() if ".running_" not in n}}


def inputs() -> dict[str, numpy.ndarray]:
    draw = Draw("unet/inputs")
    return {"image": draw.normal(BATCH, 1, SIDE, SIDE, stored=False), "classes": draw.integers(0, CLASSES, BATCH, SIDE, SIDE, stored=False)}


def build(store: Any) -> dict[str, Any]:
    w, given = weights(), inputs()
    config = {"channels": list(CHANNELS), "classes": CLASSES}
    return observed(store, "unet", lambda: run(w, given), w, given, config, source="", note="train mode: the batch's statistics, and the running ones behind it")
