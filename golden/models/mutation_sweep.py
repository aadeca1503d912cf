"""A sweep of mutated LeNets, as the fuzzer of a public report made them: other strides, kernels, paddings, dilations and activations, transposed
convolutions, and one discontinuity each. Forward, loss and backward.

The golden is a run in long double; a second run in float64 by other formulas, and a difference quotient of the loss, must agree with it. Stored are
few elements and a checksum of each result, and the largest error that rounding explains (docs/numerics.md#models): signed Jacobians up to each
product's output, absolute values through the backward pass. The suite runs the mutant on the host as well, checks that run against these numbers,
and holds every element of the device's to it."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from typing import Any

import numpy
from safetensors.numpy import load

from golden.draw import from_spec
from golden.evaluate import Refused
from golden.models import _mutants as m
from golden.models._observe import checksum
from golden.ops.convolution.convolution import definition

SOURCE = "paddle#64591"
MUTANTS, ATTEMPTS = 52, 400
# Mode: unit roundoff, and the bounds of the own error of a convolution, a linear layer and anything else, in units of u * scale. cuDNN's convolutions
# may be Winograd or FFT.
MODES = {"float32_ieee": (2.0**-24, 16.0, 16.0, 16.0), "float32_cudnn": (2.0**-24, 256.0, 16.0, 16.0),
         "float32_tf32": (2.0**-24, 32800.0, 32800.0, 16.0), "float64_ieee": (2.0**-53, 16.0, 16.0, 16.0)}
LONG = (2.0**-64, 4000.0, 4000.0, 4000.0)  # the golden's own run: sums of at most 4,000 terms, in the worst order
EXACT = ("relu", "hardtanh", "max_pool2d", "flatten", *m.STEPS)
CHUNK = 64  # rows of a Jacobian at a time
Arrays = dict[str, numpy.ndarray]


def up(x: Any) -> numpy.ndarray:
    """Rounded up to 10 significant bits: the same on machines whose float64 differs in the last places."""
    mantissa, exponent = numpy.frexp(numpy.asarray(x, dtype=numpy.float64))
    return numpy.float32(numpy.ldexp(numpy.ceil(mantissa * (1 + 2.0**-20) * 1024) / 1024, exponent))


def largest(x: numpy.ndarray) -> float:
    return float(up(x.max()))


# ---- the free-running error, forward


def own(one: m.Layer, mode: tuple[float, ...]) -> float:
    """The bound of a layer's own error, relative to its scale."""
    return mode[0] * (mode[1] if one["op"].startswith("conv") else mode[2] if one["op"] == "linear" else mode[3])


def nonlinear(one: m.Layer, x: numpy.ndarray, error: numpy.ndarray) -> numpy.ndarray | float:
    """How far f(x + e) may lie from f(x) + f'(x) e, |e| at most `error`."""
    if one["op"] == "max_pool2d":
        values, errors = m.cells(x, one, -numpy.inf), m.cells(error, one, 0.0)
        best = values.argmax(-1)[..., None]
        reach = numpy.take_along_axis(errors, best, -1) + errors - (numpy.take_along_axis(values, best, -1) - values)
        numpy.put_along_axis(reach, best, 0.0, -1)
        return numpy.maximum(reach.max(-1), 0.0)
    if one["op"] == "avg_pool2d":
        return 0.0
    beyond = sum((jump * numpy.maximum(error - numpy.abs(x - at), 0.0) for at, jump in m.kinks(one)), numpy.zeros(1))
    return beyond + m.curvature(one) / 2 * error**2


def jumps(one: m.Layer, x: numpy.ndarray, y: numpy.ndarray, error: float) -> numpy.ndarray:
    low, high = m.step_range(one, x, error)
    return numpy.maximum(high - y, y - low)


