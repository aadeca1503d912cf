"""_softmax and _log_softmax along one axis."""

import numpy

from golden import Case, Operator, conditioned
from golden import numpy_ad as np

softmax = Operator("aten::softmax.int", tolerance=conditioned(), modes=("layouts", "threads"))
log_softmax = Operator("aten::log_softmax.int", tolerance=conditioned(), modes=("layouts", "threads"))
inner = [Operator(f"aten::{name}", tolerance=conditioned(), modes=("layouts", "threads")) for name in ("_softmax", "_log_softmax")]
operators = [softmax, log_softmax, *inner]


@softmax.reference
def softmax_reference(self, dim):
    e = np.exp(self)  # balls have no overflow: no shift by the maximum is needed
    return e / np.sum(e, axis=dim, keepdims=True)


@softmax.second
def softmax_second(self, dim):
    e = numpy.exp(self - self.max(axis=dim, keepdims=True))
    return e / e.sum(axis=dim, keepdims=True)


@log_softmax.reference
def log_softmax_reference(self, dim):
    return self - np.log(np.sum(np.exp(self), axis=dim, keepdims=True))


@log_softmax.second
def log_softmax_second(self, dim):
    shifted = self - self.max(axis=dim, keepdims=True)
    return shifted - numpy.log(numpy.exp(shifted).sum(axis=dim, keepdims=True))


def cases(draw):
    for shape, dim in (((3, 5), 1), ((4, 17), 0), ((2, 33), -1), ((2, 3, 7), 1), ((1, 2), 1), ((2, 129), 1)):
        yield Case(f"s{'x'.join(map(str, shape))}_d{dim}".replace("-", "m"), self=draw.normal(*shape), dim=dim)
    yield Case("offset_1e7", self=numpy.array([[-1e7, -9999999.0, -1e7]]), dim=1, source="pytorch#38839")
    yield Case("offset_1000", self=draw.integers(-2, 3, 3, 8) + 1000.0, dim=1)
    yield Case("equal_1e8", self=numpy.array([[1e8, 1e8]]), dim=1, source="pytorch#11752")


softmax.cases(cases)
log_softmax.cases(cases)


def below(function):
    """The operator below autograd: the same, with the argument half_to_float (false)."""
    return lambda self, dim, half_to_float: function(self, dim)


def cases_below(draw):
    for case in cases(draw):
        case.args["half_to_float"] = False
        yield case


for operator, reference, second in zip(inner, (softmax_reference, log_softmax_reference), (softmax_second, log_softmax_second), strict=True):
    operator.reference(below(reference))
    operator.second(below(second))
    operator.cases(cases_below)
