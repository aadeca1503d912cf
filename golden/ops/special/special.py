"""Special functions: Arb's enclosure, checked by mpmath. Bounds: CUDA's table where it has the function; near a root the error is absolute."""

import math

import mpmath
import numpy
from flint import arb

from golden import Case, conditioned, exact
from golden import numpy_ad as np
from golden.table import Table, by_mpmath, published

table = Table()
operators = table.operators
NUMBERS = numpy.array([1.0, 2.0, 0.5, 1.5, math.inf, math.nan])
# ATen's own series and continued fractions (Cephes): a few dozen operations, each rounded.
CEPHES = conditioned(float32=32, float64=32, why="docs/numerics.md#cephes")


def mp(function, **known):
    """mpmath, with the values that it does not know (infinities) given by name of the argument: {value: answer}."""
    plain = by_mpmath(function)
    table = known.get("at", {})

    def second(x, **_):
        out = plain(x)
        for where, answer in table.items():
            out = numpy.where(x == where, answer, out)
        return numpy.where(numpy.isnan(x), numpy.nan, out)

    return second


lifted = np.lift
table.unary("erf", np.erf, mp(mpmath.erf, at={math.inf: 1.0, -math.inf: -1.0, 0.0: 0.0}), (-3.0, 3.0), published("erf"), special=numpy.array([math.inf, -math.inf, math.nan, 0.5, 1.0]))
table.unary("erfc", np.erfc, mp(mpmath.erfc, at={math.inf: 0.0, -math.inf: 2.0}), (-3.0, 9.0), published("erfc"), special=numpy.array([math.inf, -math.inf, math.nan, 0.0, 1.0]))
erfinv = lifted(lambda v: v.erfinv(), lambda x: np.sqrt(np.pi()) / 2 * np.exp(erfinv(x) * erfinv(x)))
table.unary("erfinv", erfinv, mp(mpmath.erfinv, at={1.0: math.inf, -1.0: -math.inf}), (-0.9375, 0.9375), published("erfinv"), special=numpy.array([1.0, -1.0, 2.0, math.nan, 0.5]))
erfcx = lifted(lambda v: (v * v).exp() * v.erfc(), lambda x: 2 * x * erfcx(x) - 2 / np.sqrt(np.pi()))
table.unary("special_erfcx", erfcx, mp(lambda x: mpmath.exp(x * x) * mpmath.erfc(x), at={math.inf: 0.0, -math.inf: math.inf}), (-3.0, 40.0), published("erfcx"), special=numpy.array([math.inf, -math.inf, math.nan, 0.0]),
            note="erfcx(inf) is 0, erfcx(-inf) is inf")
table.unary("lgamma", np.lgamma, mp(lambda x: mpmath.log(abs(mpmath.gamma(x))), at={math.inf: math.inf, -math.inf: math.inf, 0.0: math.inf, -1.0: math.inf, -2.0: math.inf}), (0.0625, 60.0), conditioned(why="near its roots lgamma's error is absolute"),
            special=numpy.array([0.0, -1.0, -2.0, math.inf, math.nan, 3.0]),
            extra=lambda draw: [Case("roots", self=numpy.float32(numpy.array([2.00001, 1.00001, 0.99999, 1.5])).astype(float), source="jax#5418"), Case("roots_exactly", self=numpy.array([1.0, 2.0, 3.0]), backward=False, source="jax#5418")],
            tail=(1e6, 3e5))
table.unary("digamma", np.digamma, mp(mpmath.digamma, at={math.inf: math.inf, 0.0: -math.inf}), (0.0625, 60.0), CEPHES, special=numpy.array([math.inf, math.nan, 1.0, 2.0]),
            extra=lambda draw: [Case("root", self=numpy.float32(numpy.array([1.4616321, 1.46, 1.4375])).astype(float), source="jax#21284", note="the root lies near 1.4616321")])
j0 = lifted(lambda v: v.bessel_j(0), lambda x: -j1(x))
j1 = lifted(lambda v: v.bessel_j(1), lambda x: j0(x) - j1(x) / x)
for name, f, m in (("j0", j0, lambda x: mpmath.besselj(0, x)), ("j1", j1, lambda x: mpmath.besselj(1, x))):
    table.unary(f"special_bessel_{name}", f, mp(m), (0.0625, 20.0), conditioned(float32=32, float64=32, why="docs/numerics.md#cephes"), special=False, differentiable=())
i0 = lifted(lambda v: arb(v).bessel_i(0), lambda x: i1(x))
i1 = lifted(lambda v: arb(v).bessel_i(1), lambda x: i0(x) - i1(x) / x)


def scaled(f):
    return lambda x: f(x) * np.exp(-np.absolute(x))


for name, f, m in (("i0", i0, lambda x: mpmath.besseli(0, x)), ("special_i1", i1, lambda x: mpmath.besseli(1, x))):
    table.unary(name, f, mp(m, at={math.inf: math.inf}), (0.25, 60.0), CEPHES, special=numpy.array([math.inf, math.nan, 1.0]),
                extra=lambda draw: [Case("near_overflow_64", self=numpy.array([713.0, 700.0]), dtypes=("float64",), backward=False, source="pytorch#192293", note="NumPy's i0(713) is inf too: mpmath decides"),
                                    Case("near_overflow_32", self=numpy.array([91.0, 88.0]), dtypes=("float32",), backward=False, source="pytorch#192293")])
