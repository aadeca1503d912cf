"""Activation functions. ulp bounds would have to cover the products of the functions inside, so the gauge is conditioned;
tails that vanish are in a case of their own."""

import math

import numpy

from golden import Case, Out, conditioned, exact
from golden import numpy_ad as np
from golden.table import SPECIAL, Table

table = Table()
operators = table.operators
BOUND = conditioned()
ENDS = numpy.array([0.0, -0.0, math.inf, -math.inf, math.nan, 1.0, -1.0, 0.5, -0.5])
NAN_BLOCK = numpy.where(numpy.arange(67) % 3 == 0, math.nan, 1.25)


def smooth(schema, reference, second, attributes=(), low=-6.0, high=6.0, special=ENDS, **options):
    """`attributes`: further sets of arguments, each with a few lengths."""

    def extra(draw):
        for k, given in enumerate(attributes):
            for n in (7, 33):
                yield Case(f"a{k}_n{n}", self=draw.uniform(low, high, n), **given)

    return table.unary(schema, reference, second, (low, high), BOUND, special=special, extra=extra, **options)


def phi(x):
    return (1 + np.erf(x / np.sqrt(np.balls(2.0)))) / 2


def gelu(x, approximate="none"):
    if approximate == "none":
        return x * phi(x)
    return x / 2 * (1 + np.tanh(np.sqrt(2 / np.pi()) * (x + 0.044715 * x**3)))


def gelu_second(x, approximate="none"):
    if approximate == "none":
        return numpy.vectorize(lambda v: v * 0.5 * math.erfc(-v / math.sqrt(2)), otypes=[float])(x)
    return 0.5 * x * (1 + numpy.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))


def add_cases(further):
    """More cases for the last operator."""
    ordinary = operators[-1].case_function
    operators[-1].case_function = lambda draw: [*ordinary(draw), *further(draw)]


def tail_term(factor):
    """Adds 8 u |x| (forward) and 8 u |upstream| (1 + |x|) (backward), as the bound is 16: where 1 + erf or 1 + tanh cancels, ATen's result
    errs by the error of the cancelled sum. oneDNN's erf (Abramowitz and Stegun 7.1.26) errs by 1.5e-7, which is 2.5 u of float32, and half
    a dozen roundings. An activation's tail matters by its absolute error: so a term of the scale, not a defect."""
    operator = operators[-1]

    @operator.scale
    def scale(outputs, self, **_):
        return numpy.abs(outputs[0]) + factor * numpy.abs(self)

    @operator.backward_scale
    def backward_scale(gradients, upstream, self, **_):
        return {"self": numpy.abs(gradients["self"]) + factor * numpy.abs(upstream[0]) * (1 + numpy.abs(self))}


smooth("gelu", gelu, gelu_second, ({"approximate": "tanh"},), special=numpy.array([0.0, -0.0, math.nan, 1.0, -1.0]))
tail_term(0.5)
add_cases(
    lambda draw: [
        Case("infinity", self=numpy.full(17, math.inf), special=True, note="the limit is inf"),
        Case("infinity_tanh", self=numpy.full(17, math.inf), approximate="tanh", special=True, note="the limit is inf"),
        Case("left_tail", self=numpy.array([-3.0, -4.0, -5.0, -6.0, -9.0]), note="1 + erf cancels: an error of u |x| is ATen's by formula"),
        Case("left_tail_tanh", self=numpy.array([-3.0, -4.0, -5.0, -6.0]), approximate="tanh", note="1 + tanh cancels"),
    ]
)


def elu(x, alpha=1.0, scale=1.0, input_scale=1.0):
    return np.where(np.floats(x) > 0, x * scale, alpha * scale * np.expm1(np.where(np.floats(x) > 0, 0, x) * input_scale))


def elu_second(x, alpha=1.0, scale=1.0, input_scale=1.0):
    return numpy.vectorize(lambda v: scale * v if v > 0 else scale * alpha * math.expm1(input_scale * v), otypes=[float])(x)


