"""What a definition under golden/ops/<family>/ is made of: Operator, Case and the tolerances."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

Tolerance = dict[str, dict[str, dict[str, Any]]]
TF32_WHY = "inputs rounded to 11 bits: 2 * 2^-11 * sum|a||b| is 2^14 u * scale, plus the IEEE bound"


def _table(gauge: str, float32: float, float64: float, why: str, tf32: float | None = None) -> Tolerance:
    def entry(bound: float, reason: str) -> dict[str, Any]:
        return {"gauge": gauge, "bound": bound, "why": reason}

    table = {"float32": {"ieee": entry(float32, why)}, "float64": {"ieee": entry(float64, why)}}
    if tf32 is not None:
        table["float32"]["tf32"] = entry(tf32, TF32_WHY)
    return table


def conditioned(float32: float = 16, float64: float = 16, tf32: float | None = None, why: str = "docs/numerics.md#conditioned") -> Tolerance:
    """Bound on |a - g| / (u * scale), scale_i = sum_j |df_i/dx_j| |x_j| + |f_i|."""
    return _table("conditioned", float32, float64, why, tf32)


def ulp(float32: float, float64: float, why: str = "docs/numerics.md#ulp") -> Tolerance:
    """Bound in units in the last place of the dtype under test."""
    return _table("ulp", float32, float64, why)


def exact(why: str = "the result is a copy or a selection of input values, or an integer") -> Tolerance:
    """No difference at all."""
    return _table("exact", 0, 0, why)


class Case:
    """One call: a name ([a-z0-9_]+), the arguments by ATen schema name, and optionally where the case comes from.

    Float64 arrays are tensors of the dtype under test, integer and bool arrays stay what they are, Python values are attributes.
    `special`: the golden may hold infinities or NaN."""

    def __init__(
        self,
        name: str,
        /,
        *,
        source: str | None = None,
        note: str | None = None,
        dtypes: tuple[str, ...] = ("float32", "float64"),
        special: bool = False,
        backward: bool = True,
        **args: Any,
    ) -> None:
        self.name, self.args, self.source, self.note = name, args, source, note
        self.dtypes, self.special, self.backward = dtypes, special, backward


class Operator:
    """One ATen overload: `Operator("aten::sum.dim_IntList", tolerance=conditioned())`.

    `scale`: how the conditioned gauge's scale is found: "jacobian" (all of it), "elementwise" (diagonal Jacobian) or "multilinear" (the
    reference run on absolute values). `differentiable`: names of the tensor arguments with a gradient; None: all float tensors."""

    def __init__(
        self,
        schema: str,
        *,
        tolerance: Tolerance,
        backward_tolerance: Tolerance | None = None,
        modes: tuple[str, ...] = ("layouts",),
        scale: str = "jacobian",
        differentiable: tuple[str, ...] | None = None,
        nondeterministic: tuple[str, ...] = (),
    ) -> None:
        self.schema, _, self.overload = schema.partition(".")
        self.tolerance, self.backward_tolerance = tolerance, backward_tolerance
        self.modes, self.scale, self.differentiable, self.nondeterministic = modes, scale, differentiable, nondeterministic
        self.reference_function: Callable[..., Any] | None = None
        self.second_function: Callable[..., Any] | None = None
        self.case_function: Callable[..., Iterator[Case]] | None = None

    @property
    def name(self) -> str:
        """The file stem: the schema's name and the overload."""
        stem = self.schema.removeprefix("aten::")
        return f"{stem}_{self.overload}" if self.overload else stem

    def reference(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """Register the reference: object arrays of balls in, one out (or a tuple); written with golden.numpy_ad's np."""
        self.reference_function = function
        return function

    def second(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """Register an independent formula on plain float64 arrays; it checks the reference to 1e-9 of the scale."""
        self.second_function = function
        return function

    def cases(self, function: Callable[..., Iterator[Case]]) -> Callable[..., Iterator[Case]]:
        """Register the generator of cases: a function of a Draw."""
        self.case_function = function
        return function
