"""What a model's run must give: sampled elements, checksums and losses, each with the error that rounding explains.

The golden is a run in long double. Its bounds come from RUNS perturbed runs, in which every operation's result is moved by plus or minus the largest
rounding that it may have (docs/numerics.md#models)."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

import numpy
from safetensors.numpy import load

from golden.draw import Draw, Drawn
from golden.evaluate import Refused
from golden.models._layers import Weights
from golden.models._tape import Machine, machine

RUNS = 32
LAMBDA = {16: 14.733, 24: 10.837, 32: 9.403}  # Student's t with so many degrees of freedom exceeds it with probability 1e-10
UNIT, TF32 = 2.0**-24, 2.0**-10
LONG = 2.0**-64  # the golden's own rounding unit
SAMPLES = 8
PERIOD, CENTRE = 509, 254  # of the checksum's weights

Run = Callable[[], dict[str, Any]]


def checksum(values: numpy.ndarray) -> Any:
    """Σ w_i y_i with the weights ((i mod 509) - 254) / 256: a swap of two elements shows."""
    flat = values.reshape(-1)
    weights = ((numpy.arange(flat.size) % PERIOD) - CENTRE) / 256
    return (flat * weights.astype(flat.dtype)).sum()


class Plan:
    """Which elements of which results are kept, and where they stand in one long vector."""

    def __init__(self, model: str, results: dict[str, Any], samples: int = SAMPLES) -> None:
        self.rows: list[dict[str, Any]] = []
        self.index: list[numpy.ndarray] = []
        begin = 0
        for name, value in results.items():
            draw = Draw(f"{model}/samples/{name}")  # by name: the same whatever else is observed
            size = numpy.asarray(value).size
            index = numpy.arange(size) if size <= samples else numpy.unique(draw.integers(0, size, samples))
            summed = size > samples
            self.rows.append({"name": name, "shape": list(numpy.shape(value)), "begin": begin, "count": len(index), "checksum": summed})
            self.index.append(index)
            begin += len(index) + summed

    def pick(self, results: dict[str, Any]) -> numpy.ndarray:
        parts = []
        for row, index in zip(self.rows, self.index, strict=True):
            value = numpy.asarray(results[row["name"]])
            if list(value.shape) != row["shape"]:
                raise ValueError(f"{row['name']} has another shape in another run")
            parts.append(value.reshape(-1)[index])
            if row["checksum"]:
                parts.append(numpy.asarray([checksum(value)]))
        return numpy.concatenate(parts)

    def where(self, place: int) -> str:
        return next(row["name"] for row in reversed(self.rows) if row["begin"] <= place)


def perturbed(run: Run, plan: Plan, base: numpy.ndarray, runs: int, **options: float) -> numpy.ndarray:
    """The root of the mean square of what perturbations move: an estimate of Σ (∂y/∂e_i σ_i)² with `runs` degrees of freedom."""
    squares = numpy.zeros(len(base))
    for k in range(runs):
        with machine(Machine(numpy.float64, seed=k + 1, **options)):
            squares += (plan.pick(run()) - base) ** 2
    return numpy.sqrt(squares / runs)


def bounds(run: Run, plan: Plan, runs: int = RUNS) -> tuple[numpy.ndarray, dict[str, numpy.ndarray]]:
    """(float64 run, bounds by dtype and math)."""
    with machine(Machine(numpy.float64)):
        base = plan.pick(run())
    with machine(Machine(numpy.float64, bias=TF32)):
        shifted = numpy.abs(plan.pick(run()) - base)
    ieee = LAMBDA[runs] * perturbed(run, plan, base, runs, unit=UNIT)
    tf32 = shifted + LAMBDA[runs] * perturbed(run, plan, base, runs, unit=UNIT, tf32=TF32)
    return base, {"float32_ieee": ieee, "float32_tf32": numpy.maximum(ieee, tf32)}


def up(values: numpy.ndarray) -> numpy.ndarray:
    """Rounded up to float32."""
    return numpy.float32(values * (1 + 2.0**-20))


def tensor(store: Callable[[str, numpy.ndarray], str], key: str, value: Any) -> dict[str, Any]:
    return {"draw": value.spec} if isinstance(value, Drawn) else {"tensor": store(key, numpy.asarray(value))}


def observed(store: Any, model: str, run: Run, weights: Weights, inputs: dict[str, Any], config: dict[str, Any], runs: int = RUNS, **text: str) -> dict[str, Any]:
    """The JSON of a model that is judged by observations."""
    with machine(Machine(numpy.longdouble)):
        results = run()
    plan = Plan(model, results)
    golden = plan.pick(results)
    base, free = bounds(run, plan, runs)
    double = free["float32_ieee"] * (2.0**-53 / UNIT)
    beyond = numpy.abs(numpy.float64(golden - base)) > double + 2.0**-53 * numpy.abs(numpy.float64(golden))
    if beyond.any() or not numpy.isfinite(golden).all():
        raise Refused(f"{model}: float64 and long double disagree in {plan.where(int(beyond.argmax()))}")
    return document(store, model, plan, numpy.float64(golden), free, weights, inputs, config, LONG, text)


def document(store: Any, model: str, plan: Plan, golden: Any, free: Any, weights: Weights, inputs: Any, config: Any, unit: float, text: Any) -> dict[str, Any]:
    return {
        "model": model,
        "kind": "observed",
        **text,
        "config": config,
        "golden_unit": unit,
        "inputs": {n: tensor(store, f"input.{n}", v) for n, v in inputs.items()},
        "weights": {n: tensor(store, f"weight.{n}", v) for n, v in weights.values.items()},
        "observations": plan.rows,
        "index": store("index", numpy.concatenate(plan.index)),
        "values": store("values", golden),
        "bounds": {n: store(f"bound.{n}", up(v)) for n, v in free.items()},
    }


def close(old: tuple[bytes, bytes], new: tuple[bytes, bytes]) -> bool:
    """Are two renderings of a model the same? Everything but what float64's kernels decide, which differ between machines in the last places:
    values agree to a thousandth of float64's bound (or are the same double), bounds to a part in ten thousand."""
    documents, tensors = [json.loads(one[0]) for one in (old, new)], [load(one[1]) for one in (old, new)]
    for document in documents:
        document.pop("sha256")
    if documents[0] != documents[1] or tensors[0].keys() != tensors[1].keys():
        return False
    first, second = tensors
    allowed = first["bound.float32_ieee"].astype(numpy.float64) * (2.0**-53 / UNIT) * (1e-3 if documents[0]["golden_unit"] == LONG else 1.0)
    for key, value in first.items():
        other = second[key]
        if value.shape != other.shape or value.dtype != other.dtype:
            return False
        if key == "values":
            same = numpy.abs(value - other) <= allowed + numpy.spacing(numpy.abs(value))
        elif key.startswith("bound."):
            same = numpy.abs(value - other) <= 1e-4 * value
        else:
            same = value == other
        if not same.all():
            return False
    return True


def agrees(model: str, run: Run, old: tuple[bytes, bytes]) -> bool:
    """Does a run in float64 give the first of the stored values, within float64's bounds? Where perturbed runs take minutes."""
    document, tensors = json.loads(old[0]), load(old[1])
    with machine(Machine(numpy.float64)):
        again = run()
    plan = Plan(model, again)
    values = plan.pick(again)
    if document["observations"][: len(plan.rows)] != plan.rows:
        return False
    stored, bound = (tensors[key][: len(values)] for key in ("values", "bound.float32_ieee"))
    return bool((numpy.abs(values - stored) <= bound.astype(numpy.float64) * (2.0**-53 / UNIT) + numpy.spacing(numpy.abs(stored))).all())


def named(prefix: str, results: dict[str, Any]) -> Iterator[tuple[str, Any]]:
    return ((f"{prefix}{name}", value) for name, value in results.items())
