"""A small convolutional network trained twenty steps by SGD with momentum: the run that the determinism suite repeats with cuDNN on and off.

Convolution, BatchNorm, relu, max pooling, convolution, relu, adaptive mean; an embedding of a token added; a linear head; cross entropy. Each step takes the
next of four generated batches. Losses of every step, weights and running statistics behind the last one."""

from __future__ import annotations

from typing import Any

import numpy

from golden.draw import Draw
from golden.evaluate import Refused
from golden.models import _layers as nn
from golden.models._layers import Scope, Weights
from golden.models._observe import LAMBDA, RUNS, UNIT, observed
from golden.models._tape import Machine, Node, add, fixed, gradients, machine, node, parameter, scale, subtract
from golden.models.unet import norm_weights

NAME, SOURCE = "repeated_training", "report 1: training accuracy, CPU against GPU"
CONFIG = {"channels": 8, "image_channels": 3, "side": 8, "batch": 6, "batches": 4, "tokens": 10, "classes": 5, "steps": 20, "lr": 0.02, "momentum": 0.9}
MOMENTUM = 0.1  # of the running statistics
DRAW = 0  # the first whose every choice is decided in float32


def weights() -> Weights:
    w, c = Weights(NAME), CONFIG
    w.convolution("convolution1", c["channels"], c["image_channels"], 3, bias=False)
    norm_weights(w, "norm", c["channels"])
    w.convolution("convolution2", c["channels"], c["channels"], 3)
    w.uniform("embedding.weight", 0.5, c["tokens"], c["channels"])
    w.linear("head", c["channels"], c["classes"])
    return w


def inputs(number: int = DRAW) -> dict[str, numpy.ndarray]:
    draw, c = Draw(f"{NAME}/inputs/{number}"), CONFIG
    return {
        "images": draw.normal(c["batches"], c["batch"], c["image_channels"], c["side"], c["side"], stored=False),
        "tokens": draw.integers(0, c["tokens"], c["batches"], c["batch"], stored=False),
        "classes": draw.integers(0, c["classes"], c["batches"], c["batch"], stored=False),
    }


def loss_of(s: Scope, images: Node, tokens: numpy.ndarray, classes: numpy.ndarray, margins: list[numpy.ndarray] | None) -> Node:
    """`margins`: gets how far each relu is from 0, and how far each maximum from the next."""
    x = nn.batch_norm(s, "norm", nn.convolution(s, "convolution1", images, padding=1), momentum=MOMENTUM)
    pooled = nn.max_pool(s, "pool", nn.relu(x))
    y = nn.convolution(s, "convolution2", pooled, padding=1)
    if margins is not None:
        cells = numpy.sort(nn.windows(nn.relu(x), 2, 2, 0).value.reshape(*pooled.shape, 4))
        margins += [x.value, y.value, cells[..., 3] - cells[..., 2]]
    features = nn.mean_of(nn.relu(y), (2, 3))
    return nn.cross_entropy(nn.linear(s, "head", add(features, nn.embedding(s, "embedding", tokens))), classes)


def run(w: Weights, given: dict[str, numpy.ndarray], margins: list[numpy.ndarray] | None = None) -> dict[str, Any]:
    values: dict[str, Node] = {n: node(v) for n, v in w.values.items()}
    velocity: dict[str, Node] = {}
    results: dict[str, Any] = {}
    for step in range(CONFIG["steps"]):
        notes: dict[str, Any] = {}
        leaves = {n: (node if ".running_" in n else parameter)(v.value) for n, v in values.items()}
        k = step % CONFIG["batches"]
        loss = loss_of(Scope(leaves, notes), node(given["images"][k]), given["tokens"][k], given["classes"][k], margins)
        results[f"step{step}/loss"] = loss.value
        found = gradients([(loss, node(1.0))], [v for n, v in leaves.items() if ".running_" not in n])
        for name, leaf in leaves.items():
            if ".running_" in name:
                values[name] = node(notes[name])
                continue
            slope = fixed(found[leaf.serial])
            velocity[name] = add(scale(velocity[name], CONFIG["momentum"]), slope) if name in velocity else slope
            values[name] = subtract(leaf, scale(velocity[name], CONFIG["lr"]))
    return results | {f"final/{n}": v.value for n, v in values.items()}


def undecided(w: Weights, given: dict[str, numpy.ndarray]) -> float:
    """The smallest margin over what float32's rounding may move it by: below 1, some choice is undecided, and a trajectory may jump there."""
    with machine(Machine(numpy.float64)):
        run(w, given, base := [])
    squares = [numpy.zeros(m.shape) for m in base]
    for k in range(RUNS):
        with machine(Machine(numpy.float64, unit=UNIT, seed=1000 + k)):
            run(w, given, moved := [])
        for total, m, b in zip(squares, moved, base, strict=True):
            total += (m - b) ** 2
    # Where relu made zeros of a window's two largest they tie in every run, and the gradient behind either is 0.
    least = [numpy.abs(b) / (LAMBDA[RUNS] * numpy.sqrt(s / RUNS) + 1e-300) for b, s in zip(base, squares, strict=True)]
    return float(min(numpy.where((b == 0) & (s == 0), numpy.inf, r).min() for r, b, s in zip(least, base, squares, strict=True)))


def build(store: Any) -> dict[str, Any]:
    w, given = weights(), inputs()
    if undecided(w, given) < 1:
        raise Refused(f"{NAME}: a relu or a maximum is undecided in float32: choose another draw of the inputs")
    return observed(store, NAME, lambda: run(w, given), w, given, CONFIG, source=SOURCE, note="SGD with momentum on four batches in turn; every choice is decided in float32")
