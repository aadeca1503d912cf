"""ResNet-50 in train mode under DataParallel: one batch cut into 1, 2 and 3 shards, each normalized with its own statistics.

Stages of all shards one behind the other, output, loss of the whole batch, gradients summed over the shards, running statistics of each replica."""

from __future__ import annotations

from typing import Any

import numpy

from golden.draw import Draw
from golden.models import _layers as nn
from golden.models import _resnet
from golden.models._layers import Scope
from golden.models._observe import agrees, observed
from golden.models._tape import gradients, join, node, parameter
from golden.models.resnet50_train import STATISTICS, WATCHED

BATCH, SIDE, CLASSES, COUNTS = 6, 64, 10, (1, 2, 3)
STAGES = ("stem", "layer1", "layer2", "layer3", "layer4", "mean", "fc")


def sharded(w: Any, image: numpy.ndarray, classes: numpy.ndarray, count: int) -> dict[str, Any]:
    leaves = {n: (node if ".running_" in n else parameter)(v) for n, v in w.values.items()}
    notes: list[dict[str, Any]] = [{} for _ in range(count)]
    shards = numpy.split(image, count)
    outputs = [_resnet.forward(Scope(leaves, one), node(shard), train=True) for one, shard in zip(notes, shards, strict=True)]
    loss = nn.cross_entropy(join(outputs, 0), classes)
    found = gradients([(loss, node(1.0))], [leaves[n] for n in WATCHED])
    results = {n: numpy.concatenate([one[n] for one in notes]) for n in STAGES}
    results |= {"loss": loss.value} | {f"gradient/{n}": found[leaves[n].serial].value for n in WATCHED}
    for n in STATISTICS:
        results |= {f"{n}.running_{part}": numpy.stack([one[f"{n}.running_{part}"] for one in notes]) for part in ("mean", "var")}
    return {f"shards{count}/{n}": v for n, v in results.items()}


def run(w: Any, given: dict[str, numpy.ndarray], counts: tuple[int, ...] = COUNTS) -> dict[str, Any]:
    results: dict[str, Any] = {}
    for count in counts:
        results |= sharded(w, given["images"], given["classes"], count)
    return results


def inputs() -> dict[str, numpy.ndarray]:
    draw = Draw("resnet50_data_parallel/inputs")
    return {"images": draw.uniform(-2, 2, BATCH, 3, SIDE, SIDE, stored=False), "classes": draw.integers(0, CLASSES, BATCH)}


def partly(old: tuple[bytes, bytes]) -> bool:
    """A check in seconds where the whole takes minutes: the values, not the bounds."""
    w, given = _resnet.weights(CLASSES), inputs()
    return agrees("resnet50_data_parallel", lambda: run(w, given), old)


def build(store: Any) -> dict[str, Any]:
    w, given = _resnet.weights(CLASSES), inputs()
    return observed(
        store, "resnet50_data_parallel", lambda: run(w, given), w, given, {"classes": CLASSES, "counts": list(COUNTS)}, runs=16,
        source="report 3: DataParallel on ResNet-50", note="train mode: statistics of each shard",
    )
