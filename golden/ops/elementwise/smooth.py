"""Smooth elementwise functions: one line each."""

import math

import numpy

from golden import Case, conditioned, ulp
from golden import numpy_ad as np
from golden.table import Table, published

table = Table()
operators = table.operators
ROUNDED = ulp(1, 1, "IEEE 754: correctly rounded, 1/2 ulp")
ONCE_MORE = ulp(2, 2, "two roundings")


def edges(single, double, source=None, note=None, block=None):
    """Arguments at a function's ends, forward only: float32's, and float64's own. `block`: one argument of each in vectors and tail."""
    blocks = [
        Case(f"block_{d[-2:]}", self=numpy.full(67, v), dtypes=(d,), backward=False, source=source, note=note)
        for d, v in zip(("float32", "float64"), block or (), strict=False)
    ]
    return lambda draw: [
        *blocks,
        Case(
            "edges_32", self=numpy.float32(numpy.array(single)).astype(float), dtypes=("float32",), backward=False, source=source, note=note
        ),
        Case("edges_64", self=numpy.array(double), dtypes=("float64",), backward=False, source=source, note=note),
    ]


table.unary(
    "exp",
    np.exp,
    numpy.exp,
    (-87.0, 88.0),
    published("exp"),
    tail=(-80.0, -40.0, 80.0),
    extra=edges(
        [88.5, 88.625, -87.5, -100.0, -103.0],
        [709.0, 709.75, -709.0, -740.0, -745.0],
        source="pytorch#197785",
        note="the last factor before overflow, and subnormal results",
    ),
)
table.unary(
    "exp2",
    np.exp2,
    numpy.exp2,
    (-125.0, 127.0),
    published("exp2"),
    extra=edges(
        [127.5, 127.96875, -130.5, -149.0], [1023.5, -1030.5, -1074.0], note="the last factor before overflow, and subnormal results"
    ),
)
table.unary(
    "expm1",
    np.expm1,
    numpy.expm1,
    (-2.0, 20.0),
    published("expm1"),
    tail=(-40.0, -20.0, -10.0),
    tail_source="pytorch#195681",
    extra=edges([88.5, 2.0**-30, -(2.0**-100)], [709.5, 2.0**-60, -(2.0**-500)], note="near overflow, and expm1(x) = x near 0"),
)
table.unary(
    "log",
    np.log,
    numpy.log,
    (2.0**-20, 1000.0),
    published("log"),
    extra=edges(
        [2.0**-149, 2.0**-127, 1 + 2.0**-23, 1 - 2.0**-24, 3e38],
        [2.0**-1074, 1 + 2.0**-52, 1 - 2.0**-53, 1e308],
        note="subnormal arguments, and the root",
    ),
)
table.unary("log2", np.log2, numpy.log2, (2.0**-20, 1000.0), published("log2"))
table.unary("log10", np.log10, numpy.log10, (2.0**-20, 1000.0), published("log10"))
table.unary(
    "log1p",
    np.log1p,
    numpy.log1p,
    (-0.5, 100.0),
    published("log1p"),
    extra=edges([2.0**-30, -(2.0**-30), -0.9375, 1e30], [-0.4141892, 2.0**-60, 1e300], source="jax#39707", note="near 0 log1p(x) = x"),
)
table.unary(
    "sin",
    np.sin,
    numpy.sin,
    (-100.0, 100.0),
    published("sin"),
    extra=edges([1e4, 1e5, 1e8, 2.0**100, 3.1415927410125732], [1e15, 2.0**500, math.pi], note="large arguments are reduced exactly"),
)
table.unary(
    "cos",
    np.cos,
    numpy.cos,
    (-100.0, 100.0),
    published("cos"),
    extra=edges([1e4, 1e5, 1e8, 2.0**100, 1.5707963705062866], [1e15, 2.0**500, math.pi / 2], note="large arguments are reduced exactly"),
)
table.unary(
    "tan",
    np.tan,
    numpy.tan,
    (-10.0, 10.0),
    published("tan"),
    extra=edges([1e4, 1e8, 1.5707963705062866], [1e15, math.pi / 2], note="next to a pole"),
)
table.unary("asin", np.arcsin, numpy.arcsin, (-0.9375, 0.9375), published("asin"))
table.unary("acos", np.arccos, numpy.arccos, (-0.9375, 0.9375), published("acos"))
table.unary("atan", np.arctan, numpy.arctan, (-20.0, 20.0), published("atan"))
table.unary(
    "sinh",
    np.sinh,
    numpy.sinh,
    (-20.0, 20.0),
    published("sinh"),
    extra=edges(
        [88.75, 89.25, -89.25, 2.0**-20], [709.875, 710.25, 2.0**-40], note="exp(x) overflows, sinh(x) does not", block=(89.25, 710.25)
    ),
)
table.unary(
    "cosh",
    np.cosh,
    numpy.cosh,
    (-20.0, 20.0),
    published("cosh"),
    extra=edges([88.75, 89.25, -89.25], [709.875, 710.25], note="exp(x) overflows, cosh(x) does not", block=(89.25, 710.25)),
)
table.unary(
    "tanh",
    np.tanh,
    numpy.tanh,
    (-2.0, 2.0),
    published("tanh"),
    tail=(20.0, -9.0, 12.0),
    tail_source="pytorch#195685",
    extra=edges([9.0, -5.0, 2.0**-20, 2.0**-100], [19.0, -12.0, 2.0**-300], note="saturated, and tanh(x) = x near 0"),
)
table.unary(
    "asinh",
    np.arcsinh,
    numpy.arcsinh,
    (-50.0, 50.0),
    published("asinh"),
    extra=edges([1e20, 3e38, 2.0**-20], [1e200, 1e308, -(2.0**-40)], note="x * x overflows, asinh(x) does not"),
)
table.unary(
    "acosh",
    np.arccosh,
    numpy.arccosh,
    (1.0625, 50.0),
    published("acosh"),
    extra=edges([1e20, 3e38, 1 + 2.0**-20], [1e200, 1e308], note="x * x overflows, acosh(x) does not"),
)
table.unary("atanh", np.arctanh, numpy.arctanh, (-0.9375, 0.9375), published("atanh"))
table.unary("sqrt", np.sqrt, numpy.sqrt, (2.0**-20, 1000.0), ROUNDED)
table.unary(
    "rsqrt",
    lambda x: 1 / np.sqrt(x),
    lambda x: 1 / numpy.sqrt(x),
    (2.0**-20, 1000.0),
    published("rsqrt"),
    extra=lambda draw: [
        Case("subnormal", self=numpy.array([2.0**-133, 2.0**-149, 3 * 2.0**-149]), backward=False, source="tensorflow#118644")
    ],
)
table.unary("reciprocal", lambda x: 1 / x, lambda x: 1 / x, (0.25, 100.0), ROUNDED)
table.unary("square", lambda x: x * x, lambda x: x**2, (-8.0, 8.0), ROUNDED)
table.unary(
    "sigmoid",
    np.expit,
    lambda x: numpy.where(
        x < 0, numpy.exp(numpy.minimum(x, 0)) / (1 + numpy.exp(numpy.minimum(x, 0))), 1 / (1 + numpy.exp(-numpy.maximum(x, 0)))
    ),
    (-8.0, 8.0),
    published("exp", 2),
    tail=(20.0, 40.0, -40.0),
    tail_source="pytorch#195681",
    extra=lambda draw: [
        Case(
            "subnormal_tail",
            self=numpy.array([-88.75, -87.5, -100.0]),
            backward=False,
            dtypes=("float32",),
            source="pytorch#197785",
            note="exp(x) is subnormal, not 0",
        ),
        Case("subnormal_tail_64", self=numpy.array([-740.0, -709.0]), backward=False, dtypes=("float64",), source="pytorch#197785"),
        Case(
            "ones",
            self=numpy.ones((1, 2, 19, 19)),
            backward=False,
            source="pytorch#77241",
            note="equal inputs give equal outputs, in every tail",
        ),
    ],
)


