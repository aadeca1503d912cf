"""The `np` that references are written in: autograd's NumPy, ready for arrays of balls, plus what NumPy lacks.

Added: special functions with their derivatives (`erf`, `lgamma`, `digamma`, `polygamma`, `expit`, …), `pad`, `take_along_axis`, `sort`, and `lift`, which makes a differentiable function out of a method of a ball.
"""

# ruff: noqa: F403, F405
from __future__ import annotations

from collections.abc import Callable
from typing import Any

import autograd.numpy as anp
import numpy as onp
from autograd.extend import defvjp, notrace_primitive, primitive
from autograd.numpy import *
from autograd.numpy import numpy_wrapper
from autograd.numpy.numpy_boxes import ArrayBox
from autograd.numpy.numpy_vspaces import ArrayVSpace
from flint import arb

from golden.ball import balls, elementwise  # balls: for constants of a reference

__all__ = [n for n in dir(anp) if not n.startswith("_")]


class _BallVSpace(ArrayVSpace):
    """A single ball is an array of shape ()."""

    def __init__(self, value: Any) -> None:  # noqa: ARG002
        super().__init__(onp.empty((), dtype=object))

    def zeros(self) -> Any:
        return arb(0)

    def ones(self) -> Any:
        return arb(1)


@notrace_primitive
def _metadata(x: Any) -> tuple[Any, ...]:
    """autograd's record of an array, for a single ball too, which NumPy takes for a dtype's name."""
    return ((), 0, onp.dtype(object), False) if isinstance(x, arb) else _array_metadata(x)


_array_metadata = numpy_wrapper.metadata
numpy_wrapper.metadata = _metadata
ArrayBox.register(arb)
_BallVSpace.register(arb, _BallVSpace)


