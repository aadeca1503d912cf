"""Elementwise operators that copy, compare, round or take remainders: exact."""

import math
from fractions import Fraction

import numpy

from golden import Case, Out, exact, ulp
from golden import numpy_ad as np
from golden.table import SPECIAL, Table, every_pair

table = Table()
operators = table.operators
FLAT = {"zero_gradient": "constant between its steps"}


def stepwise(x, values):
    """`values`, with a gradient of zero."""
    return values if numpy.asarray(np.value(x)).dtype != object else 0 * x + np.balls(values)


def each(function):
    """A second formula, number by number."""
    return lambda self: numpy.array([function(float(v)) for v in self.flat]).reshape(self.shape)


def kept(function):
    """Infinities, NaN and zeros (with their sign) stay; `function` does the rest, and a zero takes the input's sign."""
    return lambda v: (
        v if not math.isfinite(v) or v == 0 else math.copysign(float(function(v)), v) if function(v) == 0 else float(function(v))
    )


def halves(draw):
    return [
        Case("half_integers", self=numpy.arange(-8, 9) + 0.5),
        Case("beyond_2_23", self=numpy.array([8388607.5, 8388608.0, -8388609.0, 4194303.75])),
    ]


for name, fold, exactly in (
    ("floor", numpy.floor, math.floor),
    ("ceil", numpy.ceil, math.ceil),
    ("trunc", numpy.trunc, math.trunc),
    ("round", numpy.rint, round),
):
    table.step(name, lambda self, f=fold: stepwise(self, f(np.floats(self))), each(kept(exactly)), extra=halves, **FLAT)
table.step(
    "frac",
    lambda self: (
        self - np.value(numpy.trunc(np.floats(self)))
        if numpy.asarray(np.value(self)).dtype == object
        else self - numpy.where(numpy.isinf(self), numpy.nan, numpy.trunc(self))
    ),
    each(lambda v: math.modf(v)[0] + 0.0 if math.isfinite(v) else math.nan),
)
table.step("neg", lambda self: -self, each(lambda v: -v))
table.step("positive", lambda self: self, each(lambda v: v))


def kink(draw):
    return [
        Case(
            "kink",
            self=numpy.array([0.0, -0.0, 1.5, -2.0, 2.0**-149] * 4),
            smooth=False,
            source="pytorch#184572",
            note="the gradient at 0 is 0",
        )
    ]


table.step("abs", lambda self: np.absolute(self), each(math.fabs), extra=kink)
for name in ("sign", "sgn"):
    table.step(
        name,
        lambda self: stepwise(self, numpy.where(numpy.isnan(np.floats(self)), NAN_SIGN, numpy.sign(np.floats(self)))),
        each(lambda v: float((v > 0) - (v < 0))),
        **FLAT,
    )
NAN_SIGN = 0.0  # ATen: the sign of NaN is 0, by (x > 0) - (x < 0)
# relu(-0) is a zero of either sign.
table.step(
    "relu",
    lambda self: Out(
        np.where(~(np.floats(self) <= 0), self, 0 * np.value(self) if numpy.asarray(np.value(self)).dtype == object else 0.0),
        signed_zero=False,
    ),
    each(lambda v: v if v > 0 or v != v else 0.0),
    extra=kink,
)
for name, test in (
    ("isnan", lambda v: v != v),
    ("isinf", lambda v: math.isinf(v)),
    ("isfinite", math.isfinite),
    ("isposinf", lambda v: v == math.inf),
    ("isneginf", lambda v: v == -math.inf),
    ("signbit", lambda v: math.copysign(1, v) < 0),
    ("logical_not", lambda v: v == 0),
):
    numpys = {"isposinf": lambda x: x == numpy.inf, "isneginf": lambda x: x == -numpy.inf}.get(name, getattr(numpy, name))
    table.step(name, lambda self, f=numpys: f(self), each(test), differentiable=())