for name, f, m in (("special_i0e", scaled(i0), lambda x: mpmath.besseli(0, x) * mpmath.exp(-abs(x))), ("special_i1e", scaled(i1), lambda x: mpmath.besseli(1, x) * mpmath.exp(-abs(x)))):
    table.unary(name, f, mp(m), (0.25, 60.0), CEPHES, special=False)
table.unary("special_ndtr", lambda x: np.erfc(-x / np.sqrt(np.balls(2.0))) / 2, mp(mpmath.ncdf, at={math.inf: 1.0, -math.inf: 0.0}), (-5.0, 5.0), CEPHES, special=numpy.array([math.inf, -math.inf, math.nan, 0.0]))
table.unary("special_log_ndtr", lambda x: np.log(np.erfc(-x / np.sqrt(np.balls(2.0))) / 2), mp(lambda x: mpmath.log(mpmath.ncdf(x))), (-8.0, 4.0), CEPHES, special=False)
table.unary("special_entr", lambda x: -x * np.log(x), lambda x: numpy.where(x > 0, -x * numpy.log(numpy.where(x > 0, x, 1)), numpy.where(x == 0, 0.0, numpy.where(x < 0, -math.inf, x))), (0.0625, 8.0), conditioned(),
            special=numpy.array([0.0, -1.0, math.nan, 0.5]), note="entr(0) is 0, entr of a negative number is -inf")
table.unary("logit", lambda x, eps=None: np.log(x / (1 - x)), lambda x, eps=None: numpy.log(x) - numpy.log1p(-x), (0.0625, 0.9375), conditioned(), special=numpy.array([0.0, 1.0, -1.0, math.nan, 0.5]))

# Two arguments ------------------------------------------------------------------------------------------------------------------------------


def polygamma_second(n, self):
    out = by_mpmath(lambda x: mpmath.polygamma(n, x))(self)
    if n == 1:
        out = numpy.where((self <= 0) & (self == numpy.floor(self)), math.inf, out)
    return numpy.where(self == math.inf, 0.0 if n % 2 else -0.0, out)


def polygamma_cases(draw):
    for n in (0, 1, 2, 3, 4):
        for size in (1, 17, 33):
            yield Case(f"n{n}_s{size}", n=n, self=draw.uniform(0.25, 20, size))
    yield Case("poles", n=1, self=numpy.array([0.0, -1.0, -2.0, -3.0, -501.0, 1.0]), special=True, source="pytorch#55357", note="trigamma is +inf at 0, -1, -2, …")
    for n in (2, 3, 4):
        yield Case(f"infinity_n{n}", n=n, self=numpy.array([math.inf, 1.0]), special=True, source="pytorch#106692", note="0 at +inf")


table.add("polygamma", lambda n, self: np.polygamma(n, self), polygamma_second, polygamma_cases, CEPHES)
table.pairs("special_xlog1py", lambda self, other: self * np.log1p(other), lambda self, other: numpy.where((self == 0) & ~numpy.isnan(other), 0.0, self * numpy.log1p(other)), conditioned(),
            special=([0.0, 0.0, 0.0, 1.0, 2.0], [-1.0, math.inf, math.nan, -1.0, 1.0]), note="0 log1p(y) is 0 unless y is NaN")
table.add("special_zeta", lambda self, other: np.elementwise(lambda s, a: arb(s).zeta(arb(a)), self, other), lambda self, other: by_mpmath(lambda s, a: mpmath.zeta(s, a))(self, other),
          lambda draw: [Case(f"n{n}", self=draw.uniform(1.5, 8, n), other=draw.uniform(0.5, 8, n)) for n in (1, 7, 17, 33)], CEPHES, differentiable=(), modes=("layouts", "threads"), scale="jacobian")
operators[-1].scale(lambda outputs, self, other: numpy.abs(outputs[0]) * (1 + self * numpy.abs(numpy.log(other))))
table.add("igamma", lambda self, other: np.elementwise(lambda a, x: arb(x).gamma_lower(arb(a), regularized=1), self, other),
          lambda self, other: by_mpmath(lambda a, x: mpmath.gammainc(a, 0, x, regularized=True))(self, other),
          lambda draw: [Case(f"n{n}", self=draw.uniform(0.5, 8, n), other=draw.uniform(0.25, 12, n)) for n in (1, 7, 17, 33)], CEPHES, differentiable=(), modes=("layouts", "threads"), scale="jacobian")
operators[-1].scale(lambda outputs, self, other: numpy.abs(outputs[0]) * (1 + self + other))
table.add("mvlgamma", lambda self, p: sum((np.lgamma(self - k / 2) for k in range(p)), 0 * self + p * (p - 1) * np.log(np.pi()) / 4),
          lambda self, p: by_mpmath(lambda x: mpmath.log(mpmath.pi) * p * (p - 1) / 4 + sum(mpmath.loggamma(x - mpmath.mpf(k) / 2) for k in range(p)))(self),
          lambda draw: [Case(f"p{p}_n{n}", self=draw.uniform(2, 12, n), p=p) for p in (1, 2, 3) for n in (1, 17)], CEPHES)
