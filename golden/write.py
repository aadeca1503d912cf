"""Write and compare golden files: canonical JSON and safetensors, the same bytes for the same definitions."""

from __future__ import annotations

import hashlib
import inspect
import json
import math
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from safetensors.numpy import save

from golden.ball import split_array
from golden.draw import Draw, Drawn, Pair
from golden.evaluate import Evaluation, Refused, certify, check_gradients, check_second, is_floating, is_tensor, plain
from golden.operator import Case, Operator, Out


def coarse(scale: np.ndarray) -> np.ndarray:
    """Rounded up to 8 significant bits; float32, or float64 where that would overflow or lose bits to underflow."""
    mantissa, exponent = np.frexp(scale)
    up = np.ldexp(np.ceil(mantissa * 256) / 256, exponent)
    narrow = np.finfo(np.float32)
    fits = (up == 0) | ((up >= narrow.tiny) & (up <= narrow.max))
    return up.astype(np.float32) if np.all(fits) else up


class _Writer:
    def __init__(self, operator: Operator, case: Case) -> None:
        self.operator, self.case = operator, case
        self.tensors: dict[str, np.ndarray] = {}

    def store(self, key: str, array: np.ndarray) -> str:
        key = f"{self.case.name}.{key}"
        self.tensors[key] = np.asarray(array, order="C")  # ascontiguousarray would make a 0-d one 1-d
        return key

    def value(self, key: str, value: Any) -> Any:
        """An argument, an upstream gradient or a figure inside an item, as the format's JSON."""
        if isinstance(value, Drawn):
            return {"draw": value.spec}
        if isinstance(value, np.ndarray):
            if value.dtype == object:
                value = split_array(value)[0]
            elif is_tensor(value) and "float32" in self.case.dtypes:
                with np.errstate(over="ignore", invalid="ignore"):
                    same = np.array_equal(value.astype(np.float32).astype(np.float64), value, equal_nan=True)
                if not same:
                    raise Refused(f"{self.operator.name}/{self.case.name}: {key} is not representable in float32")
            if value.dtype == np.float64 and value.size > 64 and np.all(value == value.flat[0]) and not np.signbit(value.flat[0]):
                return {"fill": float(value.flat[0]), "shape": list(value.shape)}
            return {"tensor": self.store(key, value), **({"complex": True} if isinstance(value, Pair) else {})}
        if isinstance(value, float) and not math.isfinite(value):
            return str(value)
        if isinstance(value, (tuple, list)):
            return [self.value(f"{key}.{i}", v) for i, v in enumerate(value)]
        if isinstance(value, dict):
            return {n: self.value(f"{key}.{n}", v) for n, v in value.items()}
        return value

    def item(self, key: str, name: str, value: Any) -> Any:
        """A field of an Out: arrays in it are goldens of their own."""
        if name == "members":
            return [self.golden(f"{key}.member{i}", m if m.dtype != object else plain(m)) for i, m in enumerate(value)]
        if name == "residual":
            rows = [dict(row) for row in value]
            for i, row in enumerate(rows):
                if "tensor" in row:
                    row["tensor"] = self.value(f"{key}.residual{i}", np.asarray(row["tensor"]))["tensor"]
            return rows
        if name == "statistic" and "values" in value.get("support", {}):
            values = [self.golden(f"{key}.value{i}", v) for i, v in enumerate(value["support"]["values"])]
            return {**value, "support": {**value["support"], "values": values}}
        return self.value(f"{key}.{name}", value)

    def golden(self, key: str, values: np.ndarray) -> dict[str, Any]:
        """{tensor, lo} of a golden; integers and copies are exact."""
        if values.dtype != object:
            return {"tensor": self.store(key, values)}
        hi, lo, _ = split_array(values)
        out = {"tensor": self.store(key, hi)}
        if lo.any():
            out["lo"] = self.store(f"{key}.lo", lo)
        return out

    def out(self, key: str, out: Out, scale: Any, gauge: str, trivial: str | None = None) -> dict[str, Any]:
        fields = {n: self.item(key, n, v) for n, v in out.fields.items()}
        if out.value is None:
            return {**fields, **({"shape": list(out.shape)} if out.shape is not None else {}), **({"complex": True} if out.complex else {})}
        values = out.value if out.shape is None else out.value.reshape(out.shape)
        entry = self.golden(key, values)
        if not is_floating(values) and gauge != "exact":
            entry |= {"gauge": "exact", "bound": 0, "why": "an integer"}
        elif is_floating(values) and fields.get("gauge", gauge) == "conditioned":
            finite = np.where(np.isfinite(split_array(values)[0]), np.reshape(scale, values.shape), 0.0)
            entry["scale"] = self.store(f"{key}.scale", coarse(np.hypot(finite[..., 0], finite[..., 1]) if out.complex else finite))
        if out.complex:
            entry["complex"] = True
        if is_floating(values) and self.case.special and not out.complex:
            entry["signed_zero"] = True
        if trivial and is_floating(values) and not np.any(split_array(values)[0]):
            entry["trivial"] = trivial
        return entry | fields


