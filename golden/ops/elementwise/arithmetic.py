"""add, mul, div and smooth unary functions: one line an operator."""

import numpy

from golden import Case, Operator, conditioned, ulp
from golden import numpy_ad as np

MODES = ("layouts", "threads")
CUDA_TABLE = "CUDA C++ Programming Guide, mathematical functions: maximum ulp error; one more for CPU vector libraries"
operators = []


def binary(schema, reference, second, low=-4.0, high=4.0):
    """A correctly rounded operation of two tensors: half an ulp, so a bound of one."""
    operator = Operator(schema, tolerance=ulp(1, 1, "IEEE 754: correctly rounded, 1/2 ulp"), backward_tolerance=conditioned(),
                        modes=MODES, scale="elementwise")
    operator.reference(reference)
    operator.second(second)

    @operator.cases
    def cases(draw):
        for n in (1, 7, 16, 67):
            yield Case(f"n{n}", self=draw.uniform(low, high, n), other=draw.uniform(0.5, high, n))
        yield Case("s5x6", self=draw.normal(5, 6), other=draw.uniform(0.5, 2, 5, 6))
        yield Case("large", self=draw.uniform(1e30, 2e30, 17), other=draw.uniform(1, 2, 17))
        yield Case("small", self=draw.uniform(2.0**-100, 2.0**-99, 17), other=draw.uniform(1, 2, 17))

    operators.append(operator)


def unary(name, reference, second, low, high, float32, float64):
    """A smooth function of one tensor on [low, high], bounds in ulp."""
    operator = Operator(f"aten::{name}", tolerance=ulp(float32, float64, CUDA_TABLE), backward_tolerance=conditioned(), modes=MODES,
                        scale="elementwise")

    @operator.reference
    def function(self):
        return reference(self)

    operator.second(lambda self: second(self))

    @operator.cases
    def cases(draw):
        for n in (1, 7, 8, 15, 16, 17, 31, 32, 33, 67):
            yield Case(f"n{n}", self=draw.uniform(low, high, n))
        yield Case("s5x6", self=draw.uniform(low, high, 5, 6))
        yield Case("full_mantissa", self=numpy.clip(draw.full_mantissa(17), low, high) if low < 0 else low + draw.uniform(0, 1, 17) * (high - low) * (1 + 2.0**-40),
                   dtypes=("float64",))

    operators.append(operator)


binary("aten::add.Tensor", lambda self, other: self + other, lambda self, other: self + other)
binary("aten::sub.Tensor", lambda self, other: self - other, lambda self, other: self - other)
binary("aten::mul.Tensor", lambda self, other: self * other, lambda self, other: self * other)
binary("aten::div.Tensor", lambda self, other: self / other, lambda self, other: self / other)

unary("exp", np.exp, numpy.exp, -80.0, 80.0, 3, 2)
unary("log", np.log, numpy.log, 2.0**-20, 1000.0, 2, 2)
unary("sin", np.sin, numpy.sin, -100.0, 100.0, 3, 3)
unary("cos", np.cos, numpy.cos, -100.0, 100.0, 3, 3)
unary("tanh", np.tanh, numpy.tanh, -2.0, 2.0, 3, 3)
unary("sqrt", np.sqrt, numpy.sqrt, 2.0**-20, 1000.0, 1, 1)
unary("expm1", np.expm1, numpy.expm1, -2.0, 20.0, 3, 3)
unary("log1p", np.log1p, numpy.log1p, -0.5, 100.0, 3, 3)
unary("erf", np.erf, lambda x: numpy.vectorize(__import__("math").erf)(x), -3.0, 3.0, 3, 3)
unary("reciprocal", lambda x: 1 / x, lambda x: 1 / x, 0.25, 100.0, 2, 2)