def clamp(self, min=None, max=None):
    v, out = np.floats(self), self
    for limit, beyond in ((min, lambda v, m: v < m), (max, lambda v, m: v > m)):
        if limit is not None:
            out = np.where(
                beyond(np.floats(out), limit),
                limit + 0 * (np.value(self) if numpy.asarray(np.value(self)).dtype == object else numpy.zeros(v.shape)),
                out,
            )
    return out


def clamp_cases(draw):
    for label, limits in (
        ("both", {"min": -1.5, "max": 2.0}),
        ("min", {"min": 0.25}),
        ("max", {"max": 0.25}),
        ("crossed", {"min": 2.0, "max": -1.0}),
    ):
        for n in (7, 17, 33):
            yield Case(f"{label}_n{n}", self=draw.normal(n) + 2.0**-9, **limits, smooth=label != "crossed")
        yield Case(f"{label}_special", self=SPECIAL, **limits, special=True, note="NaN stays NaN")


def clamp_second(self, min=None, max=None):
    return numpy.array([v if v != v else builtin(v, min, max) for v in self.flat]).reshape(self.shape)


def builtin(v, low, high):
    v = v if low is None or v >= low else low
    return v if high is None or v <= high else high


table.add("clamp", clamp, clamp_second, clamp_cases, exact(), plain=True, zero_gradient="every element is held")
table.add(
    "clamp_min",
    lambda self, min: clamp(self, min),
    lambda self, min: clamp_second(self, min),
    lambda draw: (
        [Case(f"n{n}", self=draw.normal(n) + 2.0**-9, min=-0.25) for n in (1, 17, 67)]
        + [Case("special", self=SPECIAL, min=0.5, special=True)]
    ),
    exact(),
    plain=True,
)
table.add(
    "clamp_max",
    lambda self, max: clamp(self, None, max),
    lambda self, max: clamp_second(self, None, max),
    lambda draw: (
        [Case(f"n{n}", self=draw.normal(n) + 2.0**-9, max=0.25) for n in (1, 17, 67)]
        + [Case("special", self=SPECIAL, max=0.5, special=True)]
    ),
    exact(),
    plain=True,
)


def nan_to_num(self, nan=0.0, posinf=None, neginf=None):
    return numpy.where(numpy.isnan(self), nan, numpy.where(self == numpy.inf, posinf, numpy.where(self == -numpy.inf, neginf, self)))


table.add(
    "nan_to_num",
    lambda self, nan, posinf, neginf: nan_to_num(self, nan, posinf, neginf) if numpy.asarray(np.value(self)).dtype != object else self,
    lambda self, nan, posinf, neginf: numpy.nan_to_num(self, nan=nan, posinf=posinf, neginf=neginf),
    lambda draw: [
        Case("special", self=SPECIAL, nan=2.5, posinf=100.0, neginf=-3.0, special=True),
        Case("n33", self=draw.normal(33), nan=0.0, posinf=1.0, neginf=-1.0),
    ],
    exact(),
    plain=True,
)

# Two tensors ----------------------------------------------------------------------------------------------------------

SHIFT = 2.0**-9  # keeps pairs of draws apart: no ties


def pair(schema, reference, second, **options):
    table.pairs(schema, reference, second, exact(), plain=True, **options)


def pick(first):
    """`first`: the share of self, 0 to 1, in the value and the gradient; a share of 1/2 marks a tie of equals."""

    def reference(self, other):
        a, b = numpy.broadcast_arrays(np.floats(self), np.floats(other))
        share = first(a, b)
        if numpy.asarray(np.value(self)).dtype == object:
            return self * share + other * (1 - share)
        return numpy.where(share > 0, a, b)

    return reference


def half(a, b, larger):
    return numpy.where(a == b, 0.5, numpy.where(larger, 1.0, 0.0))


