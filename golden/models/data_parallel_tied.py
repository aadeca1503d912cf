"""A model for DataParallel with what replicas must keep together: one linear layer used twice under two names, and a buffer that takes part in
the forward pass. The layer's gradient is the sum over both uses and all replicas."""

from __future__ import annotations

import sys
from typing import Any

import autograd.numpy as anp
import numpy as np

from golden.draw import Draw
from golden.models import _data_parallel as dp

NAME, SOURCE = "data_parallel_tied", None
NOTE = "y = L(tanh(L(x s)) s) with one linear layer L 7 -> 7 registered under two names and a buffer s, mean cross entropy over the whole batch"
WIDTH = 7
MODEL = sys.modules[__name__]

_draw = Draw(f"{NAME}/weights")
parameters = {"first.weight": _draw.uniform(-0.6, 0.6, WIDTH, WIDTH, stored=False), "first.bias": _draw.uniform(-0.4, 0.4, WIDTH, stored=False)}
buffers = {"scale": _draw.uniform(0.5, 1.5, WIDTH, stored=False)}
x = Draw(f"{NAME}/input").uniform(-2, 2, dp.MOST, WIDTH, stored=False)
y = Draw(f"{NAME}/labels").integers(0, WIDTH, dp.MOST, stored=False)


def product(t: dp.Tape, a: dp.Node, b: dp.Node) -> dp.Node:
    node = t.multiply(a, b)
    return t.rounded(node, node.size)


def run(t: dp.Tape, samples: np.ndarray, labels: np.ndarray, whole: int) -> dict[str, dp.Node]:
    """One shard, forward and backward. tanh errs by up to 2 u (CUDA's table: 1 ulp, CPUs': 2 ulp = 4 u)."""
    weight, bias, scale = (t.constant(v) for v in (*parameters.values(), buffers["scale"]))
    first = product(t, t.constant(samples), scale)
    z = dp.linear(t, first, weight, bias)
    value = np.tanh(z.value)
    hidden = t.rounded(t.unary(z, value, 1 - value**2), 4 * np.abs(value))
    again = product(t, hidden, scale)
    logits = dp.linear(t, again, weight, bias)
    loss, g = dp.cross_entropy(t, logits, np.asarray(labels), whole)
    g_again, g_w2, g_b2 = dp.linear_backward(t, g, again, weight)
    g_hidden = product(t, g_again, scale)
    slope = t.subtract(t.constant(np.ones_like(value)), t.multiply(hidden, hidden))
    t.rounded(slope, 1 + value**2)
    _, g_w1, g_b1 = dp.linear_backward(t, product(t, g_hidden, slope), first, weight)
    g_w, g_b = t.add(g_w1, g_w2), t.add(g_b1, g_b2)
    t.rounded(g_w, g_w1.size + g_w2.size)
    t.rounded(g_b, g_b1.size + g_b2.size)
    return {"output": logits, "loss": loss, "gradient.first.weight": g_w, "gradient.first.bias": g_b}


def plain_forward(w: dict[str, Any], samples: np.ndarray):
    scale = np.asarray(buffers["scale"])
    hidden = anp.tanh((samples * scale) @ w["first.weight"].T + w["first.bias"])
    return (hidden * scale) @ w["first.weight"].T + w["first.bias"]


def second(sizes: tuple[int, ...]) -> dict[str, np.ndarray]:
    return dp.second_gradients(plain_forward, {n: np.asarray(v) for n, v in parameters.items()}, np.asarray(x), np.asarray(y), sizes)


def build(store: Any) -> dict[str, Any]:
    return dp.document(MODEL, store)
