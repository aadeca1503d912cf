"""The multi-view transformer of a public report: 32 % accuracy on a GPU, 43 % on the CPU, the same code and seeds.

Two expert BERT question-answering encoders and a shared one. One expert's answer (by domain), the shared one's, or the mean of all softmaxes;
loss (S + E/2) + (s + e)/2, as the report's code has it. Trained by AdamW for some steps: losses, probabilities, gradients and weights of each."""

from __future__ import annotations

from typing import Any

import numpy

from golden.draw import Draw
from golden.models import _layers as nn
from golden.models._layers import Scope, Weights
from golden.models._observe import observed
from golden.models._tape import Node, add, fixed, gradients, multiply, node, parameter, scale, sqrt, subtract, take, transpose

SOURCE = "report 1: training accuracy, CPU against GPU"
VOCABULARY, LENGTH, WIDTH, HEADS, INNER, LAYERS, EXPERTS, BATCH = 30, 12, 16, 2, 32, 2, 2, 4
LAYER_NORM_EPS = 1e-12
OPTIMIZER = {"lr": 1e-3, "beta1": 0.9, "beta2": 0.999, "eps": 1e-6, "weight_decay": 0.01}
STEPS = ("average", "expert0", "expert1", "shared", "average", "expert0")  # which branch answers
NAMES = [*(f"expert{k}" for k in range(EXPERTS)), "shared"]


def weights() -> Weights:
    w = Weights("multi_view_transformer")
    for encoder in NAMES:
        for name, rows in (("word", VOCABULARY), ("position", LENGTH), ("type", 2)):
            w.uniform(f"{encoder}.{name}.weight", 1.0, rows, WIDTH)
        w.norm(f"{encoder}.norm", WIDTH)
        for k in range(LAYERS):
            for name in ("query", "key", "value", "attention_output"):
                w.linear(f"{encoder}.layer{k}.{name}", WIDTH, WIDTH)
            w.norm(f"{encoder}.layer{k}.attention_norm", WIDTH)
            w.linear(f"{encoder}.layer{k}.intermediate", WIDTH, INNER)
            w.linear(f"{encoder}.layer{k}.output", INNER, WIDTH)
            w.norm(f"{encoder}.layer{k}.output_norm", WIDTH)
        w.linear(f"{encoder}.span", WIDTH, 2)
    return w


def inputs() -> dict[str, numpy.ndarray]:
    """Sequences of several lengths; behind a sequence's end stands padding, which attention must not see."""
    draw = Draw("multi_view_transformer/inputs")
    lengths = numpy.array([LENGTH, 9, 7, 10])[:, None]
    return {
        "tokens": draw.integers(1, VOCABULARY, BATCH, LENGTH),
        "mask": (numpy.arange(LENGTH) < lengths).astype(numpy.int64),
        "types": numpy.broadcast_to((numpy.arange(LENGTH) >= 4).astype(numpy.int64), (BATCH, LENGTH)).copy(),
        "starts": draw.integers(4, 6, BATCH, 1),
        "ends": draw.integers(6, 7, BATCH, 1),
    }


def encoder(s: Scope, given: dict[str, numpy.ndarray]) -> tuple[Node, Node]:
    """Start and end logits (B, T)."""
    place = numpy.broadcast_to(numpy.arange(LENGTH), given["tokens"].shape)
    x = add(add(nn.embedding(s, "word", given["tokens"]), nn.embedding(s, "type", given["types"])), nn.embedding(s, "position", place))
    x = nn.layer_norm(s, "norm", x, LAYER_NORM_EPS)
    mask = given["mask"][:, None, None, :] > 0
    for k in range(LAYERS):
        one = s.under(f"layer{k}")
        seen = nn.linear(one, "attention_output", nn.attention(one, x, HEADS, mask))
        x = nn.layer_norm(one, "attention_norm", add(seen, x), LAYER_NORM_EPS)
        inner = one.note("gelu", nn.gelu(nn.linear(one, "intermediate", x)))
        x = nn.layer_norm(one, "output_norm", add(nn.linear(one, "output", inner), x), LAYER_NORM_EPS)
    both = transpose(nn.linear(s, "span", x), 2, 0, 1)
    return take(both, 0), take(both, 1)