def lift(function: Callable[[Any], Any], derivative: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """A differentiable elementwise function: `function` maps a ball to a ball; `derivative(x)` is written with lifted functions."""

    @primitive
    def lifted(x: Any) -> Any:
        if isinstance(x, onp.ndarray):
            return elementwise(function, x)
        return function(x if isinstance(x, arb) else arb(x))

    defvjp(lifted, lambda _ans, x: lambda g: g * derivative(x))
    return lifted


def polygamma(order: int, x: Any) -> Any:
    """psi^(order)(x): (-1)^(n+1) n! zeta(n+1, x); DLMF 5.15.1. order 0 is digamma."""
    return _polygamma(order)(x)


def _polygamma(order: int) -> Callable[[Any], Any]:
    if order == 0:
        return lift(lambda v: v.digamma(), lambda x: polygamma(1, x))
    sign = -1 if order % 2 == 0 else 1
    return lift(lambda v: sign * arb.fac_ui(order) * _hurwitz(order + 1, v), lambda x: polygamma(order + 1, x))


def _hurwitz(s: int, a: arb) -> arb:
    """zeta(s, a) for an integer s > 1; a <= 0 by zeta(s, a) = a^-s + zeta(s, a + 1), DLMF 25.11.3, which Arb does not do."""
    steps = 1 - int(float(a.mid()) // 1) if a.is_finite() and float(a.mid()) <= 0 else 0
    out = arb(s).zeta(a + steps)
    for k in range(steps):
        out += (a + k) ** -s
    return out


erf = lift(lambda v: v.erf(), lambda x: 2 / _sqrt_pi() * anp.exp(-x * x))
erfc = lift(lambda v: v.erfc(), lambda x: -2 / _sqrt_pi() * anp.exp(-x * x))
lgamma = lift(lambda v: v.lgamma() if v > 0 else anp.abs(v.gamma()).log(), lambda x: polygamma(0, x))  # log |Gamma(x)|


def digamma(x: Any) -> Any:
    """psi(x), DLMF 5.2.2."""
    return polygamma(0, x)


def _sqrt_pi() -> arb:
    """The square root of pi as a ball at the present precision."""
    return arb.pi().sqrt()


def _unary(method: str, derivative: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """A lifted method of a ball."""
    return lift(lambda v: getattr(v, method)(), derivative)


# What NumPy's ufuncs cannot call on balls, since Arb names it otherwise.
arctan = _unary("atan", lambda x: 1 / (1 + x * x))
arcsin = _unary("asin", lambda x: 1 / anp.sqrt(1 - x * x))
arccos = _unary("acos", lambda x: -1 / anp.sqrt(1 - x * x))
arcsinh = _unary("asinh", lambda x: 1 / anp.sqrt(1 + x * x))
arccosh = _unary("acosh", lambda x: 1 / (anp.sqrt(x - 1) * anp.sqrt(x + 1)))
arctanh = _unary("atanh", lambda x: 1 / (1 - x * x))


def ln(x: float) -> arb:
    """The natural logarithm of a number as a ball at the present precision."""
    return arb(x).log()


def pi() -> arb:
    """pi as a ball at the present precision."""
    return arb.pi()


def log2(x: Any) -> Any:
    return anp.log(x) / ln(2)


def log10(x: Any) -> Any:
    return anp.log(x) / ln(10)


def exp2(x: Any) -> Any:
    return anp.exp(x * ln(2))


def expit(x: Any) -> Any:
    """1 / (1 + exp(-x))."""
    return 1 / (1 + anp.exp(-x))


def softplus(x: Any) -> Any:
    """log(1 + exp(x))."""
    return anp.log1p(anp.exp(x))


def mask(condition: Any) -> onp.ndarray:
    """A bool array out of a comparison of exact numbers (balls compare to an array of objects)."""
    return onp.asarray(condition, dtype=bool)


def where(condition: Any, a: Any, b: Any) -> Any:
    """numpy.where; the condition is of plain numbers, `value(x) > 0` say. Both branches must be finite."""
    if object in (onp.asarray(value(a)).dtype, onp.asarray(value(b)).dtype):
        a, b = (_as_ball(v) for v in (a, b))
        if onp.ndim(condition) == onp.ndim(value(a)) == onp.ndim(value(b)) == 0:
            return a if condition else b  # anp.where's gradient does not know a single ball
    return anp.where(mask(condition), a, b)


def _as_ball(x: Any) -> Any:
    """Plain numbers and arrays become balls, so that ufuncs find their methods; boxes and balls stay."""
    return x if hasattr(x, "_value") or onp.asarray(x).dtype == object else balls(x)


def absolute(x: Any) -> Any:
    """|x|; the derivative at 0 is 0."""
    v = value(x)
    return x * onp.where(mask(v > 0), 1, onp.where(mask(v < 0), -1, 0)) if onp.asarray(v).dtype == object else anp.abs(x)


def maximum(a: Any, b: Any) -> Any:
    """The larger one; on a tie each gets half of the gradient (ATen's convention)."""
    return _pick(a, b, 1)


def minimum(a: Any, b: Any) -> Any:
    """The smaller one; on a tie each gets half of the gradient (ATen's convention)."""
    return _pick(a, b, -1)


def _pick(a: Any, b: Any, sign: int) -> Any:
    x, y = onp.asarray(value(a)), onp.asarray(value(b))
    first = onp.where(mask(x == y), 0.5, onp.where(mask(x > y if sign > 0 else x < y), 1.0, 0.0))
    return a * first + b * (1 - first)


def power(x: Any, y: Any) -> Any:
    """x ** y for positive x: exp(y log x); an integer y takes any x."""
    return x**y if isinstance(y, int) else anp.exp(y * anp.log(x))


def product(x: Any, axis: int, keepdims: bool = False) -> Any:
    """The product along one axis, factor by factor: its gradient is right at zeros too (anp.prod's divides)."""
    first = (slice(None),) * (axis % x.ndim)
    out = x[(*first, slice(0, 1))]
    for k in range(1, x.shape[axis]):
        out = out * x[(*first, slice(k, k + 1))]
    return out if keepdims else anp.reshape(out, (*x.shape[: axis % x.ndim], *x.shape[axis % x.ndim + 1 :]))


def norm(x: Any, p: float, axis: int | tuple[int, ...] = -1, keepdims: bool = False) -> Any:
    """The p-norm along an axis or several, p in {1, 2, 3}."""
    a = absolute(x)
    if p == 1:
        return anp.sum(a, axis=axis, keepdims=keepdims)
    powers = anp.sum(a * a if p == 2 else a * a * a, axis=axis, keepdims=keepdims)
    return anp.sqrt(powers) if p == 2 else anp.exp(anp.log(powers) / 3)


def total(x: Any) -> Any:
    """The sum of all elements, shape (1,): hand it on as Out(total(x), shape=())."""
    return anp.sum(anp.reshape(x, (1, -1)), axis=1)


def pad(x: Any, widths: Any, value: float = 0.0) -> Any:
    """Constant padding by concatenation: `widths` is ((before, after), …), one pair of non-negative counts an axis."""
    for axis, counts in enumerate(widths):
        blocks = []
        for count in counts:
            shape = (*x.shape[:axis], count, *x.shape[axis + 1 :])
            blocks.append(onp.full(shape, arb(value), dtype=object))
        if counts[0] or counts[1]:
            x = anp.concatenate([blocks[0], x, blocks[1]], axis=axis)
    return x


def take_along_axis(x: Any, index: Any, axis: int) -> Any:
    """numpy.take_along_axis, differentiable (repeated indices accumulate)."""
    index = onp.asarray(index)
    grids = list(onp.ogrid[tuple(slice(0, n) for n in index.shape)])
    grids[axis] = index
    return x[tuple(grids)]


def order(x: Any, axis: int = -1, descending: bool = False) -> onp.ndarray:
    """Stable argsort of exact balls along `axis`, NaN last (first if descending); int64, not differentiable."""
    values = onp.asarray([float(v) for v in onp.asarray(getattr(x, "_value", x)).reshape(-1)]).reshape(x.shape)
    if not descending:
        return onp.argsort(values, axis=axis, kind="stable")
    rank = onp.where(onp.isnan(values), -onp.inf, -values)
    key = onp.where(onp.isnan(values), 0, 1)
    first = onp.argsort(rank, axis=axis, kind="stable")
    nan_first = onp.argsort(onp.take_along_axis(key, first, axis), axis=axis, kind="stable")
    return onp.take_along_axis(first, nan_first, axis)


def sort(x: Any, axis: int = -1) -> Any:
    """Ascending stable sort along `axis`, differentiable."""
    return take_along_axis(x, order(x, axis), axis % x.ndim)


def value(x: Any) -> Any:
    """The plain array under autograd's box: for decisions (indices, masks) that are not differentiated."""
    while hasattr(x, "_value"):
        x = x._value
    return x


def floats(x: Any) -> onp.ndarray:
    """The float64 midpoints of an array of balls, or a plain array as it is (not differentiable): for decisions."""
    plain = onp.asarray(value(x))
    if plain.dtype != object:
        return plain
    return onp.asarray([float(v) for v in plain.reshape(-1)], dtype=onp.float64).reshape(plain.shape)
