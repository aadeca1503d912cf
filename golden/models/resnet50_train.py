"""ResNet-50 in train mode on four small images: stages, loss, gradients, and the running statistics behind the step."""

from __future__ import annotations

from typing import Any

import numpy

from golden.draw import Draw
from golden.models import _layers as nn
from golden.models import _resnet
from golden.models._layers import Scope
from golden.models._observe import agrees, observed
from golden.models._tape import gradients, node, parameter

BATCH, SIDE, CLASSES = 4, 64, 10
WATCHED = ("conv1.weight", "bn1.weight", "layer1.0.conv2.weight", "layer2.0.downsample.0.weight", "layer3.2.bn2.bias", "layer4.2.conv3.weight", "fc.weight", "fc.bias")
STATISTICS = ("bn1", "layer1.2.bn3", "layer2.0.downsample.1", "layer3.5.bn2", "layer4.2.bn3")


def run(w: Any, image: numpy.ndarray, classes: numpy.ndarray) -> dict[str, Any]:
    leaves = {n: (node if ".running_" in n else parameter)(v) for n, v in w.values.items()}
    notes: dict[str, Any] = {}
    logits = _resnet.forward(Scope(leaves, notes), node(image), train=True)
    loss = nn.cross_entropy(logits, classes)
    found = gradients([(loss, node(1.0))], [leaves[n] for n in WATCHED])
    results = {n: v for n, v in notes.items() if ".bn" not in n and not n.startswith("bn") and ".downsample" not in n}
    results |= {f"{n}.running_{part}": notes[f"{n}.running_{part}"] for n in STATISTICS for part in ("mean", "var")}
    return {**results, "loss": loss.value, **{f"gradient/{n}": found[leaves[n].serial].value for n in WATCHED}}


def inputs() -> dict[str, numpy.ndarray]:
    draw = Draw("resnet50_train/inputs")
    return {"images": draw.uniform(-2, 2, BATCH, 3, SIDE, SIDE, stored=False), "classes": draw.integers(0, CLASSES, BATCH)}


def partly(old: tuple[bytes, bytes]) -> bool:
    """A check in seconds where the whole takes minutes: the values, not the bounds."""
    w, given = _resnet.weights(CLASSES), inputs()
    return agrees("resnet50_train", lambda: run(w, given["images"], given["classes"]), old)


def build(store: Any) -> dict[str, Any]:
    w, given = _resnet.weights(CLASSES), inputs()
    return observed(
        store, "resnet50_train", lambda: run(w, given["images"], given["classes"]), w, given, {"classes": CLASSES}, runs=16,
        source="report 3: DataParallel on ResNet-50", note="train mode, a small batch",
    )