@operators[-1].backward_scale
def sigmoid_backward_scale(gradients, upstream, self):
    """ATen differentiates from the rounded result: y (1 - y), where 1 - y errs by u. Beyond 17 float32's y is 1 and the gradient is lost:
    no allowance there."""
    y, g = 1 / (1 + numpy.exp(-self)), numpy.abs(upstream[0])
    return {"self": numpy.abs(gradients["self"]) * 2 + g * numpy.abs(self * y * (1 - y) * (1 - 2 * y)) + g * y * (numpy.abs(self) < 17)}


table.unary(
    "sinc",
    lambda x: np.sin(np.pi() * x) / (np.pi() * x),
    numpy.sinc,
    (0.0625, 8.0),
    conditioned(),
    special=numpy.array([0.0, -0.0, numpy.inf, numpy.nan, 0.5, 1.5]),
    note="sinc(0) is 1, sinc(inf) is NaN by sin(inf)",
    extra=lambda draw: [
        Case(
            "near_zero", self=2.0 ** -numpy.arange(6.0, 15, 2), source="jax#34139", note="the gradient is -pi^2 x / 3: its two terms cancel"
        )
    ],
)


@operators[-1].backward_scale
def sinc_backward_scale(gradients, upstream, self):
    """cos(z) / x - sin(z) / (pi x^2) with z = pi x rounded: an error of u z in the angle moves it by u (pi + 1 / |x|).

    Next to 0 the two terms cancel down to -pi^2 x / 3, which a series has in full: no allowance below 1/16."""
    return {"self": numpy.abs(gradients["self"]) + numpy.abs(upstream[0]) * (numpy.pi + 2 / numpy.abs(self)) * (numpy.abs(self) >= 0.0625)}


