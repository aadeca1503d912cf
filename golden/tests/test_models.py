"""The models' arithmetic against what it stands for: derivatives against differences, perturbed runs against adjoints, real float32 and TF32 runs against
the bounds, slips beyond them."""

from __future__ import annotations

import math
from typing import Any

import numpy
import pytest

from golden.models import _layers as nn
from golden.models import _observe as observe
from golden.models import _resnet, causal_decoder, depthwise_cnn, lstm_language_model, multi_view_transformer, unet
from golden.models import resnet50_data_parallel as sharded
from golden.models._convolution import convolve
from golden.models._tape import Machine, Node, accumulated, add, choose, error_function, exp, gradients, machine, multiply, node, parameter, total
from golden.models.mutated_lenet import cut

UNIT = observe.UNIT


def decoder_run():
    w = causal_decoder.weights()
    tokens = causal_decoder.Draw("causal_decoder/inputs").integers(0, 40, 2, 11)
    return lambda: causal_decoder.run(w, tokens)


def depthwise_run():
    kept = {}
    document = depthwise_cnn.build(lambda key, value: kept.setdefault(key, value) is None or key)
    assert document["kind"] == "observed"
    w, draw = depthwise_cnn.weights(), depthwise_cnn.Draw("depthwise_cnn/inputs")
    given = {"image": draw.normal(4, 3, 16, 16), "classes": draw.integers(0, 7, 4)}
    return lambda: depthwise_cnn.run(w, given)


class Tf32(Machine):
    """Float32 arithmetic whose products' factors are rounded to TF32, as a tensor core's."""

    def factor(self, value: numpy.ndarray) -> numpy.ndarray:
        return cut(value).astype(numpy.float32)


def test_gradients_are_the_derivatives() -> None:
    """Every gradient of every small model along a random direction, by central differences in long double."""
    cases: list[tuple[Any, Any]] = [
        (causal_decoder.weights(), lambda w: causal_decoder.run(w, causal_decoder.Draw("x").integers(0, 40, 2, 11))),
        (lstm_language_model.weights(), lambda w: lstm_language_model.run(w, lstm_language_model.Draw("x").integers(0, 30, 3, 9))),
        (unet.weights(), lambda w: unet.run(w, unet.inputs())),
        (multi_view_transformer.weights(), lambda w: multi_view_transformer.run(w, multi_view_transformer.inputs(), ("average",))),
    ]
    random = numpy.random.default_rng(5)
    for w, run in cases:
        with machine(Machine(numpy.longdouble)):
            results = run(w)
            loss = next(n for n in results if n.endswith("loss"))
            trained = [n for n in w.values if ".running_" not in n]
            way = {n: random.standard_normal(w.values[n].shape) for n in trained}
            slope = sum((results[f"{loss[: -len('loss')]}gradient/{n}"] * way[n]).sum() for n in trained)
            # Short enough that no maximum and no kink is passed.
            step, plain, ends = numpy.longdouble(1e-8), dict(w.values), []
            for sign in (1, -1):
                w.values = {n: numpy.asarray(v, numpy.longdouble) + (sign * step * way[n] if n in way else 0) for n, v in plain.items()}
                ends.append(run(w)[loss])
            w.values = plain
        assert abs(float((ends[0] - ends[1]) / (2 * step) / slope) - 1) < 1e-8


def test_large_convolutions_are_the_small_ones() -> None:
    """Both formulas of the convolution, value and derivatives."""
    random = numpy.random.default_rng(6)
    for k, stride, padding in ((3, 2, 1), (1, 2, 0), (7, 2, 3), (1, 1, 0)):
        x, w = (parameter(random.standard_normal(shape)) for shape in ((2, 3, 9, 9), (4, 3, k, k)))
        first, second = convolve(x, w, stride, padding), nn.convolution(nn.Scope({"c.weight": w}), "c", x, stride, padding)
        assert numpy.allclose(first.value, second.value, rtol=0, atol=1e-12)
        seed = node(random.standard_normal(first.shape))
        for one in (x, w):
            pulled = [gradients([(y, seed)], [one])[one.serial].value for y in (first, second)]
            assert numpy.allclose(*pulled, rtol=0, atol=1e-12)


def test_shards_have_their_own_statistics(monkeypatch: Any) -> None:
    """ResNet-50's blocks, one a stage: a shard's stages and statistics are those of the shard alone, the loss and its derivative those of all."""
    monkeypatch.setattr(_resnet, "BLOCKS", (1, 1, 1, 1))
    monkeypatch.setattr(sharded, "WATCHED", ("conv1.weight", "layer2.0.bn2.bias", "fc.weight"))
    monkeypatch.setattr(sharded, "STATISTICS", ("bn1", "layer4.0.bn3"))
    w, random = _resnet.weights(10), numpy.random.default_rng(9)
    given = {"images": random.uniform(-2, 2, (4, 3, 64, 64)), "classes": numpy.array([1, 7, 3, 3])}
    halves = [{name: v[part] for name, v in given.items()} for part in (slice(0, 2), slice(2, 4))]
    with machine(Machine(numpy.float64)):
        both, whole = sharded.run(w, given, (2,)), sharded.run(w, given, (1,))
        alone = [sharded.run(w, one, (1,)) for one in halves]
    for name in ("layer4", "fc", "bn1.running_mean", "layer4.0.bn3.running_var"):
        assert numpy.array_equal(both[f"shards2/{name}"], numpy.concatenate([one[f"shards1/{name}"] for one in alone]))
    for name in ("loss", "gradient/conv1.weight", "gradient/fc.weight"):
        mean = sum(one[f"shards1/{name}"] for one in alone) / 2
        assert numpy.allclose(both[f"shards2/{name}"], mean, rtol=1e-9, atol=1e-12)
        assert not numpy.allclose(both[f"shards2/{name}"], whole[f"shards1/{name}"], rtol=1e-4, atol=1e-5)


