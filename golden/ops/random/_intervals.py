"""Intervals of a stated false-alarm rate, from exact distributions or from an inequality that holds for every n."""

import math

import mpmath

FALSE_ALARM = 1e-10


def binomial(n, p, items=1):
    """(low, high): a Binomial(n, p) count lies outside with probability below FALSE_ALARM / items. Exact sums of both tails."""
    if p <= 0 or p >= 1:
        return (0, 0) if p <= 0 else (n, n)
    with mpmath.workdps(40):
        p, tail = mpmath.mpf(p), mpmath.mpf(FALSE_ALARM) / (2 * items)
        ends = []
        for q in (p, 1 - p):
            pmf, total, k = (1 - q) ** n, mpmath.mpf(0), 0
            while total + pmf <= tail:
                total += pmf
                pmf *= mpmath.mpf(n - k) / (k + 1) * q / (1 - q)
                k += 1
            ends.append(k)
        return ends[0], n - ends[1]


def mean_of_bounded(n, low, high, mean, items=1):
    """Hoeffding (1963): P(|m - mean| >= t) <= 2 exp(-2 n t^2 / (high - low)^2)."""
    t = (high - low) * math.sqrt(math.log(2 * items / FALSE_ALARM) / (2 * n))
    return [mean - t, mean + t]


def mean_of_normal(n, mean, deviation, items=1):
    """The mean of n normal numbers is normal with deviation / sqrt(n)."""
    z = float(mpmath.sqrt(2) * mpmath.erfinv(1 - mpmath.mpf(FALSE_ALARM) / items))
    return [mean - z * deviation / math.sqrt(n), mean + z * deviation / math.sqrt(n)]


def bins(n, edges, cdf, items):
    """One item a bin [edges[k], edges[k+1]): its count is Binomial(n, cdf difference). The edges that a dtype rounds move p by far less than 1e-6."""
    rows = []
    for low, high in zip(edges, edges[1:], strict=False):
        a, b = binomial(n, cdf(high) - cdf(low), items)
        rows.append({"low": low, "high": high, "min": max(0, a - 1), "max": min(n, b + 1)})
    return rows