table.unary("deg2rad", lambda x: x * np.pi() / 180, lambda x: x * (math.pi / 180), (-720.0, 720.0), ONCE_MORE)
table.unary("rad2deg", lambda x: x * 180 / np.pi(), lambda x: x * (180 / math.pi), (-10.0, 10.0), ONCE_MORE)

# Two tensors --------------------------------------------------------------------------------------------------------------------------

table.pairs(
    "add.Tensor",
    lambda self, other, alpha=1: self + alpha * other,
    lambda self, other, alpha=1: self + alpha * other,
    ROUNDED,
    extra=lambda draw: [
        Case("alpha", self=draw.normal(33), other=draw.normal(33), alpha=0.5),
        Case("cancel", self=numpy.array([1e8, 1.0]), other=numpy.array([-1e8, -1 + 2.0**-24])),
    ],
)
table.pairs("sub.Tensor", lambda self, other, alpha=1: self - alpha * other, lambda self, other, alpha=1: self - alpha * other, ROUNDED)
table.pairs(
    "mul.Tensor",
    lambda self, other: self * other,
    lambda self, other: self * other,
    ROUNDED,
    extra=lambda draw: [
        Case("huge", self=draw.uniform(1, 2, 9) * 2.0**100, other=draw.uniform(1, 2, 9) * 2.0**20),
        Case("subnormal", self=draw.uniform(1, 2, 9) * 2.0**-100, other=numpy.full(9, 2.0**-40)),
    ],
)
table.pairs(
    "div.Tensor",
    lambda self, other: self / other,
    lambda self, other: self / other,
    ROUNDED,
    extra=lambda draw: [Case("by_fifty", self=numpy.array([49.5]), other=numpy.array([50.0]), source="pytorch#186618")],
)
table.pairs("true_divide.Tensor", lambda self, other: self / other, lambda self, other: self / other, ROUNDED)
table.add(
    "div.Scalar",
    lambda self, other: self / other,
    lambda self, other: self / other,
    lambda draw: [Case(f"n{n}_by{abs(int(v))}", self=draw.normal(n), other=v) for n in (1, 17, 67) for v in (3.0, 50.0, -0.375)],
    ulp(2, 2, "ATen may multiply by the rounded reciprocal: 1 1/2 ulp"),
)
table.pairs("rsub.Tensor", lambda self, other, alpha=1: other - alpha * self, lambda self, other, alpha=1: other - alpha * self, ROUNDED)
positive = (0.125, 8.0)
table.pairs(
    "pow.Tensor_Tensor",
    lambda self, exponent: np.exp(exponent * np.log(self)),
    lambda self, exponent: numpy.power(self, exponent),
    published("pow"),
    first=positive,
    other=(-3.0, 3.0),
    names=("self", "exponent"),
    note="C99's table: pow(1, NaN) = 1, pow(NaN, 0) = 1, pow(-1, inf) = 1",
)
BASES = numpy.array([0.0, -0.0, 1.0, -1.0, 2.0, -2.0, 0.5, math.inf, -math.inf, math.nan])


