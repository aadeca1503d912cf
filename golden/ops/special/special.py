"""Error functions, gamma functions and their kin: Arb's enclosure, checked by mpmath.

Bounds: CUDA's published table where it has the function; near a root, and where ATen has series of its own, the error is measured in the
conditioned gauge."""

import math

import mpmath
import numpy
from flint import arb

from golden import Case, Out, conditioned, ulp
from golden import numpy_ad as np
from golden.ops.special._second import CEPHES, at
from golden.table import Table, by_mpmath, published

table = Table()
operators = table.operators
NAN_BLOCK = numpy.where(numpy.arange(67) % 3 == 0, math.nan, 0.25)


def backward_term(term):
    """Adds |upstream| · term(x) to the scale of the last operator's gradient: what ATen's own formula cancels or rounds."""

    @operators[-1].backward_scale
    def scale(gradients, upstream, self, **_):
        x = numpy.asarray(self)
        return {"self": numpy.abs(gradients["self"]) + numpy.abs(upstream[0]) * term(x)}


def near(x):
    """The float32 numbers nearest to decimals."""
    return numpy.float32(numpy.array(x)).astype(float)


# Error functions ----------------------------------------------------------------------------------------------------------------------

SATURATED = "ATen differentiates by the exact formula: the gradient is a tiny number, not 0"
table.unary(
    "erf",
    np.erf,
    at(mpmath.erf, {math.inf: 1.0, -math.inf: -1.0}),
    (-3.0, 3.0),
    published("erf"),
    tail=(5.0, -4.0, 9.0),
    special=numpy.array([math.inf, -math.inf, math.nan, 0.0, -0.0, 0.5, 1.0, 2.0**-149, -(2.0**-127), 4.0, -6.0]),
)
table.unary(
    "erfc",
    np.erfc,
    at(mpmath.erfc, {math.inf: 0.0, -math.inf: 2.0}),
    (-3.0, 9.0),
    published("erfc"),
    tail=(9.0, -5.0),
    special=numpy.array([math.inf, -math.inf, math.nan, 0.0, -0.0, 1.0, -6.0, 30.0]),
    extra=lambda draw: [Case("last_normal_64", self=numpy.array([25.0, 26.0, 26.5]), dtypes=("float64",), backward=False)],
)
erfinv = np.lift(lambda v: v.erfinv(), lambda x: np.sqrt(np.pi()) / 2 * np.exp(erfinv(x) * erfinv(x)))
table.unary(
    "erfinv",
    erfinv,
    at(mpmath.erfinv, {1.0: math.inf, -1.0: -math.inf}),
    (-0.9375, 0.9375),
    published("erfinv"),
    special=numpy.array([1.0, -1.0, 2.0, math.nan, 0.5, math.inf, 0.0, -0.0]),
    extra=lambda draw: [Case("near_one", self=1 - 2.0 ** -numpy.arange(6.0, 15), backward=False)],
)
erfcx = np.lift(lambda v: (v * v).exp() * v.erfc(), lambda x: 2 * x * erfcx(x) - 2 / np.sqrt(np.pi()))
by_product = at(lambda x: mpmath.exp(x * x) * mpmath.erfc(x), {math.inf: 0.0, -math.inf: math.inf})


def erfcx_by_condition(x):
    """Left of -1 it is 2 exp(x^2): rounding x^2 costs x^2 u, whatever the published bound of one library says."""
    v = np.floats(x)
    left = numpy.any((v < -1) & numpy.isfinite(v))
    return (
        Out(erfcx(x), gauge="conditioned", bound=16, why="2 exp(x^2) on the left: x^2 is rounded, and its error grows by 2 x^2")
        if left
        else erfcx(x)
    )


table.unary(
    "special_erfcx",
    erfcx_by_condition,
    by_product,
    (-0.75, 40.0),
    published("erfcx"),
    special=numpy.array([math.inf, -math.inf, math.nan, 0.0]),
    note="erfcx(inf) is 0, erfcx(-inf) is inf",
    extra=lambda draw: [
        Case("left", self=draw.uniform(-5, -1, 67)),
        Case("infinities", self=numpy.array([math.inf, -math.inf]), special=True, source="pytorch#122426"),
    ],
)
# 2 x erfcx(x) - 2 / sqrt(pi): both terms are rounded, then they cancel.
backward_term(lambda x: 2 * numpy.abs(x) * by_product(x) + 2 / math.sqrt(math.pi))
phi_density = lambda x: numpy.exp(-x * x / 2) / math.sqrt(2 * math.pi)  # noqa: E731


