"""alpha_dropout and the dropouts of whole features: which answers an element may have, which fall together, and how many fall.

Klambauer et al., "Self-normalizing neural networks", 2017: a dropped element becomes -alpha', and all are then scaled by a and moved by b so
that mean 0 and variance 1 stay: kept a x + b, dropped a (-alpha') + b, a = 1 / sqrt((1 + p alpha'^2) (1 - p)), b = a alpha' p. ATen moves the sum of
-alpha' a and alpha' a p, which is -alpha' a (1 - p). alpha' is the product of SELU's two constants, as the float64 that ATen writes."""

import itertools

import numpy

from golden import Case, Operator, Out, exact
from golden import numpy_ad as np
from golden.ops.random._intervals import FALSE_ALARM, binomial

ALPHA = 1.7580993408473766
WHY = "kept: a, b and two operations are rounded, 3 u of positive terms; dropped: alpha a and alpha a p are, u alpha a (1 + p) of alpha a (1 - p), then the sum: 4 u at p = 1/2; u is at most 1 ulp"
ULP = 4
operators = []


def alpha_values(x, p):
    """(kept, dropped) as balls; x positive, so that nothing cancels in the first."""
    a = 1 / np.sqrt((np.balls(ALPHA) * ALPHA * p + 1) * (1 - p))
    return a * np.balls(x) + a * ALPHA * p, 0 * np.balls(x) - a * ALPHA * (1 - p)


def plain_values(x, p):
    return np.balls(x) / (1 - p), 0 * np.balls(x)


def channels(x):
    return x.shape[0] * x.shape[1]


def together(x, p, answers):
    """Every choice of channels that fall: one of them must be the answer as a whole."""
    kept, dropped = answers(x, p)
    out = []
    for falls in itertools.product((False, True), repeat=channels(x)):
        mask = numpy.array(falls).reshape(*x.shape[:2], *(1,) * (x.ndim - 2)) & numpy.ones(x.shape, dtype=bool)
        out.append(numpy.where(mask, dropped, kept))
    return Out(shape=x.shape, members=out, whole=True, bound=ULP, why=WHY)


def number(x, p, groups):
    """How many fall, by narrow bins about the answers to each value of x; between the bins nothing lies. In units of the largest answer."""
    n, rows = x.size // groups, []
    dropped = float(alpha_values(numpy.ones(1), p)[1][0])
    width = 2.0**-18  # far wider than the bound of the answers, which the other cases check
    rows.append({"low": dropped - width, "high": dropped + width, **interval(n, p, groups)})
    below = dropped + width
    for v in sorted(set(x.ravel().tolist())):
        kept = float(alpha_values(numpy.array([v]), p)[0][0])
        rows += [{"low": below, "high": kept - width, "min": 0, "max": 0}, {"low": kept - width, "high": kept + width, **interval(int((x == v).sum()) // groups, 1 - p, groups)}]
        below = kept + width
    return Out(shape=x.shape, statistic={"support": {"low": dropped - width, "high": below}, "bins": rows, "false_alarm": FALSE_ALARM})


def interval(n, p, groups):
    low, high = binomial(n, p, 4)
    return {"min": low * groups, "max": high * groups}


def dropout(schema, answers, feature):
    """`answers(x, p)`: (kept, dropped). `feature`: whole channels fall."""
    operator = Operator(f"aten::{schema}", tolerance=exact("members and counts: docs/numerics.md#statistical"), modes=("layouts",), plain=True)

    @operator.reference
    def reference(input, p, train):
        if not train or p == 0:
            return input
        if p == 1:
            return input * 0.0
        if input.size == 1000:
            return number(input, p, input[0, 0].size if feature else 1)
        if feature:
            return together(input, p, answers)
        return Out(shape=input.shape, members=list(answers(input, p)), bound=ULP, why=WHY)

    @operator.second
    def second(input, p, train):
        return numpy.array(input) if not train or p == 0 else numpy.zeros(input.shape)

    @operator.cases
    def cases(draw):
        yield Case("eval", input=draw.normal(3, 5, 2), p=0.5, train=False)
        yield Case("p0", input=draw.normal(3, 5, 2), p=0.0, train=True, source="Flux#1781", note="p = 0 is the identity")
        yield Case("p1", input=draw.uniform(0.25, 4, 3, 5, 2), p=1.0, train=True, backward=False, trivial="everything is dropped: zeros, not inf or NaN", source="Flux#1781")
        for p in (0.25, 0.5):
            label, low = f"p{int(p * 100)}", 2.0**-3
            if feature:
                yield Case(f"together_{label}", input=draw.uniform(low, 4, 1, 3, 2, 8), p=p, train=True, note="16 elements a channel: all fall or none")
                yield Case(f"batch_{label}", input=draw.uniform(low, 4, 2, 2, 9), p=p, train=True)
            else:
                yield Case(f"either_{label}", input=draw.uniform(low, 4, 7, 19), p=p, train=True)
            levels = numpy.repeat([0.25, 1.0, 3.0], [100, 150, 250])[draw.permutation(500)]
            yield Case(f"number_{label}", input=numpy.repeat(levels.reshape(10, 50, 1), 2, axis=2), p=p, train=True)

    return operator


operators += [dropout("alpha_dropout", alpha_values, False), dropout("feature_alpha_dropout", alpha_values, True)]
