"""Overloads with a Python number, and elementwise operators of more than one output or of another dtype."""

import math

import numpy

from golden import Case, Out, conditioned, exact, ulp
from golden import numpy_ad as np
from golden.ops.elementwise import steps
from golden.table import SPECIAL, Table, every_pair, published

table = Table()
operators = table.operators
ROUNDED = ulp(1, 1, "IEEE 754: correctly rounded, 1/2 ulp")
PLAIN = (0.0, -0.0, 1.0, -1.0, 2.5, -3.0, 2.0**-149, math.inf, -math.inf, math.nan)
BOOL = {"differentiable": ()}


def is_balls(x):
    return numpy.asarray(np.value(x)).dtype == object


def given(draw, n, low, high):
    return draw.uniform(low, high, n) if n < 500 else draw.uniform(low, high, n, stored=False)


def with_scalar(
    schema,
    reference,
    second,
    scalars,
    tolerance,
    *,
    low=-4.0,
    high=4.0,
    tensor="self",
    scalar="other",
    special=PLAIN,
    extra=None,
    note=None,
    trivial=None,
    **options,
):
    """`reference` and `second` take (self, other) by position, one of them a number."""
    names = ("self", tensor if tensor != "self" else scalar)

    def by_position(function):
        return lambda **a: function(a.pop(names[0]), a.pop(names[1]), **a)

    def cases(draw):
        for k, value in enumerate(scalars):
            for n in (1, 7, 17, 33, 67):
                yield Case(
                    f"v{k}_n{n}",
                    args={tensor: given(draw, n, low, high), scalar: value},
                    trivial=trivial or ("one element may become 0" if n == 1 and options.get("plain") else None),
                )
            if special:
                yield Case(f"v{k}_special", args={tensor: numpy.array(special), scalar: value}, special=True, note=note, trivial=trivial)
        yield Case("n521", args={tensor: given(draw, 521, low, high), scalar: scalars[0]}, backward=False)
        yield from extra(draw) if extra else ()

    return table.add(schema, by_position(reference), by_position(second), cases, tolerance, **options)


# Arithmetic ---------------------------------------------------------------------------------------------------------------------------

ADDEND = (0.375, -3)
with_scalar(
    "add.Scalar",
    lambda a, b, alpha=1: a + alpha * b,
    lambda a, b, alpha=1: b * alpha + a,
    ADDEND,
    ROUNDED,
    extra=lambda draw: [Case("alpha", self=draw.normal(33), other=1.5, alpha=-0.5)],
)
with_scalar(
    "sub.Scalar",
    lambda a, b, alpha=1: a - alpha * b,
    lambda a, b, alpha=1: -(alpha * b) + a,
    ADDEND,
    ROUNDED,
    extra=lambda draw: [Case("alpha", self=draw.normal(33), other=1.5, alpha=-0.5)],
)
with_scalar(
    "rsub.Scalar",
    lambda a, b, alpha=1: b - alpha * a,
    lambda a, b, alpha=1: b + -alpha * a,
    ADDEND,
    ROUNDED,
    extra=lambda draw: [Case("alpha", self=draw.normal(33), other=1.5, alpha=-0.5)],
)
with_scalar("mul.Scalar", lambda a, b: a * b, lambda a, b: b * a, (0.375, -3, 1e10), ROUNDED)


# Remainders, quotients, comparisons: as in steps.py, with a number ---------------------------------------------------------------------


def scalar_first(function):
    """`function` of two arrays on an array and a number."""
    return lambda a, b, **rest: function(a, b if is_balls(b) or numpy.ndim(b) else numpy.full(a.shape, float(b)), **rest)


def tensor_second(function):
    return lambda a, b: function(numpy.full(b.shape, float(a)), b)


OVERFLOWS = "a / b overflows, the remainder does not"
tiny = float(numpy.float32(2e-38))


def huge(draw):
    return [Case("quotient_overflows", self=numpy.full(67, 8.0), other=tiny, backward=False, source="pytorch#78855", note=OVERFLOWS)]


