"""ResNet-50 in eval mode on 64 images of 3×224×224: logits of each, and checksums and samples of every stage of the first two.

Float64; the first image again in long double. Two images get bounds by RUNS perturbed runs, element by element. Of the others each has one perturbed run,
whose 1,000 logits are pooled: docs/numerics.md#models."""

from __future__ import annotations

import math
from typing import Any

import numpy

from golden.draw import Draw
from golden.evaluate import Refused
from golden.models import _resnet
from golden.models._layers import Scope
from golden.models._observe import LAMBDA, TF32, UNIT, Plan, agrees, bounds, document, named
from golden.models._tape import Machine, machine, node

IMAGES, STUDIED, SIDE = 64, 2, 224
RUNS = 16
POOLED_FREEDOM = 16  # of the mean square of one perturbed run's logits, at least


def images() -> numpy.ndarray:
    return Draw("resnet50/images").uniform(-2, 2, IMAGES, 3, SIDE, SIDE, stored=False)


def run(w: Any, image: numpy.ndarray) -> dict[str, Any]:
    notes: dict[str, Any] = {}
    _resnet.forward(Scope({n: node(v) for n, v in w.values.items()}, notes), node(image[None]), train=False)
    notes["fc"] = notes["fc"][0]
    return {n: v[0] if n != "fc" else v for n, v in notes.items()}


def logits(w: Any, image: numpy.ndarray, **options: float) -> numpy.ndarray:
    with machine(Machine(numpy.float64, **options)):
        return run(w, image)["fc"]


def demand_freedom(w: Any, image: numpy.ndarray, base: numpy.ndarray) -> float:
    """How far one logit's deviation may exceed the pooled one; the pooled mean square must have enough degrees of freedom."""
    moved = numpy.stack([logits(w, image, unit=UNIT, seed=1000 + k) - base for k in range(RUNS)]) ** 2
    pooled = moved.mean(1)
    freedom = 2 * pooled.mean() ** 2 / pooled.var(ddof=1)
    if freedom < POOLED_FREEDOM:
        raise Refused(f"resnet50: the pooled deviation has {freedom:.1f} degrees of freedom, fewer than {POOLED_FREEDOM}")
    return float(numpy.sqrt(moved.mean(0).max() / moved.mean()))


def build(store: Any) -> dict[str, Any]:
    w, pictures = _resnet.weights(), images()
    results: dict[str, Any] = {}
    free: dict[str, list[numpy.ndarray]] = {"float32_ieee": [], "float32_tf32": []}
    for k in range(STUDIED):
        with machine(Machine(numpy.float64)):
            one = run(w, pictures[k])
        results |= dict(named(f"image{k}/", one))
        _, allowed = bounds(lambda k=k: dict(named(f"image{k}/", run(w, pictures[k]))), Plan("resnet50", dict(named(f"image{k}/", one))), RUNS)
        for key, values in allowed.items():
            free[key].append(values)
    plan = Plan("resnet50", results)
    confirm(w, pictures[0], results, plan, free["float32_ieee"][0])
    spread = demand_freedom(w, pictures[0], results["image0/fc"])
    for k in range(STUDIED, IMAGES):
        base = results[f"image{k}/fc"] = logits(w, pictures[k])
        ieee = spread * LAMBDA[POOLED_FREEDOM] * rms(logits(w, pictures[k], unit=UNIT, seed=k) - base)
        tf32 = spread * LAMBDA[POOLED_FREEDOM] * rms(logits(w, pictures[k], unit=UNIT, tf32=TF32, bias=TF32, seed=k) - base)
        one = Plan("resnet50", {f"image{k}/fc": base})
        free["float32_ieee"].append(summed(one, base, ieee))
        free["float32_tf32"].append(summed(one, base, tf32))
    plan = Plan("resnet50", results)
    kept = {key: numpy.concatenate(values) for key, values in free.items()}
    text = {"source": "report 3: DataParallel on ResNet-50", "note": "eval mode; images 0 and 1 stage by stage"}
    return document(store, "resnet50", plan, plan.pick(results), kept, w, {"images": pictures}, {"classes": _resnet.CLASSES}, 2.0**-53, text)


def rms(x: numpy.ndarray) -> float:
    return math.sqrt((x * x).mean())


def summed(plan: Plan, base: numpy.ndarray, deviation: float) -> numpy.ndarray:
    """The pooled bound of each sample, and of the checksum: its weights are at most 1, so the sum of n may move n times as far."""
    return numpy.append(numpy.full(len(plan.index[0]), deviation), base.size * deviation)


def confirm(w: Any, image: numpy.ndarray, results: dict[str, Any], plan: Plan, ieee: numpy.ndarray) -> None:
    """The first image in long double: float64 must be as near as its own bound says."""
    with machine(Machine(numpy.longdouble)):
        fine = run(w, image)
    one = Plan("resnet50", dict(named("image0/", fine)))
    apart = numpy.abs(numpy.float64(one.pick(dict(named("image0/", fine))) - one.pick(results)))
    if (apart > ieee * (2.0**-53 / UNIT)).any():
        raise Refused(f"resnet50: float64 and long double disagree in {one.where(int((apart - ieee).argmax()))}")


def partly(old: tuple[bytes, bytes]) -> bool:
    """A check in seconds where the whole takes minutes: the first image's results again."""
    w, picture = _resnet.weights(), images()[0]
    return agrees("resnet50", lambda: dict(named("image0/", run(w, picture))), old)