smooth("elu", elu, elu_second, ({"alpha": 0.125}, {"alpha": 2.0, "scale": 0.5, "input_scale": 1.5}), special=False)
FLAT = numpy.array([-80.0, -40.0, -20.0, -12.0])
add_cases(
    lambda draw: [
        Case("tail", self=FLAT, note="the gradient is exp(x), not 0"),
        Case("minus_infinity", self=numpy.array([-math.inf, 1.0]), special=True),
    ]
)
smooth(
    "celu",
    lambda x, alpha=1.0: np.where(np.floats(x) > 0, x, alpha * np.expm1(np.where(np.floats(x) > 0, 0, x) / alpha)),
    lambda x, alpha=1.0: numpy.maximum(x, 0) + numpy.minimum(0, alpha * numpy.expm1(numpy.minimum(x, 0) / alpha)),
    ({"alpha": 0.5},),
    special=False,
)
add_cases(
    lambda draw: [
        Case("tail", self=FLAT, note="the gradient is exp(x), not 0"),
        Case("minus_infinity", self=numpy.array([-math.inf, 1.0]), special=True),
    ]
)
SCALE, ALPHA = 1.0507009873554804934193349852946, 1.6732632423543772848170429916717
smooth("selu", lambda x: elu(x, ALPHA, SCALE), lambda x: elu_second(x, ALPHA, SCALE), special=False)
add_cases(lambda draw: [Case("tail", self=FLAT, note="the gradient is exp(x), not 0")])
smooth(
    "silu",
    lambda x: x * np.expit(x),
    lambda x: numpy.where(x < 0, x * numpy.exp(numpy.minimum(x, 0)), x) / (1 + numpy.exp(-numpy.abs(x))),
    special=numpy.array([0.0, math.inf, math.nan, 1.0]),
)
add_cases(
    lambda draw: [
        Case(
            "subnormal_tail",
            self=numpy.array([-90.0, -88.75]),
            backward=False,
            dtypes=("float32",),
            source="pytorch#197785",
            note="x exp(x) is a small normal number, not 0",
        ),
        Case(
            "subnormal_tail_64",
            self=numpy.array([-712.0, -710.0]),
            backward=False,
            dtypes=("float64",),
            source="pytorch#197785",
            note="x exp(x) is a small normal number, not 0",
        ),
        Case("tail", self=numpy.array([-80.0, -40.0, -20.0, 20.0, 40.0]), note="exp(x) (1 + x) is no zero"),
    ]
)
smooth(
    "mish",
    lambda x: x * np.tanh(np.softplus(x)),
    lambda x: x * numpy.tanh(numpy.logaddexp(0, x)),
    special=numpy.array([0.0, math.inf, math.nan, 1.0]),
)
# log_sigmoid(inf) is a zero of either sign.
smooth("log_sigmoid", lambda x: Out(-np.log1p(np.exp(-x)), signed_zero=False), lambda x: 0 - numpy.logaddexp(0, -x), special=ENDS)
add_cases(
    lambda draw: [
        Case("far", self=numpy.array([-100.0, -1000.0, 20.0, 40.0]), source="pytorch#20972", note="the gradient at 40 is exp(-40)"),
        Case("subnormal", self=numpy.array([88.0]), backward=False, dtypes=("float32",), source="pytorch#20972"),
    ]
)


def softplus(x, beta=1, threshold=20):
    linear = np.floats(x) * beta > threshold
    return np.where(linear, x, np.log1p(np.exp(np.where(linear, 0, x) * beta)) / beta)


def softplus_second(x, beta=1, threshold=20):
    return numpy.where(x * beta > threshold, x, numpy.logaddexp(0, x * beta) / beta)