def step(name: str, one: m.Layer, x: numpy.ndarray, y: numpy.ndarray, error: numpy.ndarray, w: Arrays, mode: Any) -> tuple[numpy.ndarray, numpy.ndarray]:
    """(error behind the layer by absolute values, what this layer itself adds to it)."""
    if f"{name}.weight" in w:
        size, bias = numpy.abs(w[f"{name}.weight"]), numpy.abs(w[f"{name}.bias"])
        passed = m.product(one, error, size, None)
        made = own(one, mode) * (m.product(one, numpy.abs(x) + error, size, bias) + numpy.abs(y) + passed)
        return passed + made, made
    if one["op"] == "flatten":
        return error.reshape(len(x), -1), numpy.zeros(y.shape)
    if one["op"] in m.STEPS:
        moved = jumps(one, x, y, largest(error))
        inside = m.chosen(one, x)[1] > largest(error) if one["op"] == "topk" else False
        return moved, numpy.where(inside, 0.0, moved)
    made = numpy.zeros(y.shape) if one["op"] in EXACT else own(one, mode) * 2 * (numpy.abs(y) + (m.pooled(numpy.abs(x), one) if one["op"] == "avg_pool2d" else 0))
    made = made + nonlinear(one, x, error)
    if one["op"] == "max_pool2d":
        return m.cells(error, one, 0.0).max(-1), made
    return (m.pooled(error, one) + made, made) if one["op"] == "avg_pool2d" else (error * (1 + own(one, mode)) + made, made)  # slopes of at most 1


def through(layers: list[m.Layer], upto: int, w: Arrays, values: list[numpy.ndarray], sources: dict[str, list[numpy.ndarray]]) -> Arrays:
    """Per mode the sum over sources of |signed Jacobian to the output of layer `upto`| times the source."""
    shape = values[upto + 1].shape
    size = int(numpy.prod(shape[1:]))
    totals = {mode: numpy.zeros((len(values[0]), size)) for mode in sources}
    for begin in range(0, size, CHUNK):
        rows = numpy.eye(size)[begin : begin + CHUNK]
        g = numpy.broadcast_to(rows[:, None, :], (len(rows), shape[0], size)).reshape(len(rows), *shape)
        for k in range(upto, -1, -1):
            flat = numpy.abs(g).reshape(*g.shape[:2], -1)
            for mode, made in sources.items():
                totals[mode][:, begin : begin + len(rows)] += numpy.einsum("oni,ni->no", flat, made[k].reshape(shape[0], -1))
            if k > 0:
                g = m.pulled_back(layers[k], g, values[k], w.get(f"{m.NAMES[k]}.weight"), False)
                if not g.any():
                    break
    return {mode: total.reshape(shape) for mode, total in totals.items()}


def forward_errors(layers: list[m.Layer], w: Arrays, values: list[numpy.ndarray], modes: dict[str, Any]) -> dict[str, list[numpy.ndarray]]:
    """Per mode the free-running error of the image (none) and behind every layer."""
    errors = {mode: [numpy.zeros(values[0].shape)] for mode in modes}
    sources: dict[str, list[numpy.ndarray]] = {mode: [] for mode in modes}
    for k, (name, one) in enumerate(zip(m.NAMES, layers, strict=True)):
        for mode, numbers in modes.items():
            error, made = step(name, one, values[k], values[k + 1], errors[mode][-1], w, numbers)
            errors[mode].append(error)
            sources[mode].append(made)
        if name in ("conv2", "fc1", "fc2", "fc3"):
            for mode, signed in through(layers, k, w, values, sources).items():
                errors[mode][-1] = numpy.minimum(errors[mode][-1], signed + 2.0**-40 * errors[mode][-1])  # float64 cancels to 2^-40 of it at worst
    return errors


# ---- and backward


def logit_errors(z: numpy.ndarray, p: numpy.ndarray, g: numpy.ndarray, error: numpy.ndarray, own_error: float) -> tuple[float, numpy.ndarray]:
    """(error of the loss, of its gradient by the logits) where the logits err by at most `error`: softmax over the box, in long double."""
    z, e = numpy.longdouble(z), numpy.minimum(numpy.longdouble(error), 50)
    z = z - z.max(1, keepdims=True)
    above, below = numpy.exp(z + e), numpy.exp(z - e)
    others = 1 - numpy.eye(z.shape[1], dtype=numpy.longdouble)
    most, least = above / (above + below @ others), below / (below + above @ others)
    moved = numpy.float64(numpy.where(error < 50, numpy.maximum(most - p, p - least), 1)) / len(z)
    size = numpy.float64(numpy.abs(z).max()) + 1
    return float(2 * error.max() + own_error * 4 * size), moved + own_error * (numpy.float64(p) * size + numpy.abs(g))