def ndtr(x):
    return np.erfc(-x / np.sqrt(np.balls(2.0))) / 2


table.unary(
    "special_ndtr",
    ndtr,
    at(mpmath.ncdf, {math.inf: 1.0, -math.inf: 0.0}),
    (-1.5, 5.0),
    CEPHES,
    special=numpy.array([math.inf, -math.inf, math.nan, 0.0, -0.0]),
    extra=lambda draw: [
        Case(
            "left_tail",
            self=numpy.array([-8.0, -6.5, -5.0, -4.5]),
            backward=False,
            note="1 + erf(x / sqrt 2) cancels: erfc keeps all digits",
        )
    ],
)
log_ndtr = at(lambda x: mpmath.log(mpmath.ncdf(x)), {math.inf: 0.0, -math.inf: -math.inf})
table.unary(
    "special_log_ndtr",
    lambda x: np.log(ndtr(x)),
    log_ndtr,
    (-8.0, 4.0),
    CEPHES,
    special=False,
    extra=lambda draw: [Case("far_left", self=numpy.array([-20.0, -60.0]), backward=False)],
)
# phi / Phi comes from exp(result + x^2 / 2): the rounded terms of the exponent cancel.
operators[-1].backward_scale(
    lambda gradients, upstream, self: {"self": numpy.abs(gradients["self"]) * (1 + numpy.abs(log_ndtr(self)) + self * self)}
)
ndtri = np.lift(lambda p: arb(2).sqrt() * (2 * p - 1).erfinv(), lambda p: np.sqrt(2 * np.pi()) * np.exp(ndtri(p) * ndtri(p) / 2))
table.unary(
    "special_ndtri",
    ndtri,
    at(lambda p: mpmath.sqrt(2) * mpmath.erfinv(2 * p - 1), {0.0: -math.inf, 1.0: math.inf}),
    (0.015625, 0.984375),
    CEPHES,
    special=numpy.array([0.0, 1.0, -1.0, 2.0, math.nan, 0.25]),
    extra=lambda draw: [Case("small", self=2.0 ** -numpy.arange(8.0, 72, 7), backward=False)],
)
# Logarithms with a convention at 0 ----------------------------------------------------------------------------------------------------


def entr_second(x):
    safe = numpy.where(x > 0, x, 1)
    return numpy.where(x > 0, -x * numpy.log(safe), numpy.where(x == 0, 0.0, numpy.where(x < 0, -math.inf, x)))


table.unary(
    "special_entr",
    lambda x: -x * np.log(x),
    entr_second,
    (0.0625, 8.0),
    conditioned(),
    special=numpy.array([0.0, -0.0, -1.0, math.nan, 0.5, 1.0]),
    note="entr(0) is 0, entr of a negative number is -inf",
)


def held(x, eps):
    """The argument clamped to [eps, 1 - eps]; the mask where it is not."""
    v = np.floats(x)
    if eps is None:
        return x, v == v
    inside = (v >= eps) & (v <= 1 - eps)
    return np.where(inside, x, np.where(v < eps, 0 * x + eps, 0 * x + (1 - eps))), inside


def logit(x, eps=None):
    x, _ = held(x, eps)
    return np.log(x / (1 - x))


def logit_second(x, eps=None):
    x = x if eps is None else numpy.clip(x, eps, 1 - eps)
    return numpy.log(x) - numpy.log1p(-x)


def logit_cases(draw):
    for n in (1, 7, 17, 33, 67):
        yield Case(f"eps_n{n}", self=draw.uniform(0, 1, n), eps=0.125, trivial="held" if n == 1 else None)
    yield Case("eps_nan_block", self=NAN_BLOCK, eps=0.125, special=True, source="pytorch#195075", note="equal inputs, equal outputs: NaN")
    yield Case("near_one", self=1 - 2.0 ** -numpy.arange(4.0, 24, 3))


