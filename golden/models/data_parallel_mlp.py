"""A multilayer perceptron for DataParallel that ends in dropout: its golden is the one without dropout, and what dropout leaves of an output is
either 0 or the golden's value divided by 1 - p, for each replica with a mask of its own."""

from __future__ import annotations

import sys
from typing import Any

import autograd.numpy as anp
import numpy as np

from golden.draw import Draw
from golden.models import _data_parallel as dp

NAME, SOURCE = "data_parallel_mlp", None
NOTE = "Linear 10 -> 16, ReLU, Linear 16 -> 6, Dropout(0.5), mean cross entropy over the whole batch; the golden is eval mode's"
IN, HIDDEN, CLASSES = 10, 16, 6
MODEL = sys.modules[__name__]

_draw = Draw(f"{NAME}/weights")
parameters = {
    "fc1.weight": _draw.uniform(-0.4, 0.4, HIDDEN, IN, stored=False),
    "fc1.bias": _draw.uniform(-0.4, 0.4, HIDDEN, stored=False),
    "fc2.weight": _draw.uniform(-0.4, 0.4, CLASSES, HIDDEN, stored=False),
    "fc2.bias": _draw.uniform(-0.4, 0.4, CLASSES, stored=False),
}
buffers: dict[str, np.ndarray] = {}
x = Draw(f"{NAME}/input/0").uniform(-2, 2, dp.MOST, IN, stored=False)
y = Draw(f"{NAME}/labels").integers(0, CLASSES, dp.MOST, stored=False)


def run(t: dp.Tape, samples: np.ndarray, labels: np.ndarray, whole: int) -> dict[str, dp.Node]:
    """One shard, forward and backward."""
    w = {n: t.constant(v) for n, v in parameters.items()}
    inputs = t.constant(samples)
    z = dp.linear(t, inputs, w["fc1.weight"], w["fc1.bias"])
    mask = (z.value > 0).astype(float)
    hidden = t.scaled(z, mask)
    logits = dp.linear(t, hidden, w["fc2.weight"], w["fc2.bias"])
    loss, g = dp.cross_entropy(t, logits, np.asarray(labels), whole)
    g_hidden, g_w2, g_b2 = dp.linear_backward(t, g, hidden, w["fc2.weight"])
    _, g_w1, g_b1 = dp.linear_backward(t, t.scaled(g_hidden, mask), inputs, w["fc1.weight"])
    t.layers = {"fc1": z}
    gradients = {"fc1.weight": g_w1, "fc1.bias": g_b1, "fc2.weight": g_w2, "fc2.bias": g_b2}
    return {"output": logits, "loss": loss, **{f"gradient.{n}": g for n, g in gradients.items()}}


def plain_forward(w: dict[str, Any], samples: np.ndarray):
    return anp.maximum(samples @ w["fc1.weight"].T + w["fc1.bias"], 0) @ w["fc2.weight"].T + w["fc2.bias"]


def second(sizes: tuple[int, ...]) -> dict[str, np.ndarray]:
    return dp.second_gradients(plain_forward, {n: np.asarray(v) for n, v in parameters.items()}, np.asarray(x), np.asarray(y), sizes)


def demand_decided() -> None:
    """No ReLU may switch in float32."""
    ((tape, _),) = dp.shards_of(MODEL, np.float64, (dp.MOST,))
    z = tape.layers["fc1"]
    if (z.size <= dp.LAMBDA * dp.U * np.sqrt(tape.spread({"z": z})["z"])).any():
        raise ValueError(f"{NAME}: a ReLU is undecided: choose another draw of the input")


def build(store: Any) -> dict[str, Any]:
    demand_decided()
    return dp.document(MODEL, store)