def tie_cases(draw):
    yield Case(
        "ties",
        self=draw.integers(-2, 3, 33) * 1.0,
        other=draw.integers(-2, 3, 33) * 1.0,
        smooth=False,
        note="maximum and minimum share the gradient of a tie, fmax and fmin give it to self",
    )
    yield Case("all_equal", self=numpy.full(17, 1.5), other=numpy.full(17, 1.5), smooth=False)


# A zero of either sign where +0 meets -0; derivatives.yaml: grad / 2 on a tie of maximum and minimum, all of it to self for fmax and fmin.
CHOICES = {
    "maximum": (lambda a, b: half(a, b, numpy.isnan(a) | (a > b)), numpy.maximum),
    "minimum": (lambda a, b: half(a, b, numpy.isnan(a) | (a < b)), numpy.minimum),
    "fmax": (lambda a, b: (numpy.isnan(b) | (a >= b)) * 1.0, numpy.fmax),
    "fmin": (lambda a, b: (numpy.isnan(b) | (a <= b)) * 1.0, numpy.fmin),
}
for name, (share, numpys) in CHOICES.items():
    pair(
        name,
        pick(share),
        lambda self, other, f=numpys: f(self, other),
        other=(-4.0, 4.0),
        zero_gradient="never chosen",
        extra=tie_cases,
        special=([1.0, 2.0, math.inf, math.nan, 1.0, math.nan, -math.inf] * 5, [2.0, 1.0, 1.0, 1.0, math.nan, math.nan, math.inf] * 5),
        note="NaN wins in maximum and minimum, loses in fmax and fmin",
    )
for name in ("eq", "ne", "lt", "le", "gt", "ge"):
    operation = {
        "eq": numpy.equal,
        "ne": numpy.not_equal,
        "lt": numpy.less,
        "le": numpy.less_equal,
        "gt": numpy.greater,
        "ge": numpy.greater_equal,
    }[name]
    test = {
        "eq": lambda a, b: a == b,
        "ne": lambda a, b: a != b,
        "lt": lambda a, b: a < b,
        "le": lambda a, b: a <= b,
        "gt": lambda a, b: a > b,
        "ge": lambda a, b: a >= b,
    }[name]
    pair(
        f"{name}.Tensor",
        lambda self, other, f=operation: f(self, other),
        lambda self, other, t=test: numpy.array(
            [t(a, b) for a, b in zip(*(v.flat for v in numpy.broadcast_arrays(self, other)), strict=True)]
        ).reshape(numpy.broadcast_shapes(self.shape, other.shape)),
        differentiable=(),
    )
for name in ("logical_and", "logical_or", "logical_xor"):
    test = {"logical_and": lambda a, b: a and b, "logical_or": lambda a, b: a or b, "logical_xor": lambda a, b: a != b}[name]
    pair(
        name,
        lambda self, other, n=name: getattr(numpy, n)(self, other),
        lambda self, other, t=test: numpy.array(
            [t(a != 0, b != 0) for a, b in zip(*(v.flat for v in numpy.broadcast_arrays(self, other)), strict=True)]
        ).reshape(numpy.broadcast_shapes(self.shape, other.shape)),
        differentiable=(),
    )
pair(
    "copysign.Tensor",
    lambda self, other: numpy.copysign(self, other),
    lambda self, other: numpy.where(numpy.signbit(other), -numpy.abs(self), numpy.abs(self)),
    differentiable=(),
)
pair(
    "heaviside",
    lambda self, other: numpy.where(numpy.isnan(self), HEAVISIDE_NAN, numpy.heaviside(self, other)),
    lambda self, other: numpy.where(self == 0, other, (self > 0) * 1.0),
    names=("self", "values"),
    differentiable=(),
)
HEAVISIDE_NAN = 0.0  # ATen: (x == 0) ? value : x > 0, which is 0 for NaN
table.add(
    "where.self",
    lambda condition, self, other: np.where(condition, self, other),
    lambda condition, self, other: numpy.array(
        [a if c else b for c, a, b in zip(condition.flat, self.flat, other.flat, strict=True)]
    ).reshape(self.shape),
    lambda draw: (
        [Case(f"n{n}", condition=numpy.arange(n) % 3 == 0, self=draw.normal(n), other=draw.normal(n)) for n in (1, 7, 16, 33, 67)]
        + [Case("special", condition=numpy.arange(SPECIAL.size) % 2 == 0, self=SPECIAL, other=SPECIAL[::-1].copy(), special=True)]
    ),
    exact(),
    plain=True,
    zero_gradient="never chosen",
)

