"""What the special functions share: mpmath as the second formula, and the bound of ATen's own series."""

import math

import numpy

from golden import conditioned
from golden.table import by_mpmath

# ATen's own series, rational approximations and continued fractions (after Cephes): some ten to twenty operations, each rounded once.
CEPHES = conditioned(float32=32, float64=32, why="series of some 16 operations (Cephes), each rounded: twice docs/numerics.md#conditioned")


def at(function, known):
    """`function` of mpmath on plain arrays, with the values that it does not know (limits) given as {argument: value}."""
    plain = by_mpmath(function)

    def second(x, **_):
        out = plain(x)
        for where, answer in known.items():
            out = numpy.where(x == where, answer, out)
        out = numpy.where((out == 0) & (x == 0), numpy.copysign(0.0, x), out)  # odd functions: mpmath has no -0
        return numpy.where(numpy.isnan(x), math.nan, out)

    return second