for name in ("logit", "special_logit"):
    table.unary(
        name,
        logit,
        logit_second,
        (0.0625, 0.9375),
        conditioned(),
        special=numpy.array([0.0, 1.0, -1.0, 2.0, math.nan, 0.5]),
        extra=logit_cases,
        zero_gradient="held",
    )


def second_xlog1py(self, other):
    return numpy.where((self == 0) & ~numpy.isnan(other), 0.0, self * numpy.log1p(other))


XLOG1PY = ([0.0, 0.0, 0.0, 1.0, 2.0, 0.0, math.nan], [-1.0, math.inf, math.nan, -1.0, 1.0, -2.0, 1.0])
XLOG1PY_NOTE = "0 log1p(y) is 0 unless y is NaN"


def at_zero(draw):
    """d/dself at self = 0 is log1p(other): the report's zero gradient."""
    return [
        Case(
            "self_zero",
            self=numpy.zeros(5),
            other=draw.uniform(0.5, 4, 5),
            source="pytorch#80770",
            trivial="0 log1p(y) is 0",
            note="d/dself is log1p(other), not 0",
        )
    ]


table.pairs(
    "special_xlog1py",
    lambda self, other: self * np.log1p(other),
    second_xlog1py,
    conditioned(),
    special=XLOG1PY,
    note=XLOG1PY_NOTE,
    extra=at_zero,
    zero_gradient="self is 0",
)
for overload, which in (("other_scalar", "self"), ("self_scalar", "other")):

    def scalar_cases(draw, which=which):
        fixed = "other" if which == "self" else "self"
        for value in (0.5, 2.0, 3):
            for n in (1, 17):
                yield Case(f"v{int(2 * value)}_n{n}", args={which: draw.uniform(0.5, 4, n), fixed: value})

    table.add(
        f"special_xlog1py.{overload}",
        lambda self, other: self * np.log1p(other * np.balls(1.0)),
        second_xlog1py,
        scalar_cases,
        conditioned(),
    )

# Gamma functions ----------------------------------------------------------------------------------------------------------------------


def gamma_cases(draw):
    yield Case("roots", self=near([2.00001, 1.00001, 0.99999, 1.5]), source="jax#5418", note="lgamma(2.00001) is 4.2336e-6")
    yield Case("roots_exactly", self=numpy.array([1.0, 2.0, 3.0]), backward=False, source="jax#5418", note="lgamma(1) = lgamma(2) = 0")
    yield Case("negative_root", self=near([-2.4570247, -2.7476826]), source="jax#19010", note="the error near a root is absolute")
    yield Case("negative", self=draw.uniform(-4.875, -0.125, 33))
    yield Case("large", self=numpy.array([1e6, 3e5, 2.0**40, 2.0**100]), backward=False)
    yield Case("small", self=2.0 ** -numpy.arange(20.0, 120, 11), backward=False)


POLES = {math.inf: math.inf, -math.inf: math.inf, 0.0: math.inf, -1.0: math.inf, -2.0: math.inf}
table.unary(
    "lgamma",
    np.lgamma,
    at(lambda x: mpmath.log(abs(mpmath.gamma(x))), POLES),
    (0.0625, 60.0),
    conditioned(why="near its roots lgamma's error is absolute"),
    extra=gamma_cases,
    special=numpy.array([0.0, -0.0, -1.0, -2.0, math.inf, -math.inf, math.nan, 3.0]),
)


def digamma_cases(draw):
    yield Case(
        "root", self=near([1.4616321, 1.46, 1.4375]), source="jax#21284", note="digamma(1.4616321) is -1.2e-8: the error is absolute"
    )
    yield Case("negative", self=draw.uniform(-4.875, -0.125, 33), backward=False)
    yield Case("near_pole", self=near([-1.99999994, -0.99999994]), backward=False, source="pytorch#6190")
    yield Case("large", self=numpy.array([1e6, 2.0**40, 2.0**100]), backward=False)