def slope_error(one: m.Layer, x: numpy.ndarray, error: numpy.ndarray) -> numpy.ndarray:
    return sum((jump * (numpy.abs(x - at) <= error) for at, jump in m.kinks(one)), numpy.zeros(1)) + m.curvature(one) * error


def upstream_error(one: m.Layer, x: numpy.ndarray, error: numpy.ndarray, g: numpy.ndarray, G: numpy.ndarray, own_error: float) -> numpy.ndarray:  # noqa: N803
    """The error of the gradient before a layer without weights; g, G: the gradient behind it and its error."""
    size = numpy.abs(g) + G
    if one["op"] == "flatten":
        return G.reshape(x.shape)
    if one["op"] == "avg_pool2d":
        return m.pulled_back(one, (G + own_error * size)[None], x, None, True)[0]
    if one["op"] == "max_pool2d":
        values, errors = m.cells(x, one, -numpy.inf), m.cells(error, one, 0.0)
        best = values.argmax(-1)[..., None]
        near = numpy.take_along_axis(values, best, -1) - values <= numpy.take_along_axis(errors, best, -1) + errors
        open_ = near.sum(-1, keepdims=True) > 1
        parts = numpy.where(open_, near * size[..., None], 0.0) + numpy.where(open_, 0.0, (numpy.arange(values.shape[-1]) == best) * G[..., None])
        return m.uncells(parts + own_error * near * size[..., None], one, x.shape[2:])
    if one["op"] == "topk":
        inside, margin = m.chosen(one, x)
        return numpy.where(margin <= largest(error), size, inside * G)
    if one["op"] in m.STEPS and one["op"] != "fake_quantize":
        return numpy.zeros(x.shape)
    moved = slope_error(one, x, error)
    made = 0.0 if one["op"] in EXACT else own_error * size
    return G * numpy.minimum(numpy.abs(m.slope(one, x)) + moved, 1.0) + numpy.abs(g) * numpy.minimum(moved, 1.0) + made


def backward_errors(layers: list[m.Layer], w: Arrays, values: list[numpy.ndarray], p: Any, grads: Arrays, errors: list[numpy.ndarray], mode: Any) -> dict[str, Any]:
    """Errors of the loss and of every weight's gradient, by absolute values."""
    out: dict[str, Any] = {}
    out["loss"], G = logit_errors(values[-1], p, grads["fc3"], errors[-1], mode[0] * mode[3])  # noqa: N806
    for k in range(len(layers) - 1, -1, -1):
        name, one, x, error = m.NAMES[k], layers[k], values[k], errors[k]
        g, weight = numpy.abs(grads[name]), w.get(f"{name}.weight")
        if weight is None:
            G = upstream_error(one, x, error, grads[name], G, mode[0] * mode[3])  # noqa: N806
            continue
        rel, size, many = own(one, mode), numpy.abs(x) + error, 0.0
        if x.ndim == 4:  # sums over thousands of places, in any order: six times the walk of roundings where all terms have one sign
            many = mode[0] * (16 + 2 * math.sqrt(max(x[:, 0].size, g[:, 0].size)))
        gw, gb = numpy.abs(grads[f"{name}.weight"]), numpy.abs(grads[f"{name}.bias"])
        summed = m.to_weight(one, g + G, size, weight) + gw
        out[f"{name}.weight"] = m.to_weight(one, g, error, weight) + m.to_weight(one, G, size, weight) + max(rel, many) * summed
        axes = (0, *range(2, g.ndim))
        out[f"{name}.bias"] = G.sum(axes) + max(mode[0] * mode[3], many) * ((g + G).sum(axes) + gb)
        if k > 0:
            passed = m.to_input(one, g + G, numpy.abs(weight), x.shape[1:])
            G = m.to_input(one, G, numpy.abs(weight), x.shape[1:]) + rel * 2 * passed  # noqa: N806
    return out


# ---- proofs