with_scalar(
    "fmod.Scalar",
    scalar_first(steps.rational(steps.fmod)),
    scalar_first(numpy.fmod),
    (0.75, -2),
    exact("C's fmod is exact"),
    low=-100.0,
    high=100.0,
    plain=True,
    extra=huge,
)
with_scalar(
    "remainder.Scalar",
    scalar_first(steps.rational(steps.remainder)),
    scalar_first(steps.remainder_second),
    (0.75, -2),
    ulp(1, 1, "C's fmod is exact; the divisor may be added, one rounding"),
    low=-100.0,
    high=100.0,
    plain=True,
    extra=huge,
)
with_scalar(
    "remainder.Scalar_Tensor",
    tensor_second(steps.rational(steps.remainder)),
    tensor_second(steps.remainder_second),
    (7.5, -100.0),
    ulp(1, 1, "C's fmod is exact; the divisor may be added, one rounding"),
    low=0.5,
    high=4.0,
    tensor="other",
    scalar="self",
    special=None,
    plain=True,
    differentiable=(),
)
FINITE = (0.0, -0.0, 1.0, -1.0, 2.5, -3.0, math.nan)
with_scalar(
    "floor_divide.Scalar",
    scalar_first(lambda a, b: steps.quotient(a, b, "floor")),
    lambda a, b: numpy.floor_divide(a, b),
    (0.75, -2),
    exact(),
    low=-9.0,
    high=9.0,
    special=FINITE,
    plain=True,
    differentiable=(),
)


def by_mode(draw):
    for mode in ("floor", "trunc"):
        for n in (7, 17, 67):
            yield Case(f"{mode}_n{n}", self=draw.uniform(-9, 9, n), other=0.75, rounding_mode=mode)
        yield Case(f"{mode}_special", self=numpy.array(FINITE), other=-2.0, rounding_mode=mode, special=True)
    yield Case(
        "nearly_exact",
        self=numpy.array([10.0, 1.0, 6.0]),
        other=float(numpy.float32(0.1)),
        rounding_mode="floor",
        source="pytorch#50280",
        note="the exact quotient lies below the integer: floor(10 / 0.1) is 99",
    )
    yield Case(
        "by_fifty",
        self=numpy.array([49.5, 100.0, 149.0]),
        other=50.0,
        rounding_mode="floor",
        source="pytorch#186618",
        note="x * (1 / 50) may flip the floor",
    )


table.add(
    "div.Scalar_mode",
    lambda self, other, rounding_mode: scalar_first(steps.quotient)(self, other, rounding_mode=rounding_mode),
    lambda self, other, rounding_mode: numpy.floor_divide(self, other) if rounding_mode == "floor" else numpy.trunc(self / other),
    by_mode,
    exact(),
    plain=True,
    zero_gradient="constant between its steps",
)
for name, test in (
    ("eq", lambda a, b: a == b),
    ("ne", lambda a, b: a != b),
    ("lt", lambda a, b: a < b),
    ("le", lambda a, b: a <= b),
    ("gt", lambda a, b: a > b),
    ("ge", lambda a, b: a >= b),
):
    numpys = {
        "eq": numpy.equal,
        "ne": numpy.not_equal,
        "lt": numpy.less,
        "le": numpy.less_equal,
        "gt": numpy.greater,
        "ge": numpy.greater_equal,
    }[name]
    with_scalar(
        f"{name}.Scalar",
        lambda a, b, f=numpys: f(a, b),
        lambda a, b, t=test: numpy.array([t(v, b) for v in a.tolist()], dtype=bool),
        (1.0, -2.5, 0),
        exact(),
        plain=True,
        trivial="all may be equal",
        extra=lambda draw: [Case("ties", self=draw.integers(-2, 3, 33) * 1.0, other=1)],
        **BOOL,
    )
