"""What the data-parallel models share: a tape that runs forward and backward and knows how far rounding may carry each result.

A model is written once, forward and backward, in the operations of `Tape`. Run in long double it gives the golden; run in float64 it also
gives, by one reverse pass a result element, the element's sensitivity to every rounding on the way (docs/numerics.md#data-parallel):

    error_i <= LAMBDA u sqrt(sum_j (adjoint_ij local_j)^2)

where local_j u bounds what the j-th operation adds (Higham and Mary, SIAM J. Sci. Comput. 41(5), 2019: rounding errors as independent random
variables of mean zero; Hoeffding's inequality gives a failure probability of 2 exp(-LAMBDA^2 / 2) = 5e-11 an element)."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import autograd.numpy as anp
import numpy as np
from autograd import value_and_grad

from golden.write import coarse

LAMBDA = 7.0
U = 2.0**-24  # of float32, where a decision (relu, a maximum) must stand
BATCHES = (1, 2, 3, 5, 7, 63, 64, 65)
COUNTS = (1, 2, 3, 4, 8)
MOST = max(BATCHES)
SEEDS = 96  # result elements a reverse pass


class Node:
    """A value on the tape; `parents` are (node, adjoint of this node -> adjoint of the parent), each with the seeds' axis in front."""

    def __init__(self, value: np.ndarray, parents: list[tuple[Node, Callable[[np.ndarray], np.ndarray]]]) -> None:
        self.value, self.parents = value, parents

    @property
    def size(self) -> np.ndarray:
        return np.abs(self.value)


