"""The training run's golden against a second derivation: autograd's gradients of a forward pass written anew, stepped in float64."""

from __future__ import annotations

import json
from pathlib import Path

import autograd.numpy as anp
import numpy
import pytest
from autograd import value_and_grad
from safetensors.numpy import load_file

from golden.evaluate import Refused
from golden.models import repeated_training as model
from golden.models._observe import Plan, up

DATA = Path(__file__).resolve().parents[1] / "data/models"
STATISTICS = ("norm.running_mean", "norm.running_var")


def convolved(x, w):
    """3×3 with a border of zeros: a sum of nine shifted products."""
    n, c, h, side = x.shape
    wide = anp.concatenate([anp.zeros((n, c, 1, side)), x, anp.zeros((n, c, 1, side))], 2)
    wide = anp.concatenate([anp.zeros((n, c, h + 2, 1)), wide, anp.zeros((n, c, h + 2, 1))], 3)
    return sum(anp.einsum("nchw,oc->nohw", wide[:, :, i : i + h, j : j + side], w[:, :, i, j]) for i in range(3) for j in range(3))


def loss_of(w, images, tokens, classes):
    x = convolved(images, w["convolution1.weight"])
    mean = x.mean((0, 2, 3), keepdims=True)
    variance = ((x - mean) ** 2).mean((0, 2, 3), keepdims=True)
    x = (x - mean) / anp.sqrt(variance + 1e-5) * w["norm.weight"].reshape(1, -1, 1, 1) + w["norm.bias"].reshape(1, -1, 1, 1)
    x = anp.where(x > 0, x, 0)
    n, c, h, side = x.shape
    x = x.reshape(n, c, h // 2, 2, side // 2, 2).max((3, 5))
    x = convolved(x, w["convolution2.weight"]) + w["convolution2.bias"].reshape(1, -1, 1, 1)
    features = anp.where(x > 0, x, 0).mean((2, 3)) + anp.eye(model.CONFIG["tokens"])[tokens] @ w["embedding.weight"]
    logits = features @ w["head.weight"].T + w["head.bias"]
    return (anp.log(anp.exp(logits).sum(1)) - logits[anp.arange(n), classes]).mean()


def trained(given):
    """Losses of all steps and the weights behind the last."""
    w = {n: numpy.asarray(v, numpy.float64) for n, v in model.weights().values.items() if n not in STATISTICS}
    velocity = {n: numpy.zeros_like(v) for n, v in w.items()}
    losses = []
    for step in range(model.CONFIG["steps"]):
        k = step % model.CONFIG["batches"]
        loss, slopes = value_and_grad(loss_of)(w, numpy.asarray(given["images"][k]), given["tokens"][k], given["classes"][k])
        losses.append(loss)
        for name, slope in slopes.items():
            velocity[name] = model.CONFIG["momentum"] * velocity[name] + slope
            w[name] = w[name] - model.CONFIG["lr"] * velocity[name]
    return losses, w


def test_a_second_derivation_gives_the_same_trajectory() -> None:
    losses, w = trained(model.inputs())
    again = {f"step{k}/loss": numpy.asarray(v) for k, v in enumerate(losses)} | {f"final/{n}": v for n, v in w.items()}
    document, tensors = json.loads((DATA / f"{model.NAME}.json").read_text()), load_file(DATA / f"{model.NAME}.safetensors")
    plan = Plan(model.NAME, again)
    wanted = [row for row in document["observations"] if "running" not in row["name"]]
    assert [row["name"] for row in plan.rows] == [row["name"] for row in wanted]
    kept = numpy.concatenate([numpy.arange(r["begin"], r["begin"] + r["count"] + r["checksum"]) for r in wanted])
    assert numpy.abs(plan.pick(again) - tensors["values"][kept]).max() < 1e-12


def test_every_choice_is_decided_and_an_undecided_one_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    assert model.undecided(model.weights(), model.inputs()) >= 1
    given = model.inputs(4)
    monkeypatch.setattr(model, "inputs", lambda: given)
    with pytest.raises(Refused, match="undecided"):
        model.build(lambda key, value: key)


def test_tf32_is_far_beyond_what_rounding_explains() -> None:
    """The bounds must tell the classes apart: in most results TF32 may err hundreds of times more than IEEE float32."""
    tensors = load_file(DATA / f"{model.NAME}.safetensors")
    ratio = tensors["bound.float32_tf32"] / up(tensors["bound.float32_ieee"])
    assert numpy.median(ratio) > 100