def test_erf_is_good_to_long_double() -> None:
    x = numpy.linspace(-6, 6, 4001, dtype=numpy.longdouble)
    assert numpy.abs(error_function(x) - error_function(x.astype(numpy.float64))).max() < 3e-16


def test_perturbed_runs_estimate_what_adjoints_give() -> None:
    """Σ (∂y/∂e_i σ_i)² over every operation of a forward pass, by a reverse pass, against the mean square of the perturbed runs."""
    w = causal_decoder.weights()
    tokens = causal_decoder.Draw("causal_decoder/inputs").integers(0, 40, 2, 11)

    def loss() -> Node:
        leaves = {n: parameter(v) for n, v in w.values.items()}
        logits = causal_decoder.forward(nn.Scope(leaves), tokens[:, :-1], {})
        return nn.cross_entropy(nn.reshape(logits, 20, 40), tokens[:, 1:].reshape(-1))

    quiet = Machine(numpy.float64)
    with machine(quiet):
        base = loss().value
    noisy = Machine(numpy.float64, unit=UNIT)
    noisy.log = []
    with machine(noisy):
        root = loss()
    kept = noisy.log
    with machine(quiet):
        found = gradients([(root, node(1.0))], [])
    exact = math.sqrt(sum(float(((found[n.serial].value * n.rounding) ** 2).sum()) for n in kept if n.rounding is not None and n.serial in found))
    squares = []
    for seed in range(200):
        with machine(Machine(numpy.float64, unit=UNIT, seed=seed)):
            squares.append((loss().value - base) ** 2)
    assert abs(math.sqrt(numpy.mean(squares)) / exact - 1) < 0.2


@pytest.mark.parametrize("make", [decoder_run, depthwise_run])
def test_float32_is_inside_and_tf32_is_not(make: Any) -> None:
    run = make()
    with machine(Machine(numpy.longdouble)):
        golden = run()
    plan = observe.Plan("test", golden)
    _, free = observe.bounds(run, plan)
    want = numpy.float64(plan.pick(golden))
    ratios = {}
    for name, one in (("float32", Machine(numpy.float32)), ("tf32", Tf32(numpy.float32))):
        with machine(one):
            apart = numpy.abs(numpy.float64(plan.pick(run())) - want)
        ratios[name] = {math_mode: (apart[bound > 0] / bound[bound > 0]).max() for math_mode, bound in free.items()}
    assert ratios["float32"]["float32_ieee"] < 1
    assert ratios["tf32"]["float32_tf32"] < 1
    assert ratios["tf32"]["float32_ieee"] > 5


def test_a_walk_bounds_the_partial_sums() -> None:
    """What `accumulated` says of sums whose terms come in an arbitrary order, measured."""
    random = numpy.random.default_rng(7)
    for mean in (0.0, 0.3, 2.0):
        terms = random.standard_normal((2000, 300)) + mean
        partial = numpy.cumsum(terms, 1)
        measured = math.sqrt((partial**2).sum(1).mean())
        said = math.sqrt((accumulated(300, terms.sum(1), (terms**2).sum(1)) ** 2).mean())
        assert 0.9 < said / measured < 1.2


def test_derivatives_of_derivatives_round_as_they_do() -> None:
    """A backward pass is perturbed too: the gradient moves where the loss does not."""
    with machine(Machine(numpy.float64, unit=UNIT, seed=3)):
        x = parameter(numpy.linspace(0.1, 1, 10))
        y = total(multiply(x, x), (0,))
        slope = gradients([(y, node(1.0))], [x])[x.serial].value
    assert 0 < numpy.abs(slope - 2 * numpy.linspace(0.1, 1, 10)).max() < 20 * UNIT


def test_close_sees_a_changed_value_and_a_changed_bound() -> None:
    from safetensors.numpy import load, save

    from golden.write import render_model

    old = render_model(lstm_language_model.build)
    assert observe.close(old, old)
    for key, factor in (("values", 1 + 1e-9), ("bound.float32_ieee", 1.01), ("index", 2)):
        tensors = load(old[1])
        tensors[key] = (tensors[key] * factor).astype(tensors[key].dtype)
        assert not observe.close(old, (old[0], save(tensors)))
    assert not observe.close(old, (old[0].replace(b'"hidden": 16', b'"hidden": 17'), old[1]))


def test_agrees_sees_another_run() -> None:
    from golden.write import render_model

    old = render_model(lstm_language_model.build)
    w = lstm_language_model.weights()
    tokens = lstm_language_model.Draw("lstm_language_model/inputs").integers(0, 30, 3, 9)
    assert observe.agrees("lstm_language_model", lambda: lstm_language_model.run(w, tokens), old)
    assert not observe.agrees("lstm_language_model", lambda: lstm_language_model.run(w, 29 - tokens), old)


def test_masked_softmax_is_zero_where_nobody_looks() -> None:
    mask = numpy.array([True, False, True])
    p = nn.softmax(node([1.0, 50.0, 2.0]), mask).value
    assert p[1] == 0 and abs(p.sum() - 1) < 1e-15
    assert add(p[0], 0.0).value == choose(node(p), mask).value[0] and exp(node(0.0)).value == 1