# Remainders and rounded quotients: exact rationals --------------------------------------------------------------------


def rational(function):
    """`function` of two Fractions where both are finite and the second is not 0; C's rules elsewhere."""

    def reference(self, other):
        a, b = numpy.broadcast_arrays(np.floats(self), np.floats(other))
        out = numpy.array([function(float(x), float(y)) for x, y in zip(a.flat, b.flat, strict=True)]).reshape(a.shape)
        if object not in (numpy.asarray(np.value(self)).dtype, numpy.asarray(np.value(other)).dtype):
            return out
        quotient = numpy.array(
            [
                float((math.trunc if function is fmod else math.floor)(Fraction(x) / Fraction(y)))
                for x, y in zip(a.ravel().tolist(), b.ravel().tolist(), strict=True)
            ]
        ).reshape(a.shape)
        return self - other * np.balls(quotient)

    return reference


def fmod(x, y):
    if math.isnan(x) or math.isnan(y) or math.isinf(x) or y == 0:
        return math.nan
    if math.isinf(y):
        return x
    rest = abs(Fraction(x)) % abs(Fraction(y))
    return math.copysign(float(rest), x)


def remainder(x, y):
    """The sign of the divisor: ATen adds it where C's remainder has the other sign."""
    rest = fmod(x, y)
    if rest == 0 or math.isnan(rest) or (rest < 0) == (y < 0):
        return rest
    return float(Fraction(rest) + Fraction(y)) if math.isfinite(y) else y


PAIRS = every_pair((0.0, -0.0, 1.0, -1.0, 2.5, -3.0, math.inf, -math.inf, math.nan))
apart = {"first": (-100.0, 100.0), "other": (0.5, 4.0), "special": PAIRS}


def small(draw):
    return [
        Case(
            "quotient_overflows",
            self=numpy.full(67, 8.0),
            other=numpy.full(67, float(numpy.float32(2e-38))),
            backward=False,
            source="pytorch#78855",
            note="a / b overflows, the remainder does not",
        ),
        Case(
            "large_quotients",
            self=numpy.array([1e9, float(numpy.float32(1e10)), 65504.0, float(numpy.float32(3.4e38))] * 9),
            other=numpy.array([float(numpy.float32(v)) for v in (math.pi, 1e-20, 6e-8, 1.4e-45)] * 9),
            backward=False,
            source="pytorch#37743",
        ),
    ]


def remainder_second(self, other):
    """NumPy's, with ATen's sign of zero (the dividend's) and its infinite divisors."""
    out = numpy.mod(self, other)
    out = numpy.where(numpy.isinf(other) & numpy.isfinite(self) & (self != 0) & (numpy.signbit(self) != numpy.signbit(other)), other, out)
    return numpy.where(out == 0, numpy.copysign(0.0, self), out)


table.pairs(
    "fmod.Tensor", rational(fmod), lambda self, other: numpy.fmod(self, other), exact("C's fmod is exact"), plain=True, extra=small, **apart
)
table.pairs(
    "remainder.Tensor",
    rational(remainder),
    remainder_second,
    ulp(1, 1, "C's fmod is exact; the divisor may be added, one rounding"),
    plain=True,
    extra=small,
    **apart,
)


def floor_quotient(x, y):
    """floor(x / y) of the exact quotient, rounded once; x / y where that is no finite number."""
    if y == 0 or not (math.isfinite(x) and math.isfinite(y)):
        if y != 0:
            return x // y  # Python's rule is NumPy's: -2.5 // inf is -1
        return math.nan if x == 0 or x != x else math.copysign(math.inf, x) * math.copysign(1, y)
    exactly = math.floor(Fraction(x) / Fraction(y))
    return math.copysign(0.0, x * y) if exactly == 0 else float(exactly)