with_scalar(
    "copysign.Scalar",
    lambda a, b: np.absolute(a) * math.copysign(1, b) if is_balls(a) else numpy.copysign(a, b),
    lambda a, b: numpy.where(math.copysign(1, b) < 0, -numpy.abs(a), numpy.abs(a)),
    (2.0, -0.0),
    exact(),
    plain=True,
    low=0.25,
)
with_scalar(
    "xlogy.Scalar_Other",
    lambda a, b: a * np.log(np.balls(float(b))[()]),
    lambda a, b: numpy.where(a == 0, 0.0, a * math.log(b)),
    (2.0, 0.375, 3),
    published("log", 1),
    special=(0.0, 1.0, math.nan, math.inf),
    extra=lambda draw: [
        Case("self_zero", self=numpy.zeros(5), other=2, source="pytorch#80770", trivial="0 log(y) is 0", note="d/dself is log 2, not 0")
    ],
)
with_scalar(
    "xlogy.Scalar_Self",
    lambda a, b: a * np.log(b),
    lambda a, b: a * numpy.log(b),
    (2.0, -3),
    published("log", 1),
    low=0.125,
    high=9.0,
    tensor="other",
    scalar="self",
    special=(0.0, 1.0, math.inf, math.nan),
)

# Limits given as tensors ---------------------------------------------------------------------------------------------------------------


def limit(self, low, high):
    out, v = self, np.floats(self)
    for bound, beyond in ((low, lambda v, m: v < m), (high, lambda v, m: v > m)):
        if bound is not None:
            m = np.floats(bound)
            nan = numpy.isnan(m) if not is_balls(bound) else numpy.zeros(m.shape, dtype=bool)
            out = np.where(
                numpy.broadcast_to((beyond(np.floats(out), m) | nan) & ~numpy.isnan(v), numpy.broadcast_shapes(v.shape, m.shape)),
                bound + 0 * np.value(self) if is_balls(self) else bound,
                out + (0 * np.value(bound) if is_balls(bound) else 0),
            )
    return out


def limit_second(self, low, high):
    out = self if low is None else numpy.maximum(self, low)
    return out if high is None else numpy.minimum(out, high)


def limits(draw, names):
    for n in (1, 7, 16, 17, 33, 67):
        tensors = {"min": draw.uniform(-2, 0, n), "max": draw.uniform(0.25, 2, n)}
        yield Case(f"n{n}", args={"self": draw.uniform(-4, 4, n) + 2.0**-12, **{k: tensors[k] for k in names}})
    if names == ("min", "max"):
        yield Case("only_min", self=draw.normal(17), min=draw.normal(17) + 2.0**-12)
        yield Case("only_max", self=draw.normal(17), max=draw.normal(17) + 2.0**-12)
        yield Case(
            "crossed",
            self=draw.normal(17),
            min=numpy.full(17, 1.0),
            max=numpy.full(17, -1.0),
            smooth=False,
            backward=False,
            note="min > max gives max",
        )
    a, b = every_pair((0.0, 1.0, -1.0, 2.5, math.inf, -math.inf, math.nan))
    yield Case("special", args={"self": a, **{k: b for k in names}}, special=True, note="NaN wins over every limit")


for schema, names in (("clamp.Tensor", ("min", "max")), ("clamp_min.Tensor", ("min",)), ("clamp_max.Tensor", ("max",))):
    table.add(
        schema,
        lambda self, min=None, max=None: Out(limit(self, min, max), signed_zero=False),
        lambda self, min=None, max=None: limit_second(self, min, max),
        lambda draw, names=names: limits(draw, names),
        exact(),
        plain=True,
        zero_gradient="never chosen",
        scale="jacobian",
    )

# Selections and constants --------------------------------------------------------------------------------------------------------------


def chosen(condition, a, b):
    shape = condition.shape
    if is_balls(a) or is_balls(b):
        return np.where(condition, a if is_balls(a) else numpy.full(shape, float(a)), b if is_balls(b) else numpy.full(shape, float(b)))
    return numpy.where(condition, a, b)