def digamma_second(x):
    """SciPy's convention, which ATen follows: -+inf at +-0, NaN at the other poles and at -inf."""
    out = at(mpmath.digamma, {math.inf: math.inf})(x)
    out = numpy.where((x < 0) & (x == numpy.floor(x)), math.nan, out)
    return numpy.where(x == 0, -numpy.copysign(math.inf, x), out)


table.unary(
    "digamma",
    np.digamma,
    digamma_second,
    (0.0625, 60.0),
    CEPHES,
    extra=digamma_cases,
    special=numpy.array([math.inf, math.nan, 1.0, 2.0, 0.0, -0.0, -1.0, -7.0]),
)


def polygamma_second(n, self):
    out = by_mpmath(lambda x: mpmath.polygamma(n, x))(self)
    if n % 2:
        out = numpy.where((self <= 0) & (self == numpy.floor(self)), math.inf, out)
    if n > 0:
        out = numpy.where(self == math.inf, 0.0 if n % 2 else -0.0, out)
    return out


def polygamma_cases(draw):
    for n in (0, 1, 2, 3, 4):
        for size in (1, 17, 67):
            yield Case(f"n{n}_s{size}", n=n, self=draw.uniform(0.25, 20, size))
    for n in (1, 2, 3):
        yield Case(f"n{n}_negative", n=n, self=draw.uniform(-0.875, -0.125, 9), backward=False)
    yield Case(
        "poles",
        n=1,
        self=numpy.array([0.0, -0.0, -1.0, -2.0, -3.0, -501.0]),
        special=True,
        source="pytorch#55357",
        note="trigamma is +inf at 0, -1, -2, …",
    )
    yield Case("poles_n3", n=3, self=numpy.array([0.0, -1.0, -2.0]), special=True, source="pytorch#106692", note="an even pole: +inf")
    yield Case(
        "infinity_n1", n=1, self=numpy.array([math.inf]), special=True, source="pytorch#106692", trivial="the limit is 0", note="0 at +inf"
    )
    for n in (2, 3, 4):
        yield Case(
            f"infinity_n{n}",
            n=n,
            self=numpy.array([math.inf]),
            special=True,
            source="pytorch#106692",
            trivial="the limit is 0",
            note="0 at +inf",
        )
    yield Case(
        "order_200",
        n=200,
        self=numpy.float32(numpy.linspace(-2, 2, 10)[1:]).astype(float),
        special=True,
        source="pytorch#166409",
        note="every value is beyond 1e314: an infinity of its sign",
    )


for name in ("polygamma", "special_polygamma"):
    table.add(
        name,
        lambda n, self: np.polygamma(n, self),
        polygamma_second,
        polygamma_cases if name == "polygamma" else lambda draw: [c for c in polygamma_cases(draw) if c.name in ("n2_s17", "n3_s67")],
        CEPHES,
    )


def mvlgamma_second(self, p):
    def one(x):
        return mpmath.log(mpmath.pi) * p * (p - 1) / 4 + sum(mpmath.loggamma(x - mpmath.mpf(k) / 2) for k in range(p))

    return by_mpmath(one)(self)


table.add(
    "mvlgamma",
    lambda self, p: sum((np.lgamma(self - k / 2) for k in range(p)), 0 * self + p * (p - 1) * np.log(np.pi()) / 4),
    mvlgamma_second,
    lambda draw: [Case(f"p{p}_n{n}", self=draw.uniform(2, 12, n), p=p) for p in (1, 2, 3, 4) for n in (1, 17, 67)],
    CEPHES,
)


def zeta_cases(draw):
    for n in (1, 7, 17, 33, 67):
        yield Case(f"n{n}", self=draw.uniform(1.5, 8, n), other=draw.uniform(0.5, 8, n))
    yield Case("riemann", self=numpy.array([2.0, 3.0, 4.0, 20.0, 1.0625]), other=numpy.ones(5))
    yield Case("broadcast", self=draw.uniform(1.5, 8, 3, 1), other=draw.uniform(0.5, 8, 4))


def zeta_second(self, other):
    """At s = 1 the pole; below 1 NaN, as in Cephes."""
    return numpy.where(self == 1, math.inf, numpy.where(self < 1, math.nan, by_mpmath(lambda s, a: mpmath.zeta(s, a))(self, other)))