def _entry(evaluation: Evaluation, writer: _Writer) -> tuple[dict[str, Any], float]:
    """A case's JSON and the proven error of its goldens (log2)."""
    operator, case = evaluation.operator, evaluation.case
    where = f"{operator.name}/{case.name}"
    outputs, gradients, scales, grad_scales, proof = certify(evaluation, where)
    check_second(evaluation, outputs, scales, where)
    check_gradients(evaluation, gradients, grad_scales, where)
    gauges = [t["float32"]["ieee"]["gauge"] for t in (operator.tolerance, operator.backward_tolerance or operator.tolerance)]
    entry: dict[str, Any] = {}
    written = []
    for k, (out, values, scale) in enumerate(zip(evaluation.outs, outputs, scales, strict=True)):
        out.value = values
        written.append(writer.out(f"out{k}", out, scale, gauges[0]))
    entry["outputs"] = written[: evaluation.returned]
    if operator.mutates:
        entry["mutates"] = dict(zip(operator.mutates, written[evaluation.returned :], strict=True))
    if evaluation.upstream is not None:
        entry["upstream"] = [
            None if g is None else writer.value(f"upstream{k}", g if out.shape is None else g.reshape(out.shape))
            for k, (g, out) in enumerate(zip(evaluation.upstream, evaluation.outs, strict=False))
        ]
        if operator.freedom_function is not None:
            entry["gradients"], proof = _answers(evaluation, writer, proof)
            return entry, proof
        entry["gradients"] = {
            n: writer.out(f"grad.{n}", Out(g, complex=isinstance(evaluation.leaves[n], Pair)), grad_scales[n], gauges[1], operator.zero_gradient)
            for n, g in gradients.items()
        }
    return entry, proof


def _answers(evaluation: Evaluation, writer: _Writer, proof: float) -> tuple[dict[str, Any], float]:
    """Gradients of which several are right, one for each upstream gradient that the operator's freedom gives: whole alternatives."""
    operator, where = evaluation.operator, f"{evaluation.operator.name}/{evaluation.case.name}"
    tolerance = (operator.backward_tolerance or operator.tolerance)["float32"]["ieee"]
    members: dict[str, list[Any]] = {}
    given = evaluation.upstream
    for k, upstream in enumerate(operator.freedom_function(given)):
        if k == 0 and not all(a is b or np.array_equal(a, b) for a, b in zip(upstream, given, strict=True)):
            raise Refused(f"{where}: the first answer of the freedom is not the given upstream gradient's")
        evaluation.upstream = upstream
        _, gradients, _, scales, one = certify(evaluation, where)
        check_gradients(evaluation, gradients, scales, where)
        proof = max(proof, one)
        for n, g in gradients.items():
            members.setdefault(n, []).append(writer.out(f"grad.{n}.member{k}", Out(g, **tolerance), scales[n], tolerance["gauge"]))
    evaluation.upstream = given
    return {n: {"members": m, "whole": True, "bound": 0, "why": "the signs of the factors are free"} for n, m in members.items()}, proof


def _demand_arguments(operator: Operator, case: Case, function: Callable[..., Any] | None) -> None:
    """The case gives a formula the arguments that it takes."""
    if function is None:
        return
    try:
        inspect.signature(function).bind(**case.args)
    except TypeError as error:
        raise Refused(f"{operator.name}/{case.name}: the case does not fit {function.__name__}{inspect.signature(function)}: {error}") from None


def _demand_meaning(where: str, entry: dict[str, Any], tensors: dict[str, np.ndarray]) -> None:
    """Zeros or NaN alone cannot fail, whatever a kernel does to its input: the suites refuse such a golden too."""
    if "trivial" in entry:
        return
    parts = [(f"output {k}", out) for k, out in enumerate(entry.get("outputs", []))]
    for kind in ("mutates", "gradients"):
        parts += [(f"{kind} {name}", out) for name, out in entry.get(kind, {}).items()]
    for name, out in parts:
        values = tensors.get(out.get("tensor", ""))
        if values is None or "trivial" in out or values.dtype != np.float64 or values.size == 0:
            continue
        if np.all((values == 0) | np.isnan(values)):
            raise Refused(f"{where}, {name}: the golden is all zeros or NaN, so the check could not fail; mark it trivial with a reason")