def fit(adjoint: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    """Sums over the axes along which a value of `shape` was broadcast; axis 0 holds the seeds."""
    extra = adjoint.ndim - 1 - len(shape)
    adjoint = adjoint.sum(tuple(range(1, 1 + extra))) if extra else adjoint
    axes = tuple(k + 1 for k, n in enumerate(shape) if n == 1 and adjoint.shape[k + 1] != 1)
    return adjoint.sum(axes, keepdims=True) if axes else adjoint


class Tape:
    """Operations on nodes. A node's local error is declared with `rounded`, in units of u."""

    def __init__(self, dtype: Any) -> None:
        self.dtype, self.nodes, self.sources = dtype, [], []

    def made(self, value: np.ndarray, parents: list[tuple[Node, Any]]) -> Node:
        node = Node(value, parents)
        self.nodes.append(node)
        return node

    def constant(self, value: np.ndarray) -> Node:
        return self.made(np.asarray(value, self.dtype), [])

    def rounded(self, node: Node, local: np.ndarray) -> Node:
        """Says that the operation behind the node adds an error of up to `local` u."""
        self.sources.append((node, np.broadcast_to(np.asarray(local, np.float64), node.value.shape)))
        return node

    def add(self, a: Node, b: Node, sign: float = 1.0) -> Node:
        return self.made(a.value + sign * b.value, [(a, lambda g: fit(g, a.value.shape)), (b, lambda g: fit(sign * g, b.value.shape))])

    def subtract(self, a: Node, b: Node) -> Node:
        return self.add(a, b, -1.0)

    def multiply(self, a: Node, b: Node) -> Node:
        x, y = a.value, b.value
        return self.made(x * y, [(a, lambda g: fit(g * y, x.shape)), (b, lambda g: fit(g * x, y.shape))])

    def scaled(self, a: Node, factor: Any) -> Node:
        """Times numbers that carry no error (or whose error the caller declares)."""
        return self.made(a.value * factor, [(a, lambda g: fit(g * factor, a.value.shape))])

    def matmul(self, a: Node, b: Node) -> Node:
        """(m, k) @ (k, n), rounded as a sum of k products in any order: each of k - 1 sums and k products errs by at most u sum |a||b|."""
        x, y = a.value, b.value
        node = self.made(x @ y, [(a, lambda g: g @ y.T), (b, lambda g: x.T @ g)])
        return self.rounded(node, math.sqrt(x.shape[1] + 1) * (np.abs(x) @ np.abs(y)))

    def transposed(self, a: Node) -> Node:
        return self.made(a.value.T, [(a, lambda g: g.transpose(0, 2, 1))])

    def reshaped(self, a: Node, *shape: int) -> Node:
        value = a.value.reshape(shape)
        return self.made(value, [(a, lambda g: g.reshape(g.shape[0], *a.value.shape))])

    def total(self, a: Node, local: np.ndarray | None = None) -> Node:
        """Sum over the rows of a matrix, in any order; `local`: magnitudes that are summed where they are more than |a|."""
        node = self.made(a.value.sum(0), [(a, lambda g: np.broadcast_to(g[:, None], (len(g), *a.value.shape)))])
        return self.rounded(node, math.sqrt(a.value.shape[0] + 1) * (a.size if local is None else local).sum(0))

    def unary(self, a: Node, value: np.ndarray, slope: np.ndarray) -> Node:
        return self.made(value, [(a, lambda g: g * slope)])

    def picked(self, a: Node, index: np.ndarray) -> Node:
        """Elements of the flattened value, each at most once: a choice, exact."""
        return self.made(a.value.reshape(-1)[index], [(a, lambda g: _placed(g, index, a.value.shape))])

    def placed(self, a: Node, index: np.ndarray, shape: tuple[int, ...]) -> Node:
        """Zeros, with the value's elements at these places: the transpose of `picked`."""
        value = np.zeros(math.prod(shape), self.dtype)
        value[index.reshape(-1)] = a.value.reshape(-1)
        return self.made(value.reshape(shape), [(a, lambda g: g.reshape(len(g), -1)[:, index])])

    def spread(self, results: dict[str, Node]) -> dict[str, np.ndarray]:
        """For every element of every result: sum_j (adjoint_j local_j)^2."""
        return {name: np.concatenate([self._reverse(node, seeds) for seeds in _seeds(node)]).reshape(node.value.shape) for name, node in results.items()}

    def _reverse(self, result: Node, seeds: np.ndarray) -> np.ndarray:
        adjoints = {id(result): seeds}
        local: dict[int, list[np.ndarray]] = {}
        for node, values in self.sources:
            local.setdefault(id(node), []).append(values)
        total = np.zeros(len(seeds))
        for node in reversed(self.nodes):
            adjoint = adjoints.pop(id(node), None)
            if adjoint is None:
                continue
            for values in local.get(id(node), ()):
                total += ((adjoint * values).reshape(len(seeds), -1) ** 2).sum(1)
            for parent, pull in node.parents:
                pulled = pull(adjoint)
                adjoints[id(parent)] = adjoints[id(parent)] + pulled if id(parent) in adjoints else pulled
        return total


def _placed(g: np.ndarray, index: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    out = np.zeros((len(g), math.prod(shape)))
    out[:, index.reshape(-1)] = g.reshape(len(g), -1)
    return out.reshape(len(g), *shape)


def _seeds(node: Node):
    count = node.value.size
    for first in range(0, count, SEEDS):
        rows = np.zeros((min(SEEDS, count - first), count))
        rows[np.arange(len(rows)), first + np.arange(len(rows))] = 1.0
        yield rows.reshape(len(rows), *node.value.shape)


# ---- layers that more than one model has


def linear(t: Tape, x: Node, weight: Node, bias: Node) -> Node:
    """x (n, in), weight (out, in): as torch::nn::Linear."""
    product = t.matmul(x, t.transposed(weight))
    return t.rounded(t.add(product, bias), product.size + np.abs(bias.value))


def linear_backward(t: Tape, g: Node, x: Node, weight: Node) -> tuple[Node, Node, Node]:
    """Gradients of input, weight and bias."""
    return t.matmul(g, weight), t.matmul(t.transposed(g), x), t.total(g)


def cross_entropy(t: Tape, logits: Node, labels: np.ndarray, whole: int) -> tuple[Node, Node]:
    """The shard's part of the mean loss over `whole` samples, and the gradient of the logits.

    log_softmax by the shifted sum; exp and log of a device err by up to 2 ulp (CUDA's published table): 4 u. log(sum) lies in [0, log 5], its
    argument in [1, classes]."""
    rows = np.arange(len(labels))
    top = logits.value.max(1, keepdims=True)  # the shift changes nothing but rounding
    shifted = t.rounded(t.made(logits.value - top, [(logits, lambda g: g)]), np.abs(logits.value) + np.abs(top))
    exponential = np.exp(shifted.value)
    e = t.rounded(t.unary(shifted, exponential, exponential), 4 * exponential)
    summed = t.transposed(t.reshaped(t.total(t.transposed(e)), 1, len(labels)))
    logarithm = t.rounded(t.unary(summed, np.log(summed.value), 1 / summed.value), 4 * np.abs(np.log(summed.value)))
    logp = t.rounded(t.subtract(shifted, logarithm), 2 * (shifted.size + logarithm.size + np.abs(top)))
    own = t.picked(logp, rows * logits.value.shape[1] + labels)
    loss = t.reshaped(t.scaled(t.total(t.reshaped(own, len(labels), 1)), -1.0 / np.asarray(whole, t.dtype)))
    t.rounded(loss, 2 * loss.size)
    p = t.rounded(t.unary(logp, np.exp(logp.value), np.exp(logp.value)), 4 * np.exp(logp.value))
    hot = np.zeros(logits.value.shape)
    hot[rows, labels] = 1.0
    g = t.scaled(t.subtract(p, t.constant(hot)), 1 / np.asarray(whole, t.dtype))
    return loss, t.rounded(g, 4 * (p.size + hot) / whole)


# ---- layouts, goldens and bounds of a model


def shard_sizes(batch: int, count: int) -> list[int]:
    """As at::chunk cuts: pieces of ceil(batch / count), the last one shorter; fewer than `count` where they are used up."""
    step = -(-batch // count)
    return [min(step, batch - first) for first in range(0, batch, step)]


def layouts() -> dict[tuple[int, ...], list[int]]:
    """Shard sizes -> the counts of devices that lead to them."""
    out: dict[tuple[int, ...], list[int]] = {}
    for batch in BATCHES:
        for count in COUNTS:
            out.setdefault(tuple(shard_sizes(batch, count)), []).append(count)
    return out


def shards_of(model: Any, dtype: Any, sizes: tuple[int, ...]):
    """(tape, results) of each shard of a layout; the results' names: output, loss, gradient.<parameter>, state.<buffer>."""
    first = 0
    for n in sizes:
        tape = Tape(dtype)
        yield tape, model.run(tape, model.x[first : first + n], model.y[first : first + n], sum(sizes))
        first += n


def joined(parts: list[dict[str, np.ndarray]], name: str) -> np.ndarray:
    """One result of the whole batch: outputs one behind the other, states shard by shard, loss and gradients summed."""
    arrays = [part[name] for part in parts]
    return np.concatenate(arrays) if name == "output" else np.stack(arrays) if name.startswith("state.") else sum(arrays)


def golden(model: Any, sizes: tuple[int, ...]) -> dict[str, np.ndarray]:
    parts = [{name: node.value for name, node in results.items()} for _, results in shards_of(model, np.longdouble, sizes)]
    return {name: joined(parts, name) for name in parts[0]}


def scales(model: Any, sizes: tuple[int, ...]) -> dict[str, np.ndarray]:
    """LAMBDA sqrt(sum_j (adjoint_j local_j)^2) in units of u, and u |result| for what stores and adds up the results of the shards."""
    parts, magnitudes = [], []
    for tape, results in shards_of(model, np.float64, sizes):
        parts.append(tape.spread(results))
        magnitudes.append({name: node.size for name, node in results.items()})
    out = {}
    for name in parts[0]:
        sums = not name.startswith(("output", "state."))
        added = (len(sizes) - 1 if sums else 0) * joined(magnitudes, name)  # the reductions of the shards' sums, in any order
        # loss and gradients: variances add up too, since the shards' errors are independent
        out[name] = LAMBDA * np.sqrt(joined(parts, name) + added**2) + joined(magnitudes, name)
    return out


def out(store: Callable[[str, np.ndarray], str], key: str, value: np.ndarray, scale: np.ndarray) -> dict[str, str]:
    """A scale of zero stands only where a dead ReLU makes the golden a zero that every implementation must give."""
    if not (np.isfinite(value).all() and np.isfinite(scale).all() and ((scale > 0) | (value == 0)).all() and scale.any()):
        raise ValueError(f"{key}: a golden or a bound that is no finite number, or a bound of zero")
    return {"tensor": store(key, np.float64(value)), "scale": store(f"{key}.scale", coarse(np.asarray(scale, np.float64) * (1 + 2.0**-10)))}


def second_gradients(forward: Any, w: dict[str, np.ndarray], x: np.ndarray, y: np.ndarray, sizes: tuple[int, ...]) -> dict[str, np.ndarray]:
    """Output, loss and gradients of plain forward code `forward(w, shard)`, differentiated by HIPS autograd."""
    outputs: list[Any] = []

    def mean_loss(w: dict[str, np.ndarray]):
        outputs.clear()
        first, total = 0, 0.0
        for n in sizes:
            logits = forward(w, x[first : first + n])
            outputs.append(getattr(logits, "_value", logits))
            logp = logits - anp.log(anp.sum(anp.exp(logits), axis=1, keepdims=True))
            total = total - anp.sum(logp[np.arange(n), y[first : first + n]])
            first += n
        return total / sum(sizes)

    loss, gradients = value_and_grad(mean_loss)(w)
    return {"output": np.concatenate(outputs), "loss": np.asarray(loss), **{f"gradient.{n}": g for n, g in gradients.items()}}


def demand_same(name: str, first: dict[str, np.ndarray], second: dict[str, np.ndarray]) -> None:
    """The second formula: plain forward code, differentiated by HIPS autograd."""
    if not set(second) <= set(first):
        raise ValueError(f"{name}: the second formula names other results")
    for key, value in second.items():
        if first[key].shape != value.shape or np.abs(first[key] - value).max() > 1e-12 * max(1.0, np.abs(value).max()):
            raise ValueError(f"{name}/{key}: the second formula disagrees")


def evaluation(model: Any, store: Callable[[str, np.ndarray], str]) -> dict[str, str]:
    """Eval mode, where no sample sees another: the output of all samples."""
    value = model.evaluate(Tape(np.longdouble), model.x)["output"].value
    tape = Tape(np.float64)
    result = model.evaluate(tape, model.x)
    spread = tape.spread(result)["output"]
    demand_same(f"{model.NAME}/eval", {"output": value}, {"output": model.second_evaluate()})
    return out(store, "eval.output", value, LAMBDA * np.sqrt(spread) + np.abs(value))


def document(model: Any, store: Callable[[str, np.ndarray], str]) -> dict[str, Any]:
    """A model's JSON: draws of weights and inputs, the golden of eval mode, and one golden a layout."""
    rows = []
    for sizes, counts in layouts().items():
        values, allowed = golden(model, sizes), scales(model, sizes)
        demand_same(f"{model.NAME}/{sizes}", values, model.second(sizes))
        key = "_".join(map(str, (sum(sizes), len(sizes))))
        entries = {name: out(store, f"{key}.{name}", value, allowed[name]) for name, value in values.items()}
        rows.append({
            "batch": sum(sizes), "shards": list(sizes), "counts": counts, "output": entries["output"], "loss": entries["loss"],
            "gradients": {n.removeprefix("gradient."): e for n, e in entries.items() if n.startswith("gradient.")},
            "states": {n.removeprefix("state."): e for n, e in entries.items() if n.startswith("state.")},
        })
    return {
        "model": model.NAME, "source": model.SOURCE, "note": model.NOTE,
        "parameters": {n: {"draw": v.spec} for n, v in model.parameters.items()}, "buffers": {n: {"draw": v.spec} for n, v in model.buffers.items()},
        "input": {"draw": model.x.spec}, "labels": {"draw": model.y.spec}, "layouts": rows,
    }
