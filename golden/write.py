"""Write and compare golden files: canonical JSON and safetensors, the same bytes for the same definitions."""

from __future__ import annotations

import hashlib
import json
import math
from pathlib import Path
from typing import Any

import numpy as np
from safetensors.numpy import save

from golden.ball import split_array
from golden.draw import Draw, Drawn
from golden.evaluate import Evaluation, Refused, certify, check_gradients, check_second, is_tensor
from golden.operator import Operator


def coarse(scale: np.ndarray) -> np.ndarray:
    """Rounded up to 8 significant bits, float32."""
    mantissa, exponent = np.frexp(scale)
    up = np.ldexp(np.ceil(mantissa * 256) / 256, exponent)
    return np.minimum(up, np.finfo(np.float32).max).astype(np.float32)


class _Writer:
    def __init__(self) -> None:
        self.tensors: dict[str, np.ndarray] = {}

    def value(self, key: str, value: Any, dtypes: tuple[str, ...]) -> Any:
        if isinstance(value, Drawn):
            return {"draw": value.spec}
        if isinstance(value, np.ndarray):
            if is_tensor(value) and "float32" in dtypes:
                with np.errstate(over="ignore", invalid="ignore"):
                    same = np.array_equal(value.astype(np.float32).astype(np.float64), value, equal_nan=True)
                if not same:
                    raise Refused(f"{key}: the input is not representable in float32")
            self.tensors[key] = np.ascontiguousarray(value)
            return {"tensor": key}
        if isinstance(value, float) and not math.isfinite(value):
            return str(value)
        if isinstance(value, (tuple, list)):
            return [self.value(f"{key}.{i}", v, dtypes) for i, v in enumerate(value)]
        return value

    def out(self, key: str, values: np.ndarray, scale: Any, conditioned: bool) -> dict[str, Any]:
        if values.dtype != object:
            self.tensors[key] = np.ascontiguousarray(values)
            return {"tensor": key}
        hi, lo, _ = split_array(values)
        self.tensors[key] = hi
        out: dict[str, Any] = {"tensor": key}
        if lo.any():
            self.tensors[key + ".lo"] = lo
            out["lo"] = key + ".lo"
        if conditioned:
            self.tensors[key + ".scale"] = coarse(np.where(np.isfinite(hi), scale, 0.0))
            out["scale"] = key + ".scale"
        return out


def render(operator: Operator, family: str) -> tuple[bytes, bytes, int]:
    """(JSON bytes, safetensors bytes, number of cases) of one operator."""
    writer, cases, certified, names = _Writer(), [], -math.inf, set()
    cond = operator.tolerance["float32"]["ieee"]["gauge"] == "conditioned"
    back = operator.backward_tolerance or operator.tolerance
    cond_back = back["float32"]["ieee"]["gauge"] == "conditioned"
    for case in operator.case_function(Draw(operator.name)):
        where = f"{operator.name}/{case.name}"
        if case.name in names:
            raise Refused(f"{where}: the case's name stands twice")
        names.add(case.name)
        evaluation = Evaluation(operator, case, f"{where}/upstream")
        outputs, gradients, scales, grad_scales, proof = certify(evaluation, where)
        check_second(evaluation, outputs, scales, where)
        check_gradients(evaluation, gradients, grad_scales, where)
        certified = max(certified, proof)
        entry: dict[str, Any] = {
            "name": case.name,
            "args": {n: writer.value(f"{case.name}.{n}", v, case.dtypes) for n, v in case.args.items()},
            "outputs": [
                writer.out(f"{case.name}.out{k}", o, s, cond) for k, (o, s) in enumerate(zip(outputs, scales, strict=True))
            ],
        }
        if case.dtypes != ("float32", "float64"):
            entry["dtypes"] = list(case.dtypes)
        for field in ("source", "note"):
            if getattr(case, field):
                entry[field] = getattr(case, field)
        if evaluation.upstream is not None:
            entry["upstream"] = [
                None if g is None else writer.value(f"{case.name}.upstream{k}", g, case.dtypes) for k, g in enumerate(evaluation.upstream)
            ]
            entry["gradients"] = {
                n: writer.out(f"{case.name}.grad.{n}", g, grad_scales[n], cond_back) for n, g in gradients.items()
            }
        if not cases:
            entry["smoke"] = True
        cases.append(entry)
    if not cases:
        raise Refused(f"{operator.name}: no case")
    data = save(dict(sorted(writer.tensors.items())))
    document = {
        "format": 1,
        "operator": operator.name,
        "schema": operator.schema,
        "overload": operator.overload,
        "family": family,
        "tolerance": operator.tolerance,
        **({"backward_tolerance": operator.backward_tolerance} if operator.backward_tolerance else {}),
        "modes": list(operator.modes),
        "nondeterministic": list(operator.nondeterministic),
        "data": f"{operator.name}.safetensors",
        "sha256": hashlib.sha256(data).hexdigest(),
        "certified": "exact" if certified == -math.inf else math.ceil(certified),
        "cases": cases,
    }
    return (json.dumps(document, indent=1) + "\n").encode(), data, len(cases)


def index(root: Path) -> bytes:
    """index.json of what lies under root/data."""
    rows = []
    for path in sorted((root / "data").glob("*/*.json")):
        text = path.read_bytes()
        document = json.loads(text)
        rows.append(
            {
                "operator": document["operator"],
                "family": document["family"],
                "json": str(path.relative_to(root)),
                "sha256": hashlib.sha256(text).hexdigest(),
                "cases": len(document["cases"]),
            }
        )
    return (json.dumps({"format": 1, "operators": rows}, indent=1) + "\n").encode()