def render(operator: Operator, family: str) -> tuple[bytes, bytes, int]:
    """(JSON bytes, safetensors bytes, number of cases) of one operator."""
    tensors: dict[str, np.ndarray] = {}
    cases: list[dict[str, Any]] = []
    certified, names = -math.inf, set()
    for case in operator.case_function(Draw(operator.name)):
        if case.name in names or not re.fullmatch("[a-z0-9_]+", case.name):
            raise Refused(f"{operator.name}/{case.name}: a case's name is [a-z0-9_]+ and stands once")
        names.add(case.name)
        writer = _Writer(operator, case)
        entry: dict[str, Any] = {"name": case.name, "args": {n: writer.value(n, v) for n, v in case.args.items()}, **case.fields}
        if case.fields.get("expect") != "error":
            for function in (operator.reference_function, operator.second_function):
                _demand_arguments(operator, case, function)
            evaluation = Evaluation(operator, case, f"{operator.name}/{case.name}/upstream")
            golden, proof = _entry(evaluation, writer)
            entry |= golden
            certified = max(certified, proof)
        if not cases:
            entry["smoke"] = True
        _demand_meaning(f"{operator.name}/{case.name}", entry, writer.tensors)
        tensors |= writer.tensors
        cases.append(entry)
    if not cases:
        raise Refused(f"{operator.name}: no case")
    data = save(dict(sorted(tensors.items())))
    optional = {"backward_tolerance": operator.backward_tolerance, "library_tolerance": operator.library_tolerance}
    document = {
        "format": 1,
        "operator": operator.name,
        "schema": operator.schema,
        "overload": operator.overload,
        "family": family,
        "tolerance": operator.tolerance,
        **{n: v for n, v in optional.items() if v},
        "modes": list(operator.modes),
        "nondeterministic": list(operator.nondeterministic),
        "data": f"{operator.name}.safetensors",
        "sha256": hashlib.sha256(data).hexdigest(),
        "certified": "exact" if certified == -math.inf else math.ceil(certified),
        "cases": cases,
    }
    return pretty(document).encode(), data, len(cases)


def render_model(build: Callable[[Callable[[str, np.ndarray], str]], dict[str, Any]]) -> tuple[bytes, bytes]:
    """(JSON bytes, safetensors bytes) of a model; `build` stores its arrays by the function that it is given."""
    tensors: dict[str, np.ndarray] = {}

    def store(key: str, array: np.ndarray) -> str:
        tensors[key] = np.asarray(array, order="C")
        return key

    document = {"format": 1, **build(store)}
    data = save(dict(sorted(tensors.items())))
    document |= {"data": f"{document['model']}.safetensors", "sha256": hashlib.sha256(data).hexdigest()}
    return pretty(document).encode(), data


def pretty(value: Any, depth: int = 0) -> str:
    """JSON whose lists and objects stand on one line where they fit: a third smaller than one value a line, and easier to read."""
    flat = json.dumps(value)
    end = "\n" if depth == 0 else ""
    if not isinstance(value, dict | list) or len(flat) + depth <= 140:
        return flat + end
    pad = "\n" + " " * (depth + 1)
    if isinstance(value, dict):
        inside, (left, right) = (f"{json.dumps(k)}: {pretty(v, depth + 1)}" for k, v in value.items()), "{}"
    else:
        inside, (left, right) = (pretty(v, depth + 1) for v in value), "[]"
    return left + pad + ("," + pad).join(inside) + "\n" + " " * depth + right + end


def index(root: Path) -> bytes:
    """index.json of what lies under root/data."""
    rows, models = [], []
    for path in sorted((root / "data").glob("*/*.json")):
        text = path.read_bytes()
        document = json.loads(text)
        if "model" in document:
            models.append({"model": document["model"], "json": str(path.relative_to(root)), "sha256": hashlib.sha256(text).hexdigest()})
            continue
        rows.append(
            {
                "operator": document["operator"],
                "family": document["family"],
                "json": str(path.relative_to(root)),
                "sha256": hashlib.sha256(text).hexdigest(),
                "cases": len(document["cases"]),
            }
        )
    return pretty({"format": 1, "operators": rows, "models": models}).encode()