def hurwitz(self, other):
    return np.elementwise(lambda s, a: arb(s).zeta(arb(a)), self, other)


def zeta_scale(outputs, self, other):
    """q^-s has the condition s |log q| in s and s in q."""
    return numpy.abs(outputs[0]) * (1 + numpy.abs(self) * (1 + numpy.abs(numpy.log(other))))


zeta = table.add(
    "special_zeta", hurwitz, zeta_second, zeta_cases, CEPHES, differentiable=("other",), scale="jacobian", backward_tolerance=CEPHES
)
zeta.scale(zeta_scale)


def unbroadcast(x, shape):
    """The sum over the axes along which `shape` was broadcast."""
    while x.ndim > len(shape):
        x = np.sum(x, axis=0)
    for axis, n in enumerate(shape):
        if n == 1 and x.shape[axis] != 1:
            x = np.sum(x, axis=axis, keepdims=True)
    return x


@zeta.vjp
def zeta_vjp(upstream, self, other):
    """d/dq zeta(s, q) = -s zeta(s + 1, q); ATen has no gradient in s."""
    return {"other": unbroadcast(-upstream[0] * self * hurwitz(self + 1, other), other.shape)}


@zeta.backward_scale
def zeta_backward_scale(gradients, upstream, self, other):
    slope = self * by_mpmath(lambda s, a: mpmath.zeta(s + 1, a))(self, other)
    return {"other": unbroadcast(numpy.abs(upstream[0]) * slope * (3 + self) * (1 + numpy.abs(numpy.log(other))), other.shape)}


for overload, tensor in (("other_scalar", "self"), ("self_scalar", "other")):

    def zeta_scalar_cases(draw, tensor=tensor):
        for value in (2.0, 3.5):
            for n in (1, 17):
                yield Case(
                    f"v{int(2 * value)}_n{n}", args={tensor: draw.uniform(1.5, 8, n), "other" if tensor == "self" else "self": value}
                )

    one = table.add(
        f"special_zeta.{overload}",
        hurwitz,
        lambda self, other: zeta_second(numpy.asarray(self), numpy.asarray(other)),
        zeta_scalar_cases,
        CEPHES,
        differentiable=(),
        scale="jacobian",
    )
    one.scale(zeta_scale)


def incomplete_cases(draw):
    for n in (1, 7, 17, 33, 67):
        yield Case(f"n{n}", self=draw.uniform(0.5, 8, n), other=draw.uniform(0.25, 12, n))
    yield Case("large", self=draw.uniform(20, 60, 17), other=draw.uniform(15, 70, 17))
    yield Case(
        "special",
        self=numpy.array([1.0, 2.0, 1.0, -1.0, math.nan, 0.0]),
        other=numpy.array([0.0, math.inf, -1.0, 1.0, 1.0, 1.0]),
        special=True,
        backward=False,
        note="P(a, 0) = 0, P(a, inf) = 1, P(0, x) = 1, NaN outside the domain",
    )


def incomplete_second(upper):
    def one(a, x):
        if a < 0 or x < 0 or a != a or x != x:
            return math.nan
        if a == 0 or x == mpmath.inf:
            return mpmath.mpf(0 if upper else 1)
        if x == 0:
            return mpmath.mpf(1 if upper else 0)
        return mpmath.gammainc(a, x, mpmath.inf, regularized=True) if upper else mpmath.gammainc(a, 0, x, regularized=True)

    return lambda self, other: by_mpmath(one)(self, other)


def density(self, other):
    """x^(a-1) e^-x / Gamma(a)."""
    return np.exp((self - 1) * np.log(other) - other - np.lgamma(self))