def pow_scalar(self, exponent):
    if isinstance(exponent, int) or float(exponent).is_integer():
        return self ** int(exponent)
    return np.sqrt(self) ** int(2 * exponent) if (2 * exponent).is_integer() else np.exp(exponent * np.log(self))


def pow_cases(draw):
    for e in (0.5, -0.5, 1, -1, 2, -2, 3, 0, 1.5, 2.75):
        name = str(e).replace(".", "").replace("-", "m")
        for n in (1, 17, 67):
            yield Case(f"e{name}_n{n}", self=draw.uniform(0.125, 8, n), exponent=e, backward=e != 0)
        yield Case(
            f"e{name}_special",
            self=BASES,
            exponent=e,
            special=True,
            source="pytorch#127163",
            note="C99: pow(-0, 1/2) is +0 and pow(-inf, 1/2) is +inf; sqrt says otherwise",
        )


table.add(
    "pow.Tensor_Scalar",
    pow_scalar,
    lambda self, exponent: numpy.power(self, numpy.full(self.shape, float(exponent))),
    pow_cases,
    published("pow"),
)
table.add(
    "pow.Scalar",
    lambda self, exponent: np.exp(exponent * np.ln(self)),
    lambda self, exponent: numpy.power(float(self), exponent),
    lambda draw: (
        [
            Case(f"b{str(b).replace('.', '')}_n{n}", args={"self": b, "exponent": draw.uniform(-8, 8, n)})
            for b in (2.0, 0.75, 10.0)
            for n in (1, 17, 67)
        ]
        + [
            Case(
                "special",
                args={"self": 2.0, "exponent": numpy.array([0.0, -0.0, math.inf, -math.inf, math.nan, -149.0, 127.0])},
                special=True,
            )
        ]
    ),
    published("pow"),
)


def atan2(self, other):
    behind = np.value(other) < 0
    return np.arctan(self / other) + np.where(behind, np.where(np.value(self) < 0, -np.pi(), np.pi()), 0)


