"""What a definition under golden/ops/<family>/ is made of: Operator, Case, Out and the tolerances."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

Tolerance = dict[str, dict[str, dict[str, Any]]]


class Refused(ValueError):
    """A definition that makes no sense, or a golden that cannot be trusted; the message names operator and case."""


TF32_WHY = "inputs cut to 11 bits (a tensor core drops the rest where no kernel rounds it): 2 * 2^-10 * sum|a||b| is 2^15 u * scale, plus the IEEE bound"


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


class Out:
    """One output of a reference, where its bare array does not say it all.

    `value`: array, or None where only `fields` speak. `shape`: reshape to it (references compute a full reduction with shape (1,)
    and say shape=()). `complex`: the trailing axis of length 2 is (real, imaginary). `constant`: ATen gives this output no gradient
    (saved statistics). `fields`: as OUT in docs/golden-format.md (gauge,
    bound, why, eta, signed_zero, dtype, members, residual, statistic, unchecked, …); arrays in them are stored."""

    def __init__(self, value: Any = None, *, shape: tuple[int, ...] | None = None, complex: bool = False, constant: bool = False, **fields: Any) -> None:
        self.value, self.shape, self.complex, self.constant, self.fields = value, shape, complex, constant, fields


MODES = frozenset(("layouts", "lengths", "channels_last", "math", "cudnn", "benchmark", "deterministic", "threads", "forms"))


def known_modes(where: str, modes: Any) -> None:
    if unknown := set(modes) - MODES:
        raise Refused(f"{where}: unknown mode {', '.join(sorted(unknown))}; there are {', '.join(sorted(MODES))}")


class Case:
    """One call: a name ([a-z0-9_]+), the arguments by ATen schema name, and optionally where the case comes from.

    Float64 arrays are tensors of the dtype under test, `draw.complex_normal` and `pair` make complex ones, integer and bool arrays stay
    what they are, lists of arrays are tensor lists, Python values are attributes.
    `special`: the golden may hold infinities, NaN and zeros whose sign is compared. `smooth=False`: the gradient follows ATen's
    convention at a kink or a tie, central differences cannot check it. `expect="error"`: the call must throw.
    `args`: a dict of arguments whose names stand for something else here (`source` of aten::index_copy).
    `fields`: what else a case of docs/golden-format.md may say: source, note, dtypes, modes, only, tolerance,
    backward_tolerance, trivial."""

    FIELDS = ("source", "note", "dtypes", "modes", "only", "tolerance", "backward_tolerance", "trivial", "expect")

    def __init__(self, name: str, /, *, special: bool = False, smooth: bool = True, backward: bool = True, **given: Any) -> None:
        if not isinstance(given.get("source", ""), (str, type(None))):
            raise Refused(f"case {name}: `source` names a public report; hand an argument of that name over in args={{...}}")
        self.name, self.special, self.smooth, self.backward = name, special, smooth, backward
        self.fields = {n: given[n] for n in self.FIELDS if given.get(n) is not None}
        self.args = {n: v for n, v in given.items() if n not in (*self.FIELDS, "args")} | given.get("args", {})
        self.dtypes = tuple(self.fields.get("dtypes", ("float32", "float64")))
        known_modes(f"case {name}", self.fields.get("modes", ()))


class Operator:
    """One ATen overload: `Operator("aten::sum.dim_IntList", tolerance=conditioned())`.

    `scale`: how the conditioned gauge's scale is found: "jacobian" (all of it), "elementwise" (diagonal Jacobian) or "multilinear" (the
    reference run on absolute values). `differentiable`: names of the tensor arguments with a gradient; None: all float tensors.
    `plain`: the reference moves, selects, compares or rounds values: it runs on float64 arrays, so NaN and the sign of zero
    travel too (its gradients still run on balls). `mutates`: arguments that the call writes; the reference returns what they
    become behind its outputs. `zero_gradient`: the reason why a gradient may be zero everywhere."""

    def __init__(
        self,
        schema: str,
        *,
        tolerance: Tolerance,
        backward_tolerance: Tolerance | None = None,
        library_tolerance: dict[str, Tolerance] | None = None,
        modes: tuple[str, ...] = ("layouts",),
        scale: str = "jacobian",
        differentiable: tuple[str, ...] | None = None,
        nondeterministic: tuple[str, ...] = (),
        plain: bool = False,
        mutates: tuple[str, ...] = (),
        zero_gradient: str | None = None,
    ) -> None:
        self.schema, _, self.overload = schema.partition(".")
        self.tolerance, self.backward_tolerance, self.library_tolerance = tolerance, backward_tolerance, library_tolerance
        known_modes(schema, modes)
        if "math" in modes and "tf32" not in tolerance["float32"]:
            raise Refused(f"{schema}: mode math runs in TF32 too, whose bound is missing: conditioned(tf32=…)")
        self.modes, self.scale_kind, self.differentiable, self.nondeterministic = modes, scale, differentiable, nondeterministic
        self.plain, self.mutates, self.zero_gradient = plain, mutates, zero_gradient
        self.reference_function: Callable[..., Any] | None = None
        self.second_function: Callable[..., Any] | None = None
        self.case_function: Callable[..., Iterator[Case]] | None = None
        self.vjp_function: Callable[..., dict[str, Any]] | None = None
        self.scale_function: Callable[..., Any] | None = None
        self.backward_scale_function: Callable[..., dict[str, Any]] | None = None
        self.factors_function: Callable[..., Any] | None = None
        self.freedom_function: Callable[..., list[list[Any]]] | None = None

    @property
    def name(self) -> str:
        """The file stem: the schema's name and the overload."""
        stem = self.schema.removeprefix("aten::")
        return f"{stem}_{self.overload}" if self.overload else stem

    def reference(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """Register the reference: object arrays of balls in, one array or Out (or a tuple) out; written with golden.numpy_ad's np."""
        self.reference_function = function
        return function

    def second(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """Register an independent formula on plain float64 arrays; it checks the reference to 1e-9 of the scale.

        In a `special` case it also gives the values at zeros, infinities and NaN, which balls do not know (C99's, through NumPy)."""
        self.second_function = function
        return function

    def cases(self, function: Callable[..., Iterator[Case]]) -> Callable[..., Iterator[Case]]:
        """Register the generator of cases: a function of a Draw."""
        self.case_function = function
        return function

    def vjp(self, function: Callable[..., dict[str, Any]]) -> Callable[..., dict[str, Any]]:
        """Register gradients by hand, where autograd cannot go or ATen has a convention of its own.

        function(upstream, **args) -> {argument: gradient}; `upstream` is a list, one array (or None) an output."""
        self.vjp_function = function
        return function

    def scale(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """Register the conditioned gauge's scales of the outputs: function(outputs, **args) -> float64 array, or a tuple of them."""
        self.scale_function = function
        return function

    def backward_scale(self, function: Callable[..., dict[str, Any]]) -> Callable[..., dict[str, Any]]:
        """Register the scales of the gradients: function(gradients, upstream, **args) -> {argument: float64 array}."""
        self.backward_scale_function = function
        return function

    def factors(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """Register the outputs' values under one convention, where residuals judge them: what the backward direction differentiates."""
        self.factors_function = function
        return function

    def freedom(self, function: Callable[..., list[list[Any]]]) -> Callable[..., list[list[Any]]]:
        """Register what the operator leaves open: function(upstream) -> the upstream gradients that the outputs of `factors` would need,
        one list for each permissible answer (signs of columns, say), the given one first. The gradients must be one answer's, as a whole."""
        self.freedom_function = function
        return function
