"""A depthwise-separable CNN: a stem, blocks of 3×3 depthwise and 1×1 pointwise convolutions with BatchNorm, mean, head; loss and gradients, and eval."""

from __future__ import annotations

from typing import Any

import numpy

from golden.draw import Draw
from golden.models import _layers as nn
from golden.models._layers import Scope, Weights
from golden.models._observe import observed
from golden.models._tape import Node, gradients, node, parameter
from golden.models.unet import norm_weights

BLOCKS, CLASSES, SIDE, BATCH = ((8, 12, 1), (12, 16, 2), (16, 16, 1)), 7, 16, 4  # inputs, outputs, stride
MOMENTUM = 0.1


def weights() -> Weights:
    w = Weights("depthwise_cnn")
    w.convolution("stem", BLOCKS[0][0], 3, 3, bias=False)
    norm_weights(w, "stem_norm", BLOCKS[0][0])
    for k, (inputs, outputs, _) in enumerate(BLOCKS):
        w.convolution(f"block{k}.depthwise", inputs, 1, 3, bias=False)
        norm_weights(w, f"block{k}.depthwise_norm", inputs)
        w.convolution(f"block{k}.pointwise", outputs, inputs, 1, bias=False)
        norm_weights(w, f"block{k}.pointwise_norm", outputs)
    w.linear("head", BLOCKS[-1][1], CLASSES)
    return w


def forward(s: Scope, image: Node, momentum: float | None) -> Node:
    x = nn.relu(nn.batch_norm(s, "stem_norm", nn.convolution(s, "stem", image, stride=2, padding=1), momentum=momentum))
    for k, (inputs, _, stride) in enumerate(BLOCKS):
        one = s.under(f"block{k}")
        x = nn.relu(nn.batch_norm(one, "depthwise_norm", nn.convolution(one, "depthwise", x, stride, 1, inputs), momentum=momentum))
        x = nn.relu(nn.batch_norm(one, "pointwise_norm", nn.convolution(one, "pointwise", x), momentum=momentum))
    return nn.linear(s, "head", s.note("mean", nn.mean_of(x, (2, 3))))


def run(w: Weights, given: dict[str, numpy.ndarray]) -> dict[str, Any]:
    """Eval with the drawn statistics first, then a training step's forward and backward pass."""
    leaves = {n: (node if ".running_" in n else parameter)(v) for n, v in w.values.items()}
    evaluated: dict[str, Any] = {}
    forward(Scope(leaves, evaluated), node(given["image"]), None)
    results: dict[str, Any] = {f"eval/{n}": v for n, v in evaluated.items()}
    trained: dict[str, Any] = {}
    loss = nn.cross_entropy(forward(Scope(leaves, trained), node(given["image"]), MOMENTUM), given["classes"])
    found = gradients([(loss, node(1.0))], [v for n, v in leaves.items() if ".running_" not in n])
    results |= {f"train/{n}": v for n, v in trained.items()}
    return {**results, "train/loss": loss.value, **{f"train/gradient/{n}": found[v.serial].value for n, v in leaves.items() if ".running_" not in n}}


def build(store: Any) -> dict[str, Any]:
    draw = Draw("depthwise_cnn/inputs")
    w, given = weights(), {"image": draw.normal(BATCH, 3, SIDE, SIDE, stored=False), "classes": draw.integers(0, CLASSES, BATCH)}
    config = {"blocks": [list(b) for b in BLOCKS], "classes": CLASSES}
    return observed(store, "depthwise_cnn", lambda: run(w, given), w, given, config, source="", note="eval and train mode")