table.pairs("atan2", atan2, numpy.arctan2, published("atan2"), note="C99's table of quadrants and signed zeros")
table.pairs(
    "hypot",
    lambda self, other: np.sqrt(self * self + other * other),
    numpy.hypot,
    published("hypot"),
    note="hypot(inf, NaN) is inf",
    extra=lambda draw: [
        Case(
            "huge",
            self=draw.uniform(1, 2, 17) * 2.0**100,
            other=draw.uniform(1, 2, 17) * 2.0**100,
            source="pytorch#193006",
            backward=False,
            note="the squares overflow, the result does not",
        ),
        Case(
            "tiny",
            self=draw.uniform(1, 2, 17) * 2.0**-100,
            other=draw.uniform(1, 2, 17) * 2.0**-100,
            source="pytorch#193006",
            backward=False,
            note="the squares underflow, the result does not",
        ),
    ],
)
table.pairs(
    "xlogy.Tensor",
    lambda self, other: self * np.log(other),
    lambda self, other: numpy.where((self == 0) & ~numpy.isnan(other), 0.0, self * numpy.log(other)),
    published("log", 1),
    special=([0.0, 0.0, 0.0, 1.0, math.nan, 2.0, 0.0], [0.0, math.inf, math.nan, 0.0, 1.0, math.inf, 2.0]),
    note="0 log(y) is 0 unless y is NaN",
    extra=lambda draw: [
        Case(
            "self_zero",
            self=numpy.zeros(5),
            other=draw.uniform(0.5, 4, 5),
            source="pytorch#80770",
            trivial="0 log(y) is 0",
            note="d/dself is log(y), not 0",
        )
    ],
    zero_gradient="self is 0",
)
table.pairs(
    "logaddexp",
    lambda self, other: np.log(np.exp(self) + np.exp(other)),
    numpy.logaddexp,
    conditioned(),
    other=(-4.0, 4.0),
    special=([-math.inf, math.inf, -math.inf, math.nan, math.inf], [-math.inf, 1.0, 1.0, 0.0, math.inf]),
    note="logaddexp(-inf, -inf) is -inf",
    extra=lambda draw: [
        Case("infinities", self=numpy.array([-math.inf, 1.0]), other=numpy.array([-math.inf, 1.0]), special=True, source="pytorch#49724"),
        Case("far", self=numpy.array([-1000.0, 1000.0]), other=numpy.array([1000.0, 999.0])),
    ],
)
table.pairs(
    "logaddexp2",
    lambda self, other: np.log2(np.exp2(self) + np.exp2(other)),
    numpy.logaddexp2,
    conditioned(),
    other=(-4.0, 4.0),
    special=([-math.inf, math.inf, -math.inf, math.nan], [-math.inf, 1.0, 1.0, 0.0]),
)


def triple(name, reference, second, keys):
    table.add(
        name,
        reference,
        second,
        lambda draw: [
            Case(
                f"n{n}_v{int(v * 2)}", args={"self": draw.normal(n), keys[0]: draw.normal(n), keys[1]: draw.uniform(0.5, 2, n), "value": v}
            )
            for n in (1, 7, 16, 33, 67)
            for v in (1, 0.5)
        ],
        conditioned(),
    )


triple(
    "addcmul",
    lambda self, tensor1, tensor2, value=1: self + value * tensor1 * tensor2,
    lambda self, tensor1, tensor2, value=1: value * (tensor1 * tensor2) + self,
    ("tensor1", "tensor2"),
)
triple(
    "addcdiv",
    lambda self, tensor1, tensor2, value=1: self + value * tensor1 / tensor2,
    lambda self, tensor1, tensor2, value=1: value * (tensor1 / tensor2) + self,
    ("tensor1", "tensor2"),
)


def lerp_cases(weight):
    def cases(draw):
        for n in (1, 7, 16, 33, 67):
            yield Case(f"n{n}", args={"self": draw.normal(n), "end": draw.normal(n), "weight": weight(draw, n)})
        ends = {"self": numpy.array([1e8, -1e30, 3.0]), "end": numpy.array([1.0, 1.0, 3.0])}
        one = numpy.ones(3) if isinstance(weight(draw, 3), numpy.ndarray) else 1.0
        yield Case(
            "weight_1",
            args={**{k: numpy.float32(v).astype(float) for k, v in ends.items()}, "weight": one},
            source="tt-metal#53279",
            note="lerp(a, b, 1) is b, exactly",
        )

    return cases


for overload, weight in (("Scalar", lambda draw, n: 0.375), ("Tensor", lambda draw, n: draw.uniform(0, 1, n))):
    table.add(
        f"lerp.{overload}",
        lambda self, end, weight: self + weight * (end - self),
        lambda self, end, weight: self * (1 - weight) + end * weight,
        lerp_cases(weight),
        conditioned(),
        zero_gradient="the weight is 1",
    )
