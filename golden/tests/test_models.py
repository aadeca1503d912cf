"""The mutated LeNet's golden, proof and bounds: the stored numbers against mpmath, the bounds against errors made to be as bad as allowed."""

from __future__ import annotations

import json
from pathlib import Path

import mpmath
import numpy
import pytest
from safetensors.numpy import load_file

from golden.evaluate import Refused
from golden.models import mutated_lenet as lenet
from golden.models._propagate import Errors

DATA = Path(__file__).resolve().parents[1] / "data" / "models"
MATHS = (("float32", "ieee"), ("float32", "tf32"), ("float64", "ieee"))


@pytest.fixture(scope="module")
def stored():
    return load_file(DATA / "mutated_lenet.safetensors")


@pytest.fixture(scope="module")
def model(stored):
    w = {name: numpy.asarray(value) for name, value in lenet.weights().items()}
    return w, stored["image"], {name: stored[name] for name, *_ in lenet.LAYERS}


def number(array):
    return numpy.vectorize(mpmath.mpf, otypes=[object])(array)


def second(image, w):
    """The report's network for one image, by index, in mpmath: nothing of the generator's own code."""
    w = {name: number(value) for name, value in w.items()}
    x = number(image)
    out = {}
    y = numpy.empty((6, 32, 32), dtype=object)
    for c, i, j in numpy.ndindex(*y.shape):
        y[c, i, j] = w["conv1.bias"][c] + sum(
            x[0, i - a, j - b] * w["conv1.weight"][0, c, a, b] for a in range(5) for b in range(5) if 0 <= i - a < 28 and 0 <= j - b < 28)
    out["conv1"] = y
    out["relu1"] = y = numpy.vectorize(lambda v: v if v > 0 else mpmath.mpf(0), otypes=[object])(y)
    out["pool1"] = y = halved(y)
    z = numpy.empty((16, 2, 3), dtype=object)
    for o, i, j in numpy.ndindex(*z.shape):
        z[o, i, j] = w["conv2.bias"][o] + (y[:, 7 * i : 7 * i + 5, 5 * j : 5 * j + 5] * w["conv2.weight"][o]).sum()
    out["conv2"] = z
    out["elu"] = z = numpy.vectorize(lambda v: v if v > 0 else mpmath.mpf(0.1) * (mpmath.exp(v) - 1), otypes=[object])(z)
    out["pool2"] = z = halved(z)
    out["flatten"] = z = z.reshape(-1)
    out["fc1"] = z = (w["fc1.weight"] * z).sum(1) + w["fc1.bias"]
    out["relu3"] = z = numpy.vectorize(lambda v: v if v > 0 else mpmath.mpf(0), otypes=[object])(z)
    out["fc2"] = z = (w["fc2.weight"] * z).sum(1) + w["fc2.bias"]
    out["floor"] = z = numpy.vectorize(lambda v: mpmath.floor(v), otypes=[object])(z)
    out["output"] = (w["fc3.weight"] * z).sum(1) + w["fc3.bias"]
    return out