for overload, tensors in (("ScalarOther", ("self",)), ("ScalarSelf", ("other",))):

    def where_cases(draw, tensors=tensors):
        for n in (1, 7, 17, 67):
            yield Case(
                f"n{n}",
                condition=numpy.arange(n) % 3 == 0,
                **{"self": draw.normal(n) if "self" in tensors else 1.5, "other": draw.normal(n) if "other" in tensors else -0.25},
            )
        yield Case(
            "special",
            condition=numpy.arange(SPECIAL.size) % 2 == 0,
            **{"self": SPECIAL if "self" in tensors else 1.5, "other": SPECIAL if "other" in tensors else -0.25},
            special=True,
        )

    table.add(
        f"where.{overload}",
        lambda condition, self, other: chosen(condition, self, other),
        lambda condition, self, other: numpy.select([condition], [self * numpy.ones(condition.shape)], other * numpy.ones(condition.shape)),
        where_cases,
        exact(),
        plain=True,
        zero_gradient="never chosen",
    )
for overload, value in (("Scalar", -0.375), ("Tensor", numpy.array(2.5))):

    def fill_cases(draw, value=value):
        for shape in ((1,), (7,), (17,), (3, 5)):
            yield Case(f"s{'x'.join(map(str, shape))}", self=draw.normal(*shape), value=value)

    table.add(
        f"fill.{overload}",
        lambda self, value: numpy.full(self.shape, float(value)),
        lambda self, value: numpy.zeros(self.shape) + value,
        fill_cases,
        exact(),
        plain=True,
        differentiable=(),
    )

# Rounding to decimals ------------------------------------------------------------------------------------------------------------------


def rounded(self, decimals):
    """ATen's documented rule in the dtype under test: round(x · 10^d) / 10^d, or round(x / 10^-d) · 10^-d."""
    ten = 10.0 ** abs(decimals)
    return numpy.rint(self * ten) / ten if decimals >= 0 else numpy.rint(self / ten) * ten


def rounded_second(self, decimals):
    return numpy.array([v if not math.isfinite(v) else math.copysign(float(round(v, decimals)), v) for v in self.tolist()])


def decimal_cases(draw):
    for d in (0, 1, 2, 3, -1, -2):
        for n in (1, 17, 67):
            v = draw.integers(-2000, 2000, n) / 8 + 1 / 64  # never half way between two results, at any d
            yield Case(
                f"d{d}_n{n}".replace("-", "m"),
                self=v * (1 if d >= 0 else 8),
                decimals=d,
                trivial="one element may become 0" if n == 1 else None,
                backward=False,
            )
        yield Case(
            f"d{d}_special".replace("-", "m"),
            self=numpy.array([0.0, -0.0, math.inf, -math.inf, math.nan, 1.0, -1.0, 3e4]),
            decimals=d,
            special=True,
        )
    yield Case(
        "hundreds_to_even", self=numpy.array([1250.0, 1350.0, -1250.0, 50.0, 150.0]), decimals=-2, backward=False, note="half goes to even"
    )


table.add(
    "round.decimals",
    rounded,
    rounded_second,
    decimal_cases,
    ulp(1, 1, "x 10^d is rounded, then the quotient: 1/2 ulp of the result"),
    plain=True,
    differentiable=(),
)

# Exponents, powers in float64 ----------------------------------------------------------------------------------------------------------


def frexp_second(self):
    both = [math.frexp(v) for v in self.tolist()]
    return numpy.array([m for m, _ in both]), numpy.array([e for _, e in both])


def frexp(self):
    mantissa, exponent = numpy.frexp(self)
    return Out(mantissa), Out(exponent.astype(numpy.int64), dtype="int32")


