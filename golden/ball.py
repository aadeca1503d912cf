"""Balls: real numbers with a proven error radius (Arb, through python-flint), in NumPy arrays of dtype object.

A reference that runs on balls returns an enclosure of the exact answer, so the radius *is* the proof that a golden is right to
so many bits: every rounding, cancellation and library call inside is accounted for (Johansson, "Arb: efficient
arbitrary-precision midpoint-radius interval arithmetic", IEEE Trans. Computers 66 (2017)). NumPy's arithmetic, `sum`, `matmul`,
`einsum`, indexing and the ufuncs `exp`, `log`, `sqrt`, `tanh`, … call the methods of the elements, and HIPS autograd differentiates it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
from flint import arb, ctx

FLOAT64_MAX = 1.7976931348623157e308


@contextmanager
def precision(bits: int) -> Iterator[None]:
    """Run with `bits` bits of working precision."""
    saved = ctx.prec
    ctx.prec = bits
    try:
        yield
    finally:
        ctx.prec = saved


def balls(array: Any) -> np.ndarray:
    """An object array of exact balls with the shape of `array` (float64, int64 or bool; NaN and infinities stay what they are)."""
    source = np.asarray(array)
    out = np.empty(source.shape, dtype=object)
    flat = out.reshape(-1)
    for i, value in enumerate(source.reshape(-1).tolist()):
        flat[i] = arb(value)
    return out


def elementwise(function: Callable[..., Any], *arrays: Any) -> np.ndarray:
    """`function` on the elements of (broadcast) arrays, result of dtype object."""
    operands = np.broadcast_arrays(*(np.asarray(a, dtype=object) for a in arrays))
    out = np.empty(operands[0].shape, dtype=object)
    flat = out.reshape(-1)
    for i, items in enumerate(zip(*(o.reshape(-1) for o in operands), strict=True)):
        flat[i] = function(*items)
    return out


def exact_float(mantissa: int, exponent: int) -> float:
    """mantissa · 2^exponent rounded to nearest float64, ties to even; overflow gives an infinity, underflow a subnormal or zero."""
    if mantissa == 0:
        return 0.0
    size = mantissa.bit_length() + exponent
    if size > 1030:
        return math.copysign(math.inf, mantissa)
    if size < -1080:
        return math.copysign(0.0, mantissa)
    try:
        return float(mantissa << exponent) if exponent >= 0 else mantissa / (1 << -exponent)
    except OverflowError:
        return math.copysign(math.inf, mantissa)


def split(value: Any) -> tuple[float, float, float]:
    """(hi, lo, radius): value = hi + lo · ulp64(hi) ± radius. hi is float64, |lo| ≤ 1/2 is float32; a plain number is exact.

    An infinite or NaN ball, and a plain non-finite float, give (that, 0, 0)."""
    if not isinstance(value, arb):
        return float(value), 0.0, 0.0
    middle = value.mid()
    if not middle.is_finite():
        return float(middle), 0.0, 0.0
    mantissa, exponent = (int(v) for v in middle.man_exp())
    hi = exact_float(mantissa, exponent)
    radius = float(value.rad())
    if not math.isfinite(hi):
        return hi, 0.0, 0.0
    rest = (middle - arb(hi)) / arb(math.ulp(hi))
    return hi, float(np.float32(float(rest))), radius


def split_array(array: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """`split` on every element: hi float64, lo float32, radius float64, each of the array's shape."""
    hi = np.empty(array.shape, dtype=np.float64)
    lo = np.empty(array.shape, dtype=np.float32)
    radius = np.empty(array.shape, dtype=np.float64)
    for i, value in enumerate(array.reshape(-1)):
        hi.reshape(-1)[i], lo.reshape(-1)[i], radius.reshape(-1)[i] = split(value)
    return hi, lo, radius


def magnitude(value: Any) -> float:
    """An upper bound of |value| as a float64 (rounded up a little); inf for a ball without bound, nan for NaN."""
    if not isinstance(value, arb):
        return abs(float(value))
    if value.is_nan():
        return math.nan
    return float(abs(value).upper()) * (1 + 2.0**-40)


def magnitudes(array: Any) -> np.ndarray:
    """`magnitude` on every element, float64 of the array's shape."""
    source = np.asarray(array, dtype=object)
    out = np.empty(source.shape)
    for i, value in enumerate(source.reshape(-1)):
        out.reshape(-1)[i] = magnitude(value)
    return out