smooth("softplus", softplus, softplus_second, ({"beta": 2.0, "threshold": 10.0}, {"beta": 0.5, "threshold": 1.0}), special=ENDS)
add_cases(lambda draw: [Case("tail", self=numpy.array([-80.0, -40.0, -20.0, 19.5, 40.0]), note="exp(x) and its own gradient, not 0")])
smooth(
    "hardsigmoid",
    lambda x: held((x + 3) / 6, np.floats(x) <= -3, np.floats(x) >= 3, 1),
    lambda x: numpy.clip((x + 3) / 6, 0, 1),
    special=ENDS,
    zero_gradient="held",
)
smooth(
    "hardswish",
    lambda x: x * held((x + 3) / 6, np.floats(x) <= -3, np.floats(x) >= 3, 1),
    lambda x: x * numpy.clip((x + 3) / 6, 0, 1),
    special=numpy.array([0.0, math.inf, math.nan, 1.0]),
    zero_gradient="held",
)


def held(x, below, above, top):
    return np.where(below, 0, np.where(above, top, x))


for name, low, high in (("hardtanh", -1.0, 1.0), ("relu6", 0.0, 6.0)):

    def limited(x, min_val=low, max_val=high):
        v = np.floats(x)
        zero = 0 * np.value(x) if numpy.asarray(np.value(x)).dtype == object else numpy.zeros(v.shape)
        return np.where(v < min_val, min_val + zero, np.where(v > max_val, max_val + zero, x))

    def limited_second(x, min_val=low, max_val=high):
        return numpy.array([min_val if v < min_val else max_val if v > max_val else v for v in x.flat]).reshape(x.shape)

    def cases(draw, name=name):
        for n in (1, 7, 16, 17, 33, 67):
            yield Case(f"n{n}", self=draw.uniform(0.25 if n == 1 else -8, 8, n) + 2.0**-12)
        if name == "hardtanh":
            yield Case("wider", self=draw.uniform(-8, 8, 33), min_val=-2.5, max_val=0.5)
        yield Case("special", self=SPECIAL, special=True, note="NaN stays NaN")

    table.add(
        name,
        lambda self, f=limited, **a: Out(f(self, **a), signed_zero=False),
        lambda self, f=limited_second, **a: f(self, **a),
        cases,
        exact(),
        plain=True,
        zero_gradient="held everywhere",
    )


def kept_where(schema, keep, otherwise, attributes, note=None):
    """x where `keep`, else `otherwise(x)`."""

    def reference(self, **a):
        return Out(np.where(keep(np.floats(self), **a), self, otherwise(self, **a)), signed_zero=False)

    def second(self, **a):
        return numpy.array([v if keep(numpy.float64(v), **a) else float(otherwise(numpy.array([v]), **a)[0]) for v in self.flat]).reshape(
            self.shape
        )

    def cases(draw):
        for n in (7, 16, 17, 33, 67):
            yield Case(f"n{n}", self=draw.uniform(-4, 4, n) + 2.0**-12, **attributes)
        yield Case("special", self=SPECIAL, special=True, source="pytorch#138385", note=note, **attributes)
        yield Case(
            "nan_block",
            self=NAN_BLOCK,
            special=True,
            source="pytorch#195075",
            note="equal inputs give equal outputs, in block and in tail",
            **attributes,
        )

    table.add(schema, reference, second, cases, exact(), plain=True, zero_gradient="nothing is kept")


def zeros(x, **_):
    return 0 * np.value(x) if numpy.asarray(np.value(x)).dtype == object else numpy.zeros(x.shape)


kept_where("hardshrink", lambda v, lambd=0.5: ~((v >= -lambd) & (v <= lambd)), zeros, {"lambd": 0.75}, "NaN stays NaN")
kept_where(
    "threshold",
    lambda v, threshold=0.0, value=0.0: ~(v <= threshold),
    lambda x, threshold=0.0, value=0.0: zeros(x) + value,
    {"threshold": 0.5, "value": -2.5},
    "NaN stays NaN",
)


def softshrink(self, lambd=0.5):
    v = np.floats(self)
    return np.where(v > lambd, self - lambd, np.where(v < -lambd, self + lambd, np.where(numpy.isnan(v), self, zeros(self))))


