"""Random numbers: the support exactly; counts, bins and means within intervals of a false-alarm rate of 1e-10."""

import math

import numpy

from golden import Case, Operator, Out, exact
from golden.ops.random._intervals import FALSE_ALARM, binomial, bins, mean_of_bounded, mean_of_normal

N = 4000
WHY = exact("statistical: docs/numerics.md#statistical")
operators = []


def random(schema, statistic, calls, **options):
    """`statistic(shape, **arguments)`: the item; `calls`: (name, arguments); `self` gives the shape where there is no size."""
    operator = Operator(f"aten::{schema}", tolerance=WHY, modes=(), plain=True, differentiable=(), **options)

    @operator.reference
    def reference(**a):
        shape = tuple(a["size"]) if "size" in a else (a["n"],) if "n" in a else next(v for v in a.values() if isinstance(v, numpy.ndarray)).shape
        out = Out(shape=shape, statistic={**statistic(shape, **a), "false_alarm": FALSE_ALARM}, **({"dtype": a["dtype"]} if a.get("dtype") else {}))
        return (out, out) if operator.mutates else out

    @operator.cases
    def cases(draw):
        for name, arguments in calls:
            yield Case(name, args=arguments)

    operators.append(operator)


def uniform(shape, low=0.0, high=1.0, **_):
    n, edges = int(numpy.prod(shape)), [low + (high - low) * k / 8 for k in range(9)]
    return {"support": {"low": low, "high": high}, "bins": bins(n, edges, lambda x: (x - low) / (high - low), 9), "mean": mean_of_bounded(n, low, high, (low + high) / 2, 9)}


def normal(shape, mean=0.0, std=1.0, **_):
    n, edges = int(numpy.prod(shape)), [mean + std * e for e in (-2.0, -1.0, -0.5, 0.0, 0.5, 1.0, 2.0)]
    return {"support": {"low": mean - 40 * std, "high": mean + 40 * std}, "mean": mean_of_normal(n, mean, std, 7),
            "bins": bins(n, edges, lambda x: 0.5 * math.erfc(-(x - mean) / std / math.sqrt(2)), 7)}


def by_cdf(low, edges, cdf, low_open=False):
    def statistic(shape, **a):
        return {"support": {"low": low, "high": "inf", "low_open": low_open}, "bins": bins(int(numpy.prod(shape)), edges, lambda x: cdf(x, **a), len(edges))}

    return statistic


def integers(shape, low=0, high=None, **_):
    n, k = int(numpy.prod(shape)), high - low
    return {"support": {"low": low, "high": high, "integer": True},
            "counts": [{"value": v, **dict(zip(("min", "max"), binomial(n, 1 / k, min(k, 16)), strict=True))} for v in range(low, min(high, low + 16))]}


def coin(shape, p, **_):
    low, high = binomial(int(numpy.prod(shape)), p)
    return {"support": {"low": 0, "high": 1, "high_open": False, "integer": True}, "counts": [{"value": 1, "min": low, "max": high}]}


zeros = numpy.zeros((40, N // 40))
random("rand", uniform, [("n4000", {"size": (N,)}), ("s50x80", {"size": (50, 80)})])
random("rand_like", uniform, [("s40x100", {"self": zeros})])
random("randn", normal, [("n4000", {"size": (N,)}), ("n4001", {"size": (N + 1,)})])
random("randn_like", normal, [("s40x100", {"self": zeros})])
random("normal.float_float", normal, [("shifted", {"mean": 3.0, "std": 0.5, "size": (N,)})])
random("uniform", lambda shape, **a: uniform(shape, a["from"], a["to"]), [("unit", {"self": zeros, "from": 0.0, "to": 1.0}), ("wide", {"self": zeros, "from": -3.0, "to": 5.0})])
random("exponential", by_cdf(0.0, [0.0, 0.25, 0.5, 1.0, 2.0], lambda x, lambd=1.0, **_: -math.expm1(-lambd * x)),
       [("rate1", {"self": zeros, "lambd": 1.0}), ("rate2", {"self": zeros, "lambd": 2.0})])
random("log_normal", by_cdf(0.0, [0.25, 0.5, 1.0, 2.0, 4.0], lambda x, mean=1.0, std=2.0, **_: 0.5 * math.erfc(-(math.log(x) - mean) / std / math.sqrt(2))),
       [("standard", {"self": zeros, "mean": 0.0, "std": 1.0})])
random("cauchy", lambda shape, median=0.0, sigma=1.0, **_: {
    "support": {"low": "-inf", "high": "inf"},
    "bins": bins(int(numpy.prod(shape)), [-4.0, -1.0, 0.0, 1.0, 4.0], lambda x: 0.5 + math.atan((x - median) / sigma) / math.pi, 4)},
    [("standard", {"self": zeros, "median": 0.0, "sigma": 1.0})])
random("geometric", lambda shape, p, **_: {
    "support": {"low": 1, "high": "inf", "integer": True},
    "counts": [{"value": k, **dict(zip(("min", "max"), binomial(int(numpy.prod(shape)), p * (1 - p) ** (k - 1), 6), strict=True))} for k in range(1, 7)]},
    [("p50", {"self": zeros, "p": 0.5}), ("p25", {"self": zeros, "p": 0.25})])
random("randint.low", integers, [("dice", {"low": 1, "high": 7, "size": (N,), "dtype": "int64"}), ("negative", {"low": -5, "high": 5, "size": (N,), "dtype": "int64"})])
random("randint_like", integers, [("ten", {"self": zeros, "high": 10})])
random("bernoulli.p", coin, [(f"p{int(p * 100)}", {"self": zeros, "p": p}) for p in (0.25, 0.5, 0.9)])
random("bernoulli", lambda shape, self, **_: coin(shape, float(self.flat[0])), [("p25", {"self": zeros + 0.25}), ("never", {"self": zeros}), ("always", {"self": zeros + 1})])
random("randperm", lambda shape, n, **_: {"support": {"low": 0, "high": n, "integer": True}, "counts": [{"value": k, "min": 1, "max": 1} for k in range(n)]},
       [("n67", {"n": 67, "dtype": "int64"}), ("n1", {"n": 1, "dtype": "int64"})])
random("randint", lambda shape, high, **_: integers(shape, 0, high), [("dice", {"high": 6, "size": (N,), "dtype": "int64"})])
random("randint_like.low_dtype", integers, [("ten", {"self": zeros, "low": -3, "high": 7})])
random("bernoulli.Tensor", lambda shape, p, **_: coin(shape, float(p.flat[0])), [(f"p{int(p * 100)}", {"self": zeros, "p": zeros + p}) for p in (0.25, 0.75)])
random("normal.Tensor_float", lambda shape, mean, std: normal(shape, float(mean.flat[0]), std), [("shifted", {"mean": zeros + 3.0, "std": 0.5})])
random("normal.float_Tensor", lambda shape, mean, std: normal(shape, mean, float(std.flat[0])), [("shifted", {"mean": 3.0, "std": zeros + 0.5})])
random("normal.Tensor_Tensor", lambda shape, mean, std: normal(shape, float(mean.flat[0]), float(std.flat[0])), [("shifted", {"mean": zeros + 2.0, "std": zeros + 4.0})])