table.add(
    "frexp.Tensor",
    frexp,
    frexp_second,
    lambda draw: (
        [Case(f"n{n}", self=draw.normal(n) + 2.0**-9) for n in (1, 7, 17, 67)]
        + [
            Case("wide", self=draw.uniform(1, 2, 33) * 2.0 ** draw.integers(-126, 127, 33)),
            Case("subnormal", self=numpy.array([2.0**-149, 3 * 2.0**-149, 2.0**-127]), backward=False),
            Case("special", self=numpy.array([0.0, -0.0, 1.0, -1.0, 0.5]), special=True),
        ]
    ),
    exact(),
    plain=True,
    differentiable=(),
)
table.pairs(
    "ldexp.Tensor",
    lambda self, other: self * np.exp2(other),
    lambda self, other: numpy.where(numpy.isnan(self * other), math.nan, numpy.ldexp(self, numpy.nan_to_num(other).astype(int))),
    published("exp2", 1),
    other=(-8.0, 8.0),
    special=([], []),
    differentiable=(),
)
operators[-1].case_function = lambda draw: (
    [Case(f"n{n}", self=draw.normal(n), other=draw.integers(-30, 31, n)) for n in (1, 7, 16, 33, 67, 521)]
    + [
        Case("ends", self=numpy.array([1.0, 1.5, -1.25]), other=numpy.array([-126, 127, -149 + 8]), note="2^-141 is subnormal"),
        Case("s3x4", self=draw.normal(3, 4), other=draw.integers(-9, 9, 3, 4)),
    ]
)
operators[-1].reference(lambda self, other: self * 2.0 ** np.balls(other) if not is_balls(other) else self * np.exp2(other))
operators[-1].second(lambda self, other: numpy.ldexp(self, other))


def power_cases(names):
    def cases(draw):
        for n in (1, 7, 17, 33, 67):
            x, y = draw.uniform(0.125, 8, n), draw.uniform(-3, 3, n)
            values = {"self": x if "self" in names else 2.5, "exponent": y if "exponent" in names else -1.5}
            yield Case(f"n{n}", args=values, dtypes=("float64",))

    return cases


for overload, names in (("Tensor_Tensor", ("self", "exponent")), ("Tensor_Scalar", ("self",)), ("Scalar", ("exponent",))):
    table.add(
        f"float_power.{overload}",
        lambda self, exponent: np.exp(exponent * np.log(self if is_balls(self) else np.balls(float(self))[()])),
        lambda self, exponent: numpy.power(self, exponent),
        power_cases(names),
        published("pow"),
    )

# Predicates and phases -----------------------------------------------------------------------------------------------------------------


def close(self, other, rtol=1e-5, atol=1e-8, equal_nan=False):
    return numpy.isclose(self, other, rtol=rtol, atol=atol, equal_nan=equal_nan)


def close_second(self, other, rtol=1e-5, atol=1e-8, equal_nan=False):
    def one(a, b):
        if a != a or b != b:
            return equal_nan and a != a and b != b
        return a == b or (math.isfinite(a) and math.isfinite(b) and abs(a - b) <= atol + rtol * abs(b))

    return numpy.array([one(a, b) for a, b in zip(self.tolist(), other.tolist(), strict=True)])


def close_cases(draw):
    for n in (1, 7, 17, 67):
        x = draw.uniform(1, 2, n)
        yield Case(
            f"n{n}",
            self=x,
            other=x + numpy.where(numpy.arange(n) % 2, 2.0**-20, 2.0**-10),
            rtol=2.0**-14,
            atol=0.0,
            trivial="one element" if n == 1 else None,
        )
    for equal_nan in (False, True):
        a, b = every_pair((0.0, 1.0, -1.0, math.inf, -math.inf, math.nan))
        yield Case(f"special_{str(equal_nan).lower()}", self=a, other=b, equal_nan=equal_nan, special=True)


table.add("isclose", close, close_second, close_cases, exact(), plain=True, differentiable=())
table.add(
    "isreal",
    lambda self: numpy.ones(self.shape, dtype=bool),
    lambda self: numpy.isreal(self),
    lambda draw: [Case("special", self=SPECIAL, special=True)],
    exact(),
    plain=True,
    differentiable=(),
)


def angle_second(self):
    return numpy.array([v if v != v else math.pi if v < 0 else 0.0 for v in self.tolist()])


table.add(
    "angle",
    lambda self: np.where(np.floats(self) < 0, np.pi(), 0 * self),
    angle_second,
    lambda draw: (
        [Case(f"n{n}", self=draw.normal(n) - 1, backward=False) for n in (7, 17, 67)]
        + [Case("special", self=numpy.array([1.0, -1.0, math.inf, -math.inf, math.nan]), special=True)]
    ),
    ulp(1, 1, "pi or 0"),
    differentiable=(),
)


def polar_parts(abs, angle):
    return Out(np.stack([abs * np.cos(angle), abs * np.sin(angle)], axis=-1), complex=True)