table.add(
    "softshrink",
    lambda self, lambd=0.5: Out(softshrink(self, lambd), signed_zero=False),
    lambda self, lambd=0.5: numpy.array(
        [v - math.copysign(lambd, v) if abs(v) > lambd else v if v != v else 0.0 for v in self.flat]
    ).reshape(self.shape),
    lambda draw: (
        [Case(f"n{n}", self=draw.integers(-64, 65, n) / 16 + 2.0**-7, lambd=0.75) for n in (7, 16, 17, 33, 67)]
        + [
            Case("special", self=ENDS, lambd=0.5, special=True, source="pytorch#138385", note="softshrink(NaN) is NaN"),
            Case("nan_block", self=NAN_BLOCK, lambd=0.5, special=True, source="pytorch#195075"),
        ]
    ),
    exact("exact differences of multiples of 1/128"),
    plain=True,
    zero_gradient="nothing is kept",
)
smooth(
    "leaky_relu",
    lambda x, negative_slope=0.01: np.where(np.floats(x) > 0, x, x * negative_slope),
    lambda x, negative_slope=0.01: numpy.maximum(x, 0) + negative_slope * numpy.minimum(x, 0),
    ({"negative_slope": 0.25}, {"negative_slope": -0.5}),
    special=False,
)
table.add(
    "prelu",
    lambda self, weight: np.where(
        np.floats(self) > 0, self, self * np.reshape(weight, (-1, *[1] * (self.ndim - 2)) if self.ndim > 1 else (-1,))
    ),
    lambda self, weight: numpy.where(self > 0, self, self * weight.reshape((-1, *[1] * (self.ndim - 2)) if self.ndim > 1 else -1)),
    lambda draw: [
        Case(f"s{'x'.join(map(str, s))}_w{w}", self=draw.normal(*s), weight=draw.uniform(0.125, 0.5, w))
        for s, w in (((7,), 1), ((3, 4), 4), ((3, 4), 1), ((2, 3, 5), 3), ((1, 2, 3, 4), 2))
    ],
    BOUND,
    scale="jacobian",
    modes=("layouts", "threads"),
)


def glu(self, dim=-1):
    half = self.shape[dim] // 2
    a, b = (self[(slice(None),) * (dim % self.ndim) + (s,)] for s in (slice(0, half), slice(half, None)))
    return a * np.expit(b)


def glu_second(self, dim=-1):
    a, b = numpy.split(self, 2, axis=dim)
    return a / (1 + numpy.exp(-b))


table.add(
    "glu",
    glu,
    glu_second,
    lambda draw: [
        Case(f"s{'x'.join(map(str, s))}_d{d % len(s)}", self=draw.normal(*s), dim=d)
        for s, d in (((2,), 0), ((14,), -1), ((3, 8), 1), ((4, 3), 0), ((2, 34), -1))
    ],
    BOUND,
    scale="jacobian",
    modes=("layouts", "threads"),
)
add_cases(
    lambda draw: [
        Case(
            "saturated",
            self=numpy.concatenate([draw.uniform(0.5, 2, 3), numpy.array([20.0, 40.0, -40.0])]),
            note="sigmoid'(20) is 2e-9: 1 - sigmoid(20), rounded, is 0 in float32",
        )
    ]
)


# Evaluation mode only: the slope is the middle of [lower, upper].
table.add(
    "rrelu",
    lambda self, lower, upper: np.where(np.floats(self) >= 0, self, self * ((lower + upper) / 2)),
    lambda self, lower, upper: numpy.maximum(self, 0) + (lower + upper) / 2 * numpy.minimum(self, 0),
    lambda draw: [Case(f"n{n}", self=draw.uniform(-4, 4, n), lower=0.125, upper=0.375) for n in (1, 7, 16, 33, 67)],
    BOUND,
    modes=("layouts", "threads"),
)
