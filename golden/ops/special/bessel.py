"""Bessel, modified Bessel and Airy functions (forward only in ATen): Arb's enclosure, checked by mpmath."""

import math

import mpmath
import numpy

from golden import Case
from golden import numpy_ad as np
from golden.ops.special._second import CEPHES, at
from golden.table import Table

table = Table()
operators = table.operators

# DLMF 10.6.2, 10.29.2 and 10.29.3 for the derivatives.
j0 = np.lift(lambda v: v.bessel_j(0), lambda x: -j1(x))
j1 = np.lift(lambda v: v.bessel_j(1), lambda x: j0(x) - j1(x) / x)
y0 = np.lift(lambda v: v.bessel_y(0), lambda x: -y1(x))
y1 = np.lift(lambda v: v.bessel_y(1), lambda x: y0(x) - y1(x) / x)
i0 = np.lift(lambda v: v.bessel_i(0), lambda x: i1(x))
i1 = np.lift(lambda v: v.bessel_i(1), lambda x: i0(x) - i1(x) / x)
k0 = np.lift(lambda v: v.bessel_k(0), lambda x: -k1(x))
k1 = np.lift(lambda v: v.bessel_k(1), lambda x: -k0(x) - k1(x) / x)
airy = np.lift(lambda v: v.airy_ai(), lambda x: airy_slope(x))
airy_slope = np.lift(lambda v: v.airy_ai(derivative=1), lambda x: x * airy(x))


def scaled(f):
    """e^x f(x)."""
    return lambda x: f(x) * np.exp(x)


def add(name, reference, second, low, high, wide, special, argument="self", extra=None):
    """`wide`: a second range of arguments, another branch of ATen's code."""

    def cases(draw):
        for n in (1, 7, 16, 17, 33, 67):
            yield Case(f"n{n}", args={argument: draw.uniform(low, high, n)})
        yield Case("s5x6", args={argument: draw.uniform(low, high, 5, 6)})
        yield Case("n521", args={argument: draw.uniform(low, high, 521, stored=False)})
        for k, (a, b) in enumerate(wide):
            yield Case(f"range{k}_n33", args={argument: draw.uniform(a, b, 33)})
        if len(special):
            yield Case("special", args={argument: numpy.array(special)}, special=True)
        yield from extra(draw) if extra else ()

    def by_name(f):
        return lambda **a: f(a[argument])

    table.add(name, by_name(reference), by_name(second), cases, CEPHES, differentiable=())


ORDINARY = (
    ((0.0625, 1.0), ((1.5, 4.75), (5.25, 20.0), (-20.0, -5.5), (20.0, 100.0))),
    ((0.0625, 1.0), ((1.5, 4.75), (5.25, 20.0), (20.0, 100.0))),
)
for kind, functions, m, (domain, wide), known in (
    ("j", (j0, j1), mpmath.besselj, ORDINARY[0], {}),
    ("y", (y0, y1), mpmath.bessely, ORDINARY[1], {0.0: -math.inf}),
):
    for order, f in enumerate(functions):
        add(
            f"special_bessel_{kind}{order}",
            f,
            at(lambda x, m=m, order=order: m(order, x), known),
            *domain,
            wide,
            [0.0, 1.0, math.nan] if kind == "y" else [1.0, math.nan],
        )
for order, f in enumerate((i0, i1)):

    def negative(draw):
        yield Case("near_overflow_64", self=numpy.array([700.0, 705.0]), dtypes=("float64",))

    add(
        f"special_modified_bessel_i{order}",
        f,
        at(lambda x, order=order: mpmath.besseli(order, x), {math.inf: math.inf}),
        0.0625,
        8.0,
        ((8.25, 60.0), (-20.0, -0.25)),
        [1.0, math.nan],
        extra=negative,
    )
for order, f in enumerate((k0, k1)):
    second = at(lambda x, order=order: mpmath.besselk(order, x), {0.0: math.inf, math.inf: 0.0})
    add(f"special_modified_bessel_k{order}", f, second, 0.0625, 2.0, ((2.25, 60.0),), [0.0, 1.0, math.nan])
    second = at(lambda x, order=order: mpmath.besselk(order, x) * mpmath.exp(x), {0.0: math.inf, math.inf: 0.0})
    add(
        f"special_scaled_modified_bessel_k{order}",
        scaled(f),
        second,
        0.0625,
        2.0,
        ((2.25, 60.0), (100.0, 1000.0)),
        [0.0, 1.0, math.nan],
        argument="x",
    )
add(
    "special_spherical_bessel_j0",
    lambda x: np.sin(x) / x,
    at(lambda x: mpmath.sin(x) / x, {0.0: 1.0, math.inf: 0.0, -math.inf: 0.0}),
    0.0625,
    8.0,
    ((-20.0, -0.25), (8.0, 100.0)),
    [1.0, math.inf, -math.inf, math.nan],
    argument="x",
    extra=lambda draw: [Case("small", x=2.0 ** -numpy.arange(1.0, 30, 3))],
)
add(
    "special_airy_ai",
    airy,
    at(mpmath.airyai, {math.inf: 0.0}),
    -1.0,
    1.0,
    ((1.5, 8.0), (8.5, 20.0), (-8.0, -5.5)),
    [0.0, 1.0, math.nan],
    argument="x",
    extra=lambda draw: [Case("near_minus_3", x=draw.uniform(-4.5, -2.25, 33))],
)
