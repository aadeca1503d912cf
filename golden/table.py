"""Elementwise operators, one line each: reference, second formula, domain and bound. The cases follow from the table."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any

import mpmath
import numpy as np

from golden.draw import Draw
from golden.operator import Case, Operator, Tolerance, conditioned, exact, ulp

MODES = ("lengths", "forms", "layouts", "threads")
LENGTHS = (1, 7, 16, 17, 32, 33, 67)
LONG = 521  # a prime: what the mode `lengths` cuts into calls of 1 to 67 elements; forward only
# One set for all: signed zeros, infinities, NaN of both signs, subnormals, 1 +- ulp, half integers, the ends of float32's integers, the largest.
SPECIAL = np.array([0.0, -0.0, np.inf, -np.inf, np.nan, -np.nan, 2.0**-149, -(2.0**-149), 2.0**-127, -(2.0**-127), 1.0, -1.0, 1 + 2.0**-23, 1 - 2.0**-24,
                    0.5, -0.5, 1.5, -1.5, 2.5, -2.5, 3.0, -3.0, 16777215.0, 16777216.0, 8388609.0, -8388609.0, float(np.finfo(np.float32).max), -float(np.finfo(np.float32).max)])
# CUDA C++ Programming Guide, table of maximum ulp errors (float, double); one more for the vector libraries of CPUs (SLEEF, 1 ulp).
CUDA_ULP = {
    "exp": (2, 1), "exp2": (2, 1), "expm1": (1, 1), "log": (1, 1), "log2": (1, 1), "log10": (2, 1), "log1p": (1, 1), "sin": (2, 2), "cos": (2, 2), "tan": (4, 2), "asin": (2, 2),
    "acos": (2, 2), "atan": (2, 2), "atan2": (3, 2), "sinh": (3, 2), "cosh": (2, 1), "tanh": (2, 1), "asinh": (3, 3), "acosh": (4, 3), "atanh": (3, 2), "pow": (4, 2), "hypot": (3, 2),
    "erf": (2, 2), "erfc": (4, 5), "erfcx": (4, 4), "erfinv": (2, 5), "sqrt": (0, 0), "rsqrt": (2, 1), "lgamma": (6, 4), "j0": (9, 7), "j1": (9, 7), "i0": (6, 6), "normcdf": (5, 5), "normcdfinv": (5, 7),
}
WHY = "CUDA C++ Programming Guide, mathematical functions: maximum ulp error, and one for CPU vector libraries"


def published(name: str, extra: float = 0) -> Tolerance:
    """CUDA's published bound, one more for the CPU, and `extra` roundings of the operator's own."""
    single, double = CUDA_ULP[name]
    return ulp(single + 1 + extra, double + 1 + extra, WHY if not extra else f"{WHY}; {extra} for further roundings")


def by_mpmath(function: Callable[..., Any]) -> Callable[..., np.ndarray]:
    """A second formula of mpmath at 40 digits, on plain arrays; where it has no real value the answer is NaN."""

    def one(*values: float) -> float:
        try:
            with mpmath.workdps(40):
                return float(function(*(mpmath.mpf(v) for v in values)))
        except (ValueError, TypeError, ZeroDivisionError, OverflowError, mpmath.libmp.libhyper.NoConvergence):
            return math.nan

    return np.vectorize(one, otypes=[float])


def spread(draw: Draw, domain: tuple[float, float], *shape: int) -> np.ndarray:
    """Numbers of the domain: uniform, or uniform in the logarithm where it spans more than four decades."""
    low, high = domain
    if low > 0 and high / low > 1e4:
        return np.float32(np.exp(draw.uniform(math.log(low), math.log(high), *shape))).astype(float)
    return draw.uniform(low, high, *shape)


def long(draw: Draw, domain: tuple[float, float]) -> np.ndarray:
    """LONG numbers of the domain, drawn again by the suites where they are uniform."""
    return spread(draw, domain, LONG) if domain[0] > 0 and domain[1] / domain[0] > 1e4 else draw.uniform(*domain, LONG, stored=False)


def unary_cases(name: str, domain: tuple[float, float], special: bool | np.ndarray = True, tail: tuple[float, ...] = (), extra: Callable[[Draw], Iterator[Case]] | None = None,
                argument: str = "self", attributes: dict[str, Any] | None = None, full: bool = True, note: str | None = None, single: str | None = None, tail_source: str | None = None) -> Callable[[Draw], Iterator[Case]]:
    given = attributes or {}

    def cases(draw: Draw) -> Iterator[Case]:
        for n in LENGTHS:
            yield Case(f"n{n}", args={argument: spread(draw, domain, n), **given}, trivial=single if n == 1 else None)
        yield Case("s5x6", args={argument: spread(draw, domain, 5, 6), **given})
        yield Case("scalar", args={argument: np.asarray(spread(draw, domain)), **given}, backward=False, trivial="one element may become 0")
        yield Case("empty", args={argument: np.zeros((0,)), **given}, trivial="no element")
        yield Case("empty_2d", args={argument: np.zeros((3, 0)), **given}, backward=False, trivial="no element")
        yield Case(f"n{LONG}", args={argument: long(draw, domain), **given}, backward=False)
        if full:
            values = spread(draw, domain, 17)
            yield Case("full_mantissa", args={argument: np.clip(values * (1 + draw.uniform(0, 1, 17) * 2.0**-26), *domain), **given}, dtypes=("float64",))
        if special is not False:
            yield Case("special", args={argument: SPECIAL if special is True else special, **given}, special=True, note=note)
        if tail:
            yield Case("tail", args={argument: np.array(tail), **given}, source=tail_source, note="where the result saturates, its gradient still has a value")
        yield from extra(draw) if extra else ()

    return cases


class Table:
    """Collects the operators of one file; `defaults`: what they have in common of Operator's arguments, elementwise ones' if nothing is said."""

    def __init__(self, **defaults: Any) -> None:
        self.operators: list[Operator] = []
        self.defaults = defaults or {"backward_tolerance": conditioned(), "modes": MODES, "scale": "elementwise"}

    def add(self, schema: str, reference: Callable[..., Any], second: Callable[..., Any], cases: Callable[[Draw], Iterator[Case]], tolerance: Tolerance | None = None, **options: Any) -> Operator:
        """One operator from its three functions; `options` go before the defaults."""
        given = self.defaults | ({"tolerance": tolerance} if tolerance else {}) | options
        operator = Operator(f"aten::{schema}", **given)
        operator.reference(reference)
        operator.second(second)
        operator.cases(cases)
        self.operators.append(operator)
        return operator

    def unary(self, schema: str, reference: Callable[[Any], Any], second: Callable[[Any], Any], domain: tuple[float, float], tolerance: Tolerance, *, special: bool | np.ndarray = True,
              tail: tuple[float, ...] = (), extra: Callable[[Draw], Iterator[Case]] | None = None, full: bool = True, note: str | None = None, tail_source: str | None = None, **options: Any) -> Operator:
        """A smooth function of one tensor on `domain`."""
        return self.add(schema, lambda self, **a: reference(self, **a), lambda self, **a: second(self, **a),
                        unary_cases(schema, domain, special, tail, extra, full=full, note=note, tail_source=tail_source), tolerance, **options)

    def step(self, schema: str, function: Callable[..., Any], second: Callable[..., Any], *, special: bool = True, extra: Callable[[Draw], Iterator[Case]] | None = None, low: float = -8.0,
             high: float = 8.0, attributes: dict[str, Any] | None = None, **options: Any) -> Operator:
        """A function of one tensor that copies, compares or rounds: exact, on plain arrays."""
        return self.add(schema, function, second, unary_cases(schema, (low, high), special, (), extra, attributes=attributes, full=False, single="one element may become 0"), exact(), plain=True, **{"scale": "multilinear"} | options)

    def pairs(self, schema: str, reference: Callable[..., Any], second: Callable[..., Any], tolerance: Tolerance, *, first: tuple[float, float] = (-4.0, 4.0), other: tuple[float, float] = (0.5, 4.0),
              special: tuple[Any, Any] | None = None, extra: Callable[[Draw], Iterator[Case]] | None = None, names: tuple[str, str] = ("self", "other"), attributes: dict[str, Any] | None = None,
              note: str | None = None, **options: Any) -> Operator:
        """A function of two tensors. `special`: pairs of special values, or None for all pairs of a short list."""
        given = attributes or {}

        def by_position(function: Callable[..., Any]) -> Callable[..., Any]:
            return lambda **a: function(a.pop(names[0]), a.pop(names[1]), **a)

        def cases(draw: Draw) -> Iterator[Case]:
            for n in LENGTHS:
                yield Case(f"n{n}", args={names[0]: spread(draw, first, n), names[1]: spread(draw, other, n), **given}, trivial="one element may become 0" if n == 1 and options.get("plain") else None)
            yield Case("s5x6", args={names[0]: spread(draw, first, 5, 6), names[1]: spread(draw, other, 5, 6), **given})
            yield Case(f"n{LONG}", args={names[0]: long(draw, first), names[1]: long(draw, other), **given}, backward=False)
            yield Case("scalars", args={names[0]: np.asarray(spread(draw, first)), names[1]: np.asarray(spread(draw, other)), **given}, backward=False, trivial="one element may become 0")
            yield Case("empty", args={names[0]: np.zeros((0,)), names[1]: np.zeros((0,)), **given}, backward=False, trivial="no element")
            yield Case("empty_broadcast", args={names[0]: np.zeros((3, 0)), names[1]: np.ones((1,)), **given}, backward=False, trivial="no element")
            yield Case("broadcast", args={names[0]: spread(draw, first, 3, 1), names[1]: spread(draw, other, 4), **given})
            a, b = special if special is not None else every_pair()
            if len(a):
                yield Case("special", args={names[0]: np.asarray(a, dtype=float), names[1]: np.asarray(b, dtype=float), **given}, special=True, note=note)
            yield from extra(draw) if extra else ()

        return self.add(schema, by_position(reference), by_position(second), cases, tolerance, **options)


def every_pair(values: tuple[float, ...] = (0.0, -0.0, 1.0, -1.0, 2.5, -3.0, math.inf, -math.inf, math.nan)) -> tuple[np.ndarray, np.ndarray]:
    a, b = np.meshgrid(np.array(values), np.array(values), indexing="ij")
    return a.ravel(), b.ravel()