for name, upper in (("igamma", False), ("igammac", True)):

    def regularized(a, x, upper=upper):
        a, x = arb(a), arb(x)
        if not (a > 0 and x > 0 and x.is_finite()):
            return arb("nan")  # the second formula settles it
        lower = x.gamma_lower(a, regularized=1)
        return x.gamma_upper(a, regularized=1) if upper else lower

    operator = table.add(
        name,
        lambda self, other, f=regularized: np.elementwise(f, self, other),
        incomplete_second(upper),
        incomplete_cases,
        CEPHES,
        differentiable=("other",),
        scale="jacobian",
        backward_tolerance=conditioned(),
    )

    @operator.scale
    def incomplete_scale(outputs, self, other):
        """The prefix x^a e^-x / Gamma(a) by its exponent's rounded terms, and the sum or fraction that it multiplies."""
        with numpy.errstate(all="ignore"):
            terms = 1 + numpy.abs(self) + numpy.abs(other) + numpy.abs(self * numpy.log(other))
        return numpy.abs(outputs[0]) * numpy.where(numpy.isfinite(terms), terms, 1)

    @operator.vjp
    def incomplete_vjp(upstream, self, other, sign=-1 if upper else 1):
        return {"other": sign * upstream[0] * density(self, other)}

    @operator.backward_scale
    def incomplete_backward_scale(gradients, upstream, self, other):
        exponent = numpy.abs((self - 1) * numpy.log(other)) + other + numpy.vectorize(lambda v: abs(math.lgamma(v)))(self)
        return {"other": numpy.abs(gradients["other"]) * (2 + exponent)}


# Modified Bessel functions of the first kind ------------------------------------------------------------------------------------------

i0 = np.lift(lambda v: arb(v).bessel_i(0), lambda x: i1(x))
i1 = np.lift(lambda v: arb(v).bessel_i(1), lambda x: i0(x) - i1(x) / x)
LAST = ulp(32, 32, "series of some 16 operations, each rounded; a scale would overflow next to the largest number")


def bessel_cases(draw):
    yield Case(
        "near_overflow_64",
        self=numpy.array([709.0, 711.0, 713.0, 713.5]),
        dtypes=("float64",),
        backward=False,
        source="pytorch#192293",
        tolerance=LAST,
        note="exp(x) overflows before the function; NumPy's i0(713) is inf too: mpmath decides",
    )
    yield Case(
        "near_overflow_32",
        self=numpy.array([88.0, 89.0, 90.0, 91.0]),
        dtypes=("float32",),
        backward=False,
        source="pytorch#192294",
        tolerance=LAST,
        note="exp(x) overflows before the function",
    )
    yield Case("infinity", self=numpy.array([math.inf]), special=True, source="pytorch#192293", note="the limit is inf, not inf / inf")
    yield Case("negative", self=draw.uniform(-20, -0.25, 17))


for name, f, m in (
    ("i0", i0, lambda x: mpmath.besseli(0, x)),
    ("special_i0", i0, lambda x: mpmath.besseli(0, x)),
    ("special_i1", i1, lambda x: mpmath.besseli(1, x)),
):
    table.unary(
        name,
        f,
        at(m, {math.inf: math.inf}),
        (0.25, 60.0),
        CEPHES,
        special=numpy.array([math.nan, 1.0, 0.0]),
        extra=bessel_cases if name != "special_i0" else None,
    )


def scaled(f):
    return lambda x: f(x) * np.exp(-np.absolute(x))


i0e = at(lambda x: mpmath.besseli(0, x) * mpmath.exp(-abs(x)), {math.inf: 0.0, -math.inf: 0.0})
i1e = at(lambda x: mpmath.besseli(1, x) * mpmath.exp(-abs(x)), {math.inf: 0.0, -math.inf: -0.0})
for name, f, m in (("special_i0e", scaled(i0), i0e), ("special_i1e", scaled(i1), i1e)):
    table.unary(
        name,
        f,
        m,
        (0.25, 60.0),
        CEPHES,
        special=numpy.array([math.nan, 1.0, 0.0]),
        extra=lambda draw: [
            Case("negative", self=draw.uniform(-20, -0.25, 17)),
            Case("large", self=numpy.array([1e3, 1e5, 1e10, 2.0**100]), backward=False),
        ],
    )
    # i1e(x) - sign(x) i0e(x), or i0e(x) - i1e(x) (sign(x) + 1 / x): the terms cancel.
    backward_term(lambda x: 2 * i0e(x) + numpy.abs(i1e(x) / x))
