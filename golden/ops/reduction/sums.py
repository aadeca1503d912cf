"""sum, mean, var, prod, logsumexp along axes, at ordinary, offset, huge and tiny magnitudes."""

import numpy

from golden import Case, Operator, conditioned
from golden import numpy_ad as np

MODES = ("layouts", "threads")
total = Operator("aten::sum.dim_IntList", tolerance=conditioned(), modes=MODES, scale="multilinear")
mean = Operator("aten::mean.dim", tolerance=conditioned(), modes=MODES, scale="multilinear")
var = Operator("aten::var.correction", tolerance=conditioned(), modes=MODES)
prod = Operator("aten::prod.dim_int", tolerance=conditioned(), modes=MODES)
logsumexp = Operator("aten::logsumexp", tolerance=conditioned(), modes=MODES)
operators = [total, mean, var, prod, logsumexp]


def axes(dim):
    return tuple(dim) if isinstance(dim, (list, tuple)) else dim


def count(self, dim):
    return int(numpy.prod([self.shape[d] for d in dim]))


@total.reference
def sum_reference(self, dim, keepdim=False):
    return np.sum(self, axis=axes(dim), keepdims=keepdim)


total.second(lambda self, dim, keepdim=False: numpy.add.reduce(self, axis=axes(dim), keepdims=keepdim))


@mean.reference
def mean_reference(self, dim, keepdim=False):
    return np.sum(self, axis=axes(dim), keepdims=keepdim) / count(self, dim)


mean.second(lambda self, dim, keepdim=False: self.mean(axis=axes(dim), keepdims=keepdim))


@var.reference
def var_reference(self, dim, correction=1, keepdim=False):
    centre = np.sum(self, axis=axes(dim), keepdims=True) / count(self, dim)
    d = self - centre
    return np.sum(d * d, axis=axes(dim), keepdims=keepdim) / (count(self, dim) - correction)


var.second(lambda self, dim, correction=1, keepdim=False: self.var(axis=axes(dim), ddof=correction, keepdims=keepdim))


@prod.reference
def prod_reference(self, dim, keepdim=False):
    return np.product(self, dim, keepdim)


prod.second(lambda self, dim, keepdim=False: numpy.multiply.reduce(self, axis=dim, keepdims=keepdim))


@logsumexp.reference
def logsumexp_reference(self, dim, keepdim=False):
    return np.log(np.sum(np.exp(self), axis=axes(dim), keepdims=keepdim))


@logsumexp.second
def logsumexp_second(self, dim, keepdim=False):
    top = self.max(axis=axes(dim), keepdims=True)
    out = numpy.log(numpy.exp(self - top).sum(axis=axes(dim), keepdims=True)) + top
    return out if keepdim else out.reshape(numpy.sum(self, axis=axes(dim)).shape)


def ordinary(draw):
    for shape, dim in (((3, 17), (1,)), ((17, 3), (0,)), ((2, 3, 33), (0, 2)), ((1, 1), (1,)), ((4, 128), (1,)), ((3, 129), (1,))):
        yield Case(f"s{'x'.join(map(str, shape))}_d{'_'.join(map(str, dim))}", self=draw.normal(*shape), dim=dim)


def magnitudes(draw):
    for name, factor in (("huge", 2.0**66), ("tiny", 2.0**-66)):
        yield Case(f"{name}", self=draw.normal(3, 33) * factor, dim=(1,))
    for name, offset in (("1e3", 1000.0), ("1e6", 1e6)):
        yield Case(f"offset_{name}", self=draw.integers(-8, 9, 3, 33) + offset, dim=(1,))


@total.cases
def sum_cases(draw):
    yield from ordinary(draw)
    yield from magnitudes(draw)
    yield Case("tenths", self=numpy.full((2, 5000), float(numpy.float32(0.1))), dim=(1,), backward=False, source="pytorch#23392")


@mean.cases
def mean_cases(draw):
    yield from ordinary(draw)
    yield from magnitudes(draw)


@var.cases
def var_cases(draw):
    yield from (c for c in ordinary(draw) if c.name != "s1x1_d1")
    for m in (1e4, 1e6):
        yield Case(f"quarter_steps_{int(m)}", self=numpy.array([[m, m + 1, m + 2, m + 3]]), dim=(1,), correction=0, source="pytorch#2470")
    yield Case("report", self=numpy.array([[2281.5, 2281.25]]), dim=(1,), source="pytorch#2470")


@prod.cases
def prod_cases(draw):
    yield Case("s3x7_d1", self=draw.uniform(0.5, 2, 3, 7), dim=1)
    yield Case("s9x2_d0", self=draw.uniform(-2, -0.5, 9, 2), dim=0)
    yield Case("zeros", self=numpy.array([[0.0, 2.0, 3.0], [0.0, 0.0, 3.0], [1.5, 2.0, 0.5]]), dim=1, source="pytorch#82644",
               note="one zero: its gradient is the others' product; two: all gradients are 0")


@logsumexp.cases
def logsumexp_cases(draw):
    yield from ordinary(draw)
    yield Case("big", self=numpy.array([[1000.0, 1000.0], [-1000.0, -1001.0]]), dim=(1,))