def trunc_quotient(x, y):
    with numpy.errstate(all="ignore"):
        return float(numpy.trunc(numpy.float64(x) / numpy.float64(y)))


def modes(draw):
    for mode, _ in (("floor", 0), ("trunc", 0)):
        for n in (1, 7, 16, 33, 67):
            yield Case(
                f"{mode}_n{n}",
                self=draw.normal(n),
                other=draw.uniform(0.125, 2, n),
                rounding_mode=mode,
                trivial="one quotient may round to 0" if n == 1 else None,
            )
        a, b = PAIRS
        keep = ~(numpy.isinf(b) | numpy.isinf(a) | numpy.isnan(a) | numpy.isnan(b)) if mode == "floor" else numpy.ones(a.shape, dtype=bool)
        yield Case(f"{mode}_special", self=a[keep], other=b[keep], rounding_mode=mode, special=True, source="pytorch#56814")
    yield Case(
        "floor_infinite",
        self=numpy.array([-2.5, 2.5, math.inf, -math.inf, 0.0]),
        other=numpy.array([math.inf, math.inf, 1.0, 2.0, -math.inf]),
        rounding_mode="floor",
        special=True,
        source="pytorch#170178",
        note="NumPy's rule: floor(-2.5 / inf) is -1, floor(inf / 1) is NaN",
    )
    yield Case(
        "quotient_overflows",
        self=numpy.full(67, 3e38).astype(numpy.float32).astype(float),
        other=numpy.full(67, 0.125),
        rounding_mode="trunc",
        backward=False,
    )
    yield Case(
        "nearly_exact",
        self=numpy.array([10.0, 1.0, 6.0]),
        other=numpy.array([float(numpy.float32(v)) for v in (0.1, 0.1, 0.3)]),
        rounding_mode="floor",
        source="pytorch#50280",
    )


def quotient(self, other, rounding_mode):
    function = floor_quotient if rounding_mode == "floor" else trunc_quotient
    a, b = numpy.broadcast_arrays(np.floats(self), np.floats(other))
    out = numpy.array([function(float(x), float(y)) for x, y in zip(a.flat, b.flat, strict=True)]).reshape(a.shape)
    return (
        out
        if object not in (numpy.asarray(np.value(self)).dtype, numpy.asarray(np.value(other)).dtype)
        else 0 * self + 0 * other + np.balls(out)
    )


table.add(
    "div.Tensor_mode",
    quotient,
    lambda self, other, rounding_mode: numpy.floor_divide(self, other) if rounding_mode == "floor" else numpy.trunc(self / other),
    modes,
    exact(),
    plain=True,
    zero_gradient="constant between its steps",
)
table.add(
    "floor_divide",
    lambda self, other: quotient(self, other, "floor"),
    lambda self, other: numpy.floor_divide(self, other),
    lambda draw: [
        Case(c.name, **{k: v for k, v in c.args.items() if k != "rounding_mode"}, special=c.special, trivial=c.fields.get("trivial"))
        for c in modes(draw)
        if "trunc" not in c.name
    ],
    exact(),
    plain=True,
    differentiable=(),
)


table.add(
    "nextafter",
    lambda self, other: numpy.nextafter(self, other),
    lambda self, other: numpy.array([math.nextafter(a, b) for a, b in zip(self, other, strict=True)]),
    lambda draw: (
        [Case(f"n{n}", self=draw.normal(n), other=draw.normal(n) + 9, dtypes=("float64",)) for n in (1, 17, 67)]
        + [Case("special", self=PAIRS[0], other=PAIRS[1], special=True, dtypes=("float64",))]
    ),
    exact(),
    plain=True,
    differentiable=(),
)