def answer(s: Scope, given: dict[str, numpy.ndarray], branch: str) -> tuple[Node, Node, Node]:
    """Start and end probabilities and the loss."""
    logits = {"shared": encoder(s.under("shared"), given)}
    for name in NAMES[:-1] if branch == "average" else [branch]:
        if name != "shared":
            logits[name] = encoder(s.under(name), given)
    if branch == "average":
        share = numpy.longdouble(1) / (EXPERTS + 1)
        predictions = []
        for k in (0, 1):
            mean = node(0.0)
            for name in NAMES:
                mean = add(mean, scale(nn.softmax(logits[name][k]), share))
            predictions.append(mean)
    else:
        predictions = [nn.softmax(one) for one in logits[branch]]
    where = [given[name].squeeze(-1).clip(0, LENGTH) for name in ("starts", "ends")]
    first, second = (nn.negative_log_likelihood(p, at) for p, at in zip(predictions, where, strict=True))
    third, fourth = (nn.cross_entropy(x, at) for x, at in zip(logits["shared"], where, strict=True))
    loss = add(add(first, scale(second, 0.5)), scale(add(third, fourth), 0.5))
    return s.note("start_probabilities", predictions[0]), s.note("end_probabilities", predictions[1]), s.note("loss", loss)


class AdamW:
    """Decoupled weight decay; a weight without a gradient is left alone and keeps its own count of steps."""

    def __init__(self) -> None:
        self.state: dict[str, tuple[int, Node, Node]] = {}

    def step(self, values: dict[str, Node], slopes: dict[str, Node]) -> dict[str, Node]:
        o, out = OPTIMIZER, dict(values)
        for name, g in slopes.items():
            count, m, v = self.state.get(name, (0, node(numpy.zeros(g.shape)), node(numpy.zeros(g.shape))))
            count += 1
            m = add(scale(m, o["beta1"]), scale(g, 1 - o["beta1"]))
            v = add(scale(v, o["beta2"]), scale(multiply(g, g), 1 - o["beta2"]))
            self.state[name] = count, m, v
            root = scale(sqrt(v), 1 / numpy.sqrt(numpy.longdouble(1 - o["beta2"] ** count)))
            move = nn.divide(m, add(root, o["eps"]))
            kept = scale(values[name], 1 - o["lr"] * o["weight_decay"])
            out[name] = subtract(kept, scale(move, o["lr"] / (1 - o["beta1"] ** count)))
        return out



def run(w: Weights, given: dict[str, numpy.ndarray], steps: tuple[str, ...] = STEPS) -> dict[str, Any]:
    """The first step layer by layer with every gradient; of each step the loss, the probabilities, and some weights behind it."""
    values: dict[str, Node] = {name: parameter(v) for name, v in w.values.items()}
    optimizer, results = AdamW(), {}
    for step, branch in enumerate(steps):
        notes: dict[str, Any] = {}
        leaves = {name: parameter(v.value) for name, v in values.items()}
        _, _, loss = answer(Scope(leaves, notes), given, branch)
        found = gradients([(loss, node(1.0))], list(leaves.values()))
        slopes = {name: fixed(found[leaf.serial]) for name, leaf in leaves.items() if leaf.serial in found}
        values = optimizer.step(leaves, slopes)
        for name, value in notes.items():
            if step == 0 or "." not in name:
                results[f"step{step}/{name}"] = value
        for name, slope in slopes.items() if step == 0 else []:
            results[f"step0/gradient/{name}"] = slope.value
        for name in watched(branch):
            results[f"step{step}/weight/{name}"] = values[name].value
    return results


def watched(branch: str) -> list[str]:
    """Weights that are looked at behind a step: of the shared encoder and of the expert that took part."""
    ends = ("word.weight", "layer0.query.weight", "layer1.output.weight", "layer1.output_norm.bias", "span.weight")
    return [f"{name}.{end}" for name in ("shared", branch if branch in NAMES[:-1] else "expert0") if branch != "shared" or name == "shared" for end in ends]


def build(store: Any) -> dict[str, Any]:
    w, given = weights(), inputs()
    config = {
        "vocabulary": VOCABULARY, "length": LENGTH, "width": WIDTH, "heads": HEADS, "inner": INNER, "layers": LAYERS, "experts": EXPERTS,
        "layer_norm_eps": LAYER_NORM_EPS, "optimizer": OPTIMIZER, "steps": list(STEPS),
    }
    return observed(store, "multi_view_transformer", lambda: run(w, given), w, given, config, source=SOURCE, note="tiny: the same code as BERT's shape")