table.add(
    "polar",
    polar_parts,
    lambda abs, angle: numpy.stack([(abs * numpy.exp(1j * angle)).real, (abs * numpy.exp(1j * angle)).imag], axis=-1),
    lambda draw: [Case(f"n{n}", args={"abs": draw.uniform(0.25, 4, n), "angle": draw.uniform(-9, 9, n)}) for n in (1, 7, 17, 33)],
    conditioned(),
    scale="jacobian",
    modes=("layouts", "threads"),
)
table.add(
    "complex",
    lambda real, imag: Out(np.stack([real, imag], axis=-1), complex=True),
    lambda real, imag: numpy.stack([real, imag], axis=-1),
    lambda draw: [Case(f"n{n}", real=draw.normal(n), imag=draw.normal(n)) for n in (1, 7, 17, 33)],
    conditioned(),
    scale="jacobian",
    modes=("layouts", "threads"),
)
for name in ("conj_physical",):
    table.add(
        name,
        lambda self: 1 * self,
        lambda self: self * 1.0,
        lambda draw: [Case(f"n{n}", self=draw.normal(n)) for n in (1, 17)] + [Case("special", self=SPECIAL, special=True)],
        exact(),
        plain=True,
    )
for name in ("conj", "real"):
    table.add(
        name,
        lambda self: 1 * self,
        lambda self: self.copy(),
        lambda draw: [Case(f"n{n}", self=draw.normal(n)) for n in (1, 17)] + [Case("special", self=SPECIAL, special=True)],
        exact(),
        plain=True,
        modes=("layouts", "threads"),
    )


def truth(value):
    return Out(numpy.array([bool(value)]), shape=())


def equal_cases(draw):
    x = draw.normal(3, 17)
    yield Case("same", self=x, other=x.copy())
    last = x.copy()
    last[-1, -1] += 0.5
    yield Case("last_differs", self=x, other=last, trivial="false is meant")
    yield Case("zeros", self=numpy.array([0.0, -0.0]), other=numpy.array([-0.0, 0.0]), note="+0 equals -0")
    yield Case(
        "nan", self=numpy.array([1.0, math.nan]), other=numpy.array([1.0, math.nan]), trivial="false is meant", note="NaN equals nothing"
    )
    yield Case("shapes", self=numpy.ones((2, 3)), other=numpy.ones((3, 2)), trivial="false is meant")
    yield Case("empty", self=numpy.zeros((0, 3)), other=numpy.zeros((0, 3)))


table.add(
    "equal",
    lambda self, other: truth(numpy.array_equal(self, other)),
    lambda self, other: numpy.array(self.shape == other.shape and all(a == b for a, b in zip(self.flat, other.flat, strict=True))),
    equal_cases,
    exact(),
    plain=True,
    differentiable=(),
    modes=("layouts", "threads"),
)
table.add(
    "allclose",
    lambda self, other, rtol=1e-5, atol=1e-8, equal_nan=False: truth(numpy.all(close(self, other, rtol, atol, equal_nan))),
    lambda self, other, rtol=1e-5, atol=1e-8, equal_nan=False: numpy.array(
        bool(numpy.all(close_second(self.ravel(), other.ravel(), rtol, atol, equal_nan)))
    ),
    lambda draw: [
        Case("near", self=numpy.ones(17), other=numpy.full(17, 1 + 2.0**-18)),
        Case("far", self=numpy.ones(17), other=numpy.full(17, 1 + 2.0**-10), trivial="false is meant"),
        Case("nan", self=numpy.array([math.nan, 1.0]), other=numpy.array([math.nan, 1.0]), trivial="false is meant"),
        Case("equal_nan", self=numpy.array([math.nan, 1.0, math.inf]), other=numpy.array([math.nan, 1.0, math.inf]), equal_nan=True),
        Case("infinities", self=numpy.array([math.inf, 1.0]), other=numpy.array([-math.inf, 1.0]), trivial="false is meant"),
    ],
    exact(),
    plain=True,
    differentiable=(),
    modes=("layouts", "threads"),
)