def second_value(one: m.Layer, x: numpy.ndarray, w: Any, b: Any) -> numpy.ndarray:
    """Each layer again in float64, by another formula."""
    op = one["op"]
    if op.startswith("conv"):
        return definition(x, w, b, one["stride"], one["padding"], one["dilation"], one["groups"], one.get("output_padding"))
    if op == "linear":
        return numpy.stack([(row * w).sum(1) for row in x]) + b
    if op.endswith("pool2d"):
        n, s, p = one["kernel"], one["stride"], one["padding"]
        side = [(size + 2 * p - n) // s + 1 for size in x.shape[2:]]
        out = numpy.zeros((*x.shape[:2], *side))
        for i, j in numpy.ndindex(*side):
            part = x[:, :, max(i * s - p, 0) : i * s - p + n, max(j * s - p, 0) : j * s - p + n]
            out[:, :, i, j] = part.max((2, 3)) if op == "max_pool2d" else part.sum((2, 3)) / n**2
        return out
    if op in ("argmax", "topk"):
        order = numpy.argsort(numpy.argsort(-x, 1, kind="stable"), 1, kind="stable")  # the rank of each
        inside = order < one.get("k", 1)
        return inside * 1.0 if op == "argmax" else inside * x
    if op == "flatten":
        return x.reshape(len(x), -1)
    half = {"floor": lambda: -numpy.ceil(-x), "ceil": lambda: -numpy.floor(-x), "round": lambda: numpy.floor(x + 0.5),
            "sign": lambda: x / numpy.abs(x), "heaviside": lambda: (x > 0) * 1.0, "tanh": lambda: numpy.expm1(2 * x) / (numpy.expm1(2 * x) + 2),
            "fake_quantize": lambda: numpy.minimum(numpy.maximum(numpy.floor(4 * x + 0.5), -8), 7) / 4, "relu": lambda: x * (x > 0),
            "elu": lambda: numpy.maximum(x, 0) + 0.1 * (numpy.exp(numpy.minimum(x, 0)) - 1), "leaky_relu": lambda: numpy.maximum(x, x / 8),
            "sigmoid": lambda: (1 + numpy.tanh(x / 2)) / 2, "softplus": lambda: numpy.maximum(x, 0) + numpy.log1p(numpy.exp(-numpy.abs(x))),
            "hardtanh": lambda: (numpy.abs(x + 1) - numpy.abs(x - 1)) / 2}
    return half[op]()


def prove_forward(layers: list[m.Layer], w: Arrays, values: list[numpy.ndarray], errors: list[numpy.ndarray]) -> None:
    """The second formulas, free-running in float64, stay within float64's bound of the golden."""
    x = numpy.float64(values[0])
    for k, (name, one) in enumerate(zip(m.NAMES, layers, strict=True)):
        x = second_value(one, x, w.get(f"{name}.weight"), w.get(f"{name}.bias"))
        if x.shape != values[k + 1].shape or (numpy.abs(x - values[k + 1]) > errors[k + 1] + 2.0**-50).any():
            raise ValueError(f"{name}: the second formula disagrees")


def prove_gradients(number: int, layers: list[m.Layer], w: Arrays, values: list[numpy.ndarray], grads: Arrays, labels: numpy.ndarray) -> None:
    """Central differences of the loss in long double along one direction a weight; a straight-through step moves with its clipped line."""
    h = numpy.longdouble(2.0**-24)

    def loss(name: str, moved: numpy.ndarray) -> Any:
        x = values[0]
        for k, (layer, one) in enumerate(zip(m.NAMES, layers, strict=True)):
            parts = [moved if f"{layer}.{part}" == name else w.get(f"{layer}.{part}") for part in ("weight", "bias")]
            x = values[k + 1] + m.slope(one, values[k]) * (x - values[k]) if one["op"] == "fake_quantize" else m.apply(one, x, *parts)
        return m.loss_of(x, labels)[0]

    for name, weight in w.items():
        direction = from_spec(m.spec(f"mutation_sweep/{number}/{name}/direction", "normal", weight.shape)).astype(numpy.longdouble)
        quotient = (loss(name, weight + h * direction) - loss(name, weight - h * direction)) / (2 * h)
        size = (numpy.abs(grads[name]) * numpy.abs(direction)).sum()
        if abs(quotient - (grads[name] * direction).sum()) > 1e-6 * size + 1e-10:
            raise ValueError(f"{name}: the gradient is not the loss's: {quotient} and {(grads[name] * direction).sum()}")


def undecided(one: m.Layer, x: numpy.ndarray, error: numpy.ndarray) -> bool:
    """Does an error leave open which side of a jump or kink an element is on?"""
    if one["op"] in ("argmax", "topk"):
        return bool((m.chosen(one, x)[1] <= error.max()).any())
    if one["op"] in m.STEPS and (m.value(one, x - error.max()) != m.value(one, x + error.max())).any():
        return True
    return bool(numpy.any(slope_error(one, x, error) > m.curvature(one) * error)) if m.kinks(one) else False


def tie_matters(one: m.Layer, x: numpy.ndarray, error: numpy.ndarray, before: m.Layer, given_before: numpy.ndarray) -> bool:
    """Does an error leave open which element of a window is the largest, where the activation before lets its gradient through?"""
    slopes = m.chosen(before, given_before)[0] * 1.0 if before["op"] == "topk" else m.slope(before, given_before)
    values = m.cells(x, one, -numpy.inf)
    near = values.max(-1, keepdims=True) - values <= 2 * error.max()
    return bool(((near.sum(-1) > 1) & (near & (m.cells(slopes, one, 0.0) != 0)).any(-1)).any())


def refuse(layers: list[m.Layer], values: list[numpy.ndarray], grads: Arrays, errors: dict[str, list[numpy.ndarray]]) -> None:
    """A mutant that would show nothing: dead layers, answers that no image changes, softplus where ATen takes a line, bounds that allow anything."""
    for k, (name, one) in enumerate(zip(m.NAMES, layers, strict=True)):
        y = values[k + 1]
        if any(len(numpy.unique(image)) < 2 for image in y) or (y[0] == y[1]).all():
            raise Refused(f"{name} is dead: one value everywhere, or the same for both images")
        if one["op"] == "softplus" and values[k].max() > 15:
            raise Refused(f"{name}: softplus of {values[k].max():.3g}")
        if one["op"] == "max_pool2d":
            open_ = tie_matters(one, values[k], 2 * errors["float64_ieee"][k], layers[k - 1], values[k - 1])
        else:
            open_ = undecided(one, values[k], 2 * errors["float64_ieee"][k])
        if open_:
            raise Refused(f"{name}: float64 does not decide every choice")
    spread = numpy.abs(values[-1][0] - values[-1][1]).max()
    if spread < 0.05 or numpy.abs(grads["fc3.weight"]).max() < 1e-3:
        raise Refused("the logits are constant")
    if errors["float32_ieee"][-1].max() > spread / 4:
        raise Refused(f"float32's bound of the logits, {errors['float32_ieee'][-1].max():.3g}, allows anything")


# ---- files


def positions(name: str, size: int) -> list[int]:
    """Flat indices of the elements that are stored: all logits, else the ones at a third and two thirds."""
    return list(range(size)) if name == "fc3" or size < 3 else [size // 3, 2 * size // 3]


def observed(name: str, y: numpy.ndarray) -> list[Any]:
    flat = numpy.asarray(y).reshape(-1)
    return [flat[i] for i in positions(name, flat.size)] + [checksum(flat)]


def result_names() -> Iterator[str]:
    """Rows in the order of a run: layers, loss, gradients from the last layer on."""
    yield from m.NAMES
    yield "loss"
    for name in reversed([n for n in m.NAMES if n[:2] in ("co", "fc")]):
        yield from (f"gradient/{name}.weight", f"gradient/{name}.bias")


def given(number: int, layers: list[m.Layer]) -> tuple[Arrays, numpy.ndarray, numpy.ndarray]:
    w = {name: from_spec(one) for name, one in m.weight_specs(number, layers).items()}
    image = from_spec(m.spec(f"mutation_sweep/{number}/image", "normal", (m.IMAGES, 1, m.SIDE, m.SIDE)))
    labels = from_spec(m.spec(f"mutation_sweep/{number}/labels", "integers", (m.IMAGES,), 0, m.CLASSES))
    return w, image, labels


def solve(number: int, layers: list[m.Layer]) -> tuple[numpy.ndarray, numpy.ndarray]:
    """(observed values, bounds: a row a result, a column a mode) of one mutant; Refused where it would show nothing."""
    w, image, labels = given(number, layers)
    long = {name: v.astype(numpy.longdouble) for name, v in w.items()}
    exact = m.forward(layers, long, image.astype(numpy.longdouble))
    loss, p = m.loss_of(exact[-1], labels)
    grads = m.backward(layers, long, exact, p, labels)
    values, slopes = [numpy.float64(v) for v in exact], {n: numpy.float64(g) for n, g in grads.items()}
    modes = {**MODES, "golden": LONG}
    errors = forward_errors(layers, w, values, modes)
    refuse(layers, values, slopes, errors)
    prove_forward(layers, w, exact, errors["float64_ieee"])
    prove_gradients(number, layers, long, exact, grads, labels)
    both = {mode: {**dict(zip(m.NAMES, errors[mode][1:], strict=True)),
                   **{n if n == "loss" else f"gradient/{n}": e for n, e in backward_errors(layers, w, values, p, slopes, errors[mode], numbers).items()}}
            for mode, numbers in modes.items()}
    results = {**dict(zip(m.NAMES, exact[1:], strict=True)), "loss": loss, **{f"gradient/{n}": grads[n] for n in w}}
    rows = list(result_names())
    for name in rows:
        if not all(numpy.isfinite(both[mode][name]).all() for mode in modes):
            raise ValueError(f"{name}: a bound that is no number")
        if numpy.max(both["golden"][name]) > numpy.max(both["float64_ieee"][name]) / 4:
            raise ValueError(f"{name}: the golden itself may err by a quarter of float64's bound")
    stored = numpy.float64(numpy.asarray([v for name in rows for v in observed(name, results[name])], dtype=numpy.longdouble))
    return stored, numpy.asarray([[largest(numpy.asarray(both[mode][name])) for mode in MODES] for name in rows], dtype=numpy.float32)


def search(number: int) -> tuple[int, list[m.Layer], numpy.ndarray, numpy.ndarray]:
    """The first attempt that is not refused."""
    for attempt in range(ATTEMPTS):
        layers = m.mutant(number, attempt)
        try:
            m.shapes(layers)
        except ValueError:
            continue
        try:
            return (attempt, layers, *solve(number, layers))
        except Refused as refusal:
            print(f"mutation_sweep {number}/{attempt}: {refusal}")
    raise ValueError(f"mutant {number}: every attempt is refused")


def written(one: m.Layer) -> m.Layer:
    """Without what is LeNet's own and the suite's default."""
    default = {"stride": [1, 1], "padding": [0, 0], "dilation": [1, 1], "groups": 1, "output_padding": [0, 0]} if one["op"].startswith("conv") else {}
    return {key: v for key, v in one.items() if default.get(key) != v}


def build(store: Any) -> dict[str, Any]:
    found = [search(number) for number in range(MUTANTS)]
    return {
        "model": "mutation_sweep", "kind": "mutants", "source": SOURCE, "golden_unit": LONG[0], "modes": list(MODES),
        "mutants": [{"name": f"m{k:02}_{m.title(layers)}", "number": k, "attempt": attempt, "layers": [written(one) for one in layers]}
                    for k, (attempt, layers, _, _) in enumerate(found)],
        "values": store("values", numpy.concatenate([v for _, _, v, _ in found])), "bounds": store("bounds", numpy.concatenate([b for _, _, _, b in found])),
    }


def partly(old: tuple[bytes, bytes]) -> bool:
    """Every 13th mutant again; all of them where the sweep is asked for by name."""
    document, tensors = json.loads(old[0]), load(old[1])
    rows, begin = len(list(result_names())), 0
    for k, one in enumerate(document["mutants"]):
        layers = m.mutant(one["number"], one["attempt"])
        outputs = dict(zip(m.NAMES, m.shapes(layers)[1:], strict=True))
        sizes = {f"gradient/{n}": s["shape"] for n, s in m.weight_specs(one["number"], layers).items()} | outputs | {"loss": (1,)}
        count = sum(len(positions(n, int(numpy.prod(sizes[n])))) + 1 for n in result_names())
        if one["layers"] != [written(layer) for layer in layers]:
            return False
        if k % 13 == 0:
            values, bounds = solve(one["number"], layers)
            if not numpy.allclose(values, tensors["values"][begin : begin + count], rtol=1e-13, atol=1e-14):
                return False
            if not numpy.allclose(bounds, tensors["bounds"][rows * k : rows * (k + 1)], rtol=2.0**-8, atol=0):
                return False
        begin += count
    return begin == len(tensors["values"])
