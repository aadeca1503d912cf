"""Orthogonal polynomials of integer degree (forward only in ATen): the three-term recurrence, checked by closed forms."""

import cmath
import math

import numpy
from numpy.polynomial import chebyshev, hermite, hermite_e, laguerre, legendre

from golden import Case
from golden import numpy_ad as np
from golden.ops.special._second import CEPHES
from golden.table import Table

table = Table()
operators = table.operators

# p_0 = 1, p_1 = (a x + b), p_{k+1} = ((r x + s) p_k - t p_{k-1}) / d: (a, b), then r, s, t, d as functions of k. DLMF 18.9.
RULES = {
    "chebyshev_polynomial_t": ((1, 0), lambda k: (2, 0, 1, 1)),
    "chebyshev_polynomial_u": ((2, 0), lambda k: (2, 0, 1, 1)),
    "chebyshev_polynomial_v": ((2, -1), lambda k: (2, 0, 1, 1)),
    "chebyshev_polynomial_w": ((2, 1), lambda k: (2, 0, 1, 1)),
    "hermite_polynomial_h": ((2, 0), lambda k: (2, 0, 2 * k, 1)),
    "hermite_polynomial_he": ((1, 0), lambda k: (1, 0, k, 1)),
    "laguerre_polynomial_l": ((-1, 1), lambda k: (-1, 2 * k + 1, k, k + 1)),
    "legendre_polynomial_p": ((1, 0), lambda k: (2 * k + 1, 0, k, k + 1)),
}


def recurrence(rule, x, n, one):
    (a, b), step = rule
    before, now = one, a * x + b * one
    if n == 0:
        return before
    for k in range(1, n):
        r, s, t, d = step(k)
        before, now = now, ((r * x + s * one) * now - t * before) / d
    return now


def largest(rule, x, n):
    """The polynomial with every coefficient's absolute value at |x|: the condition of evaluating it."""
    (a, b), step = rule
    before, now = numpy.poly1d([1.0]), numpy.poly1d([a, b])
    for k in range(1, n):
        r, s, t, d = step(k)
        before, now = now, (numpy.poly1d([r, s]) * now - t * before) / d
    return numpy.polyval(numpy.abs((before if n == 0 else now).coefficients), abs(x))


def ratio(x, top, bottom):
    """top(theta) / bottom(theta) with x = cos(theta), theta complex outside [-1, 1]."""
    theta = cmath.acos(x)
    return (top(theta) / bottom(theta)).real


CLOSED = {
    "chebyshev_polynomial_t": lambda x, n: chebyshev.chebval(x, [0] * n + [1]),
    "chebyshev_polynomial_u": lambda x, n: ratio(x, lambda t: cmath.sin((n + 1) * t), cmath.sin),
    "chebyshev_polynomial_v": lambda x, n: ratio(x, lambda t: cmath.cos((n + 0.5) * t), lambda t: cmath.cos(t / 2)),
    "chebyshev_polynomial_w": lambda x, n: ratio(x, lambda t: cmath.sin((n + 0.5) * t), lambda t: cmath.sin(t / 2)),
    "hermite_polynomial_h": lambda x, n: hermite.hermval(x, [0] * n + [1]),
    "hermite_polynomial_he": lambda x, n: hermite_e.hermeval(x, [0] * n + [1]),
    "laguerre_polynomial_l": lambda x, n: laguerre.lagval(x, [0] * n + [1]),
    "legendre_polynomial_p": lambda x, n: legendre.legval(x, [0] * n + [1]),
}


def cases(shifted, report):
    def generate(draw):
        low, high = (0.0625, 0.9375) if shifted else (-0.9375, 0.9375)
        for n in (1, 7, 17, 33, 67):
            yield Case(f"n{n}", x=draw.uniform(low, high, n), n=draw.integers(1, 7, n).astype(float))
        yield Case("degrees", x=draw.uniform(low, high, 9, 1), n=numpy.arange(9.0))
        yield Case("outside", x=draw.uniform(1.25, 2, 17), n=draw.integers(0, 6, 17).astype(float))
        yield Case("ends", x=numpy.array([1.0, 0.0 if shifted else -1.0]).repeat(8), n=numpy.tile(numpy.arange(8.0), 2))
        yield Case(
            "nan",
            x=numpy.where(numpy.arange(32) % 2, math.nan, 0.875),
            n=numpy.full(32, 3.0),
            special=True,
            source=report,
            note="the recurrence stops at NaN and must return it",
        )

    return generate


def scalar_cases(which):
    def generate(draw):
        for size in (1, 17):
            if which == "n":
                yield Case(f"n5_s{size}", x=draw.uniform(0.125, 0.875, size), n=5)
            else:
                yield Case(f"x_s{size}", x=0.375, n=draw.integers(1, 7, size).astype(float))

    return generate


def add(name, rule, closed, shifted, overload=""):
    """Shifted polynomials are those of 2 x - 1."""
    inner = (lambda v: 2 * v - 1) if shifted else (lambda v: v)

    def each(function):
        return lambda x, n: numpy.vectorize(function, otypes=[float])(numpy.asarray(x, dtype=float), numpy.asarray(n, dtype=float))

    def reference(x, n):
        one = np.balls(1.0)[()]
        return np.elementwise(
            lambda v, k: recurrence(rule, inner(v * one), int(float(k)), one) if v == v else v, numpy.asarray(x, dtype=object), n
        )

    report = "pytorch#187761" if "chebyshev" in name else "pytorch#188027"
    generate = {"": cases(shifted, report), "n_scalar": scalar_cases("n"), "x_scalar": scalar_cases("x")}[overload]
    operator = table.add(
        f"special_{name}" + (f".{overload}" if overload else ""),
        reference,
        each(
            lambda v, k: math.nan if v != v else closed(inner(v), int(k)) if abs(inner(v)) != 1 else recurrence(rule, inner(v), int(k), 1.0)
        ),
        generate,
        CEPHES,
        differentiable=(),
        scale="jacobian",
    )

    @operator.scale
    def scale(outputs, x, n):
        """Each coefficient's term by its size; 2 x - 1 is rounded, at the cost of the terms' slopes, k times themselves."""
        spread = each(lambda v, k: 1.0 if v != v else largest(rule, inner(v), int(k)) * (1 + int(k) if shifted else 1) + 1)(x, n)
        return numpy.maximum(spread, numpy.abs(outputs[0]))


for name, rule in RULES.items():
    for overload in ("", "n_scalar", "x_scalar"):
        add(name, rule, CLOSED[name], False, overload)
    if name.startswith("chebyshev"):
        for overload in ("", "n_scalar", "x_scalar"):
            add(f"shifted_{name}", rule, CLOSED[name], True, overload)
