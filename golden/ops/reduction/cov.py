"""Covariance of variables in rows, observations in columns."""

import numpy

from golden import Case, Operator, Out, conditioned
from golden import numpy_ad as np

operator = Operator("aten::cov", tolerance=conditioned(), modes=("layouts", "threads"))


@operator.reference
def cov(self, correction=1):
    """sum over k of (x_ik - mean_i) (x_jk - mean_j) / (n - correction)."""
    n = self.shape[-1]
    x = np.reshape(self, (-1, n))
    d = x - np.sum(x, axis=1, keepdims=True) / n
    out = np.matmul(d, np.transpose(d)) / (n - correction)
    return Out(out, shape=()) if x.shape[0] == 1 else out


operator.second(lambda self, correction=1: numpy.cov(self, ddof=correction))


@operator.cases
def cases(draw):
    for shape in ((7,), (1, 5), (3, 4), (4, 33)):
        for correction in (0, 1):
            yield Case(f"s{'x'.join(map(str, shape))}_c{correction}", self=draw.normal(*shape), correction=correction)
    yield Case("offset_1000", self=draw.integers(-8, 9, 2, 17) + 1000.0, source="pytorch#2470", note="a one-pass formula loses the digits")