def halved(x):
    """The maxima of whole 2x2 windows."""
    c, h, v = x.shape
    out = numpy.empty((c, h // 2, v // 2), dtype=object)
    for k, i, j in numpy.ndindex(*out.shape):
        out[k, i, j] = max(x[k, 2 * i, 2 * j], x[k, 2 * i, 2 * j + 1], x[k, 2 * i + 1, 2 * j], x[k, 2 * i + 1, 2 * j + 1])
    return out


def disagreements(model, n):
    w, image, goldens = model
    with mpmath.workdps(50):
        found = second(image[n], w)
        return [name for name, values in found.items()
                if any(abs(mpmath.mpf(g) - v) > abs(v) * mpmath.mpf(2) ** -53 for g, v in zip(goldens[name][n].reshape(-1), values.reshape(-1), strict=True))]


@pytest.mark.parametrize("n", [0, 7])
def test_every_layer_is_the_correctly_rounded_answer(model, n):
    assert disagreements(model, n) == []


def test_the_second_formula_sees_one_ulp(model):
    w, image, goldens = model
    goldens = {name: value.copy() for name, value in goldens.items()}
    goldens["fc1"][0, 5] = numpy.nextafter(goldens["fc1"][0, 5], numpy.inf)
    assert disagreements((w, image, goldens), 0) == ["fc1"]


def test_the_certificate(model, stored):
    w, image, goldens = model
    document = json.loads((DATA / "mutated_lenet.json").read_text())
    assert document["certified"] <= -81
    assert image.shape == (lenet.IMAGES + lenet.MOVED, 1, 28, 28) and image.shape[0] >= 8
    assert not stored["floor.free.float32_ieee"].any(), "IEEE float32 decides every floor"
    lenet.certify(image, w, goldens, 2.0**-100)
    with pytest.raises(Refused, match="2\\^-81"):
        lenet.certify(image, w, goldens, 2.0**-60)
    with pytest.raises(Refused, match="fc2: the second formula disagrees"):
        lenet.certify(image, w, goldens | {"fc2": goldens["fc2"] * (1 + 1e-9)}, 2.0**-100)


@pytest.mark.parametrize(("layer", "behind", "value"), [("floor", "fc2", 1 + 2.0**-50), ("relu1", "conv1", -(2.0**-50)), ("elu", "conv2", 2.0**-50)])
def test_a_decision_too_close_to_call_is_refused(model, layer, behind, value):
    _, image, goldens = model
    moved = {name: array.copy() for name, array in goldens.items()}
    moved[behind].reshape(-1)[3] = value
    if layer == "floor":
        moved["floor"].reshape(-1)[3] = 1
    with pytest.raises(Refused, match=layer):
        lenet.refuse_undecided(image, moved, 2.0**-100)


def test_a_tie_in_a_window_is_refused(model):
    _, image, goldens = model
    moved = goldens | {"relu1": goldens["relu1"].copy()}
    moved["relu1"][0, 0, :2, :2] = 0.5
    with pytest.raises(Refused, match="pool1"):
        lenet.refuse_undecided(image, moved, 2.0**-100)


def device(model, unit, dtype, math_mode, signs):
    """The layers of a device whose every layer errs by what it may, with the signs that `signs(name, shape)` gives: name -> array."""
    w, x, _ = model
    out = {}
    for name, _, _, weight in lenet.LAYERS:
        y = lenet.run(name, x, w[f"{weight}.weight"] if weight else None, w[f"{weight}.bias"] if weight else None)
        if weight or name == "elu":
            scale = numpy.abs(y) + (lenet.run(name, numpy.abs(x), numpy.abs(w[f"{weight}.weight"]), numpy.abs(w[f"{weight}.bias"])) if weight else numpy.abs(y))
            y = y + unit * (lenet.TF32 if math_mode == "tf32" and weight else lenet.IEEE) * lenet.U[dtype] * scale * signs(name, y.shape)
        out[name] = x = y
    return out


def beyond(model, stored, made, key):
    return [name for name, values in made.items() if (numpy.abs(values - model[2][name]) > stored[f"{name}.free.{key}"]).any()]


@pytest.mark.parametrize(("dtype", "math_mode"), MATHS)
@pytest.mark.parametrize("seed", range(5))
def test_no_error_that_the_layers_may_make_is_beyond(model, stored, dtype, math_mode, seed):
    draw = numpy.random.default_rng(seed)
    if dtype == "float64":  # NumPy's own float64 would err as much as what is simulated: through one layer's bound of 16 there is room
        made = device(model, 0.9, dtype, math_mode, lambda _, shape: draw.choice([-1.0, 1.0], shape))
    else:
        made = device(model, 1, dtype, math_mode, lambda _, shape: draw.choice([-1.0, 1.0], shape))
    assert beyond(model, stored, made, f"{dtype}_{math_mode}") == []


def worst_signs(model, n, target):
    """The signs of every layer's error that move fc2's element `target` of image n furthest: of its derivative by each layer's result."""
    w, _, g = model
    gradient = {"fc2": numpy.eye(84)[target], "relu3": w["fc2.weight"][target]}
    gradient["fc1"] = gradient["relu3"] * (g["relu3"][n] > 0)
    gradient["pool2"] = (gradient["fc1"] @ w["fc1.weight"]).reshape(16, 1, 1)
    gradient["elu"] = spread_back(g["elu"][n], gradient["pool2"])
    gradient["conv2"] = gradient["elu"] * numpy.where(g["conv2"][n] > 0, 1, 0.1 * numpy.exp(g["conv2"][n]))
    back = numpy.zeros((6, 16, 16))
    for o, i, j in numpy.ndindex(16, 2, 3):
        back[:, 7 * i : 7 * i + 5, 5 * j : 5 * j + 5] += gradient["conv2"][o, i, j] * w["conv2.weight"][o]
    gradient["conv1"] = spread_back(g["relu1"][n], back)
    return {name: numpy.where(value < 0, -1.0, 1.0) for name, value in gradient.items()}


def spread_back(x, gradient):
    """A pooling's backward pass: to the winner of each window."""
    out = numpy.zeros(x.shape)
    for c, i, j in numpy.ndindex(*gradient.shape):
        window = x[c, 2 * i : 2 * i + 2, 2 * j : 2 * j + 2]
        a, b = divmod(int(window.argmax()), 2)
        out[c, 2 * i + a, 2 * j + b] = gradient[c, i, j]
    return out


@pytest.mark.parametrize(("n", "target"), [(0, 0), (3, 17), (7, 83)])
def test_the_bound_is_attained_and_not_passed(model, stored, n, target):
    """Tight: the worst case of errors inside every layer's bound comes to within 2 % of fc2's bound. A worst case of absolute values is 17 times that."""
    signs = worst_signs(model, n, target)
    made = device(model, 1, "float32", "ieee", lambda name, shape: numpy.broadcast_to(signs.get(name, 1.0), shape))
    bound = float(stored["fc2.free.float32_ieee"][n, target])
    assert 0.98 * bound < abs(made["fc2"][n, target] - model[2]["fc2"][n, target]) <= bound


def test_an_error_beyond_one_layers_bound_is_seen(model, stored):
    signs = worst_signs(model, 0, 0)
    made = device(model, 1.05, "float32", "ieee", lambda name, shape: numpy.broadcast_to(signs.get(name, 1.0), shape))
    assert beyond(model, stored, made, "float32_ieee") != []


def test_tf32_is_beyond_what_ieee_allows_and_inside_its_own(model, stored):
    w, x, goldens = model
    made = {}
    for name, _, _, weight in lenet.LAYERS:
        kernel, bias = (w[f"{weight}.weight"], w[f"{weight}.bias"]) if weight else (None, None)
        fc = name in ("fc1", "fc2", "output")
        made[name] = x = lenet.run(name, lenet.cut(x) if fc else x, lenet.cut(kernel) if fc else kernel, bias)
    assert {"fc1", "fc2", "floor", "output"} <= set(beyond(model, stored, made, "float32_ieee"))
    assert beyond(model, stored, made, "float32_tf32") == []
    moved = (made["floor"] != goldens["floor"]).any(1)
    assert moved[-lenet.MOVED :].all(), "the images that were chosen for it"


def test_errors_of_each_kind_of_layer():
    """Kinks, maxima, curvature and jumps, from bounds that reach across them and bounds that do not."""
    errors = Errors(numpy.zeros((1, 2)))
    errors.linear(None, numpy.zeros((1, 2)), numpy.array([[0.5, 0.1]]))
    errors.relu(numpy.array([[-0.2, 0.3]]))
    assert errors.bound.tolist() == [[0.3, 0.1]]
    errors.linear(numpy.array([[1.0, -1.0], [1.0, 1.0]]), numpy.array([[0.4, 0.4]]), numpy.zeros((1, 2)))
    errors.linear(numpy.array([[0.5, 0.5]]), numpy.array([[0.4]]), numpy.zeros((1, 1)))
    assert numpy.allclose(errors.bound, 0.3), "the second input's two paths cancel; absolute values say 0.4"
    errors.floor(numpy.array([[0.2]]))
    assert errors.bound.tolist() == [[1.0]]
    errors = Errors(numpy.zeros((1, 2)))
    errors.linear(None, numpy.zeros((1, 2)), numpy.array([[0.1, 0.3]]))
    errors.maximum(numpy.array([[1.0, 0.8]]), lambda a: a.reshape(1, 1, 2))
    assert numpy.allclose(errors.bound, 0.3)
    errors = Errors(numpy.zeros((1, 1)))
    errors.linear(None, numpy.zeros((1, 1)), numpy.array([[0.1]]))
    errors.floor(numpy.array([[0.5]]))
    assert errors.bound.tolist() == [[0.0]]
    with pytest.raises(ValueError, match="matrix"):
        late = Errors(numpy.zeros((1, 1)))
        late.linear(None, numpy.zeros((1, 1)), numpy.ones((1, 1)))
        late.linear(None, numpy.zeros((1, 1)), numpy.ones((1, 1)))
