"""cosine_similarity, pairwise_distance, renorm: p-norms along one axis."""

import math

import numpy

from golden import Case, Operator, conditioned
from golden import numpy_ad as np

MODES = ("layouts", "threads")
cosine = Operator("aten::cosine_similarity", tolerance=conditioned(), modes=MODES)
pairwise = Operator("aten::pairwise_distance", tolerance=conditioned(), modes=MODES)
renorm = Operator("aten::renorm", tolerance=conditioned(), modes=MODES)
operators = [cosine, pairwise, renorm]


@cosine.reference
def cosine_reference(x1, x2, dim=1, eps=1e-8):
    """x1 . x2 / (max(|x1|, eps) max(|x2|, eps)); the cases keep away from eps."""
    return np.sum(x1 * x2, axis=dim) / (np.norm(x1, 2, dim) * np.norm(x2, 2, dim))


cosine.second(lambda x1, x2, dim=1, eps=1e-8: numpy.sum((x1 / numpy.sqrt((x1**2).sum(dim, keepdims=True))) * (x2 / numpy.sqrt((x2**2).sum(dim, keepdims=True))), dim))


@cosine.cases
def cosine_cases(draw):
    for shape, dim in (((3, 5), 1), ((17, 2), 0), ((2, 3, 4), -1), ((2, 33), 1)):
        yield Case(f"s{'x'.join(map(str, shape))}_d{dim % len(shape)}", x1=draw.normal(*shape), x2=draw.normal(*shape), dim=dim)
    for name, factor in (("huge", 2.0**66), ("tiny", 2.0**-66)):
        yield Case(name, x1=draw.uniform(1, 2, 2, 3) * factor, x2=draw.uniform(1, 2, 2, 3), dim=1, eps=0.0, source="pytorch#193006",
                   note="the squares leave float32's range, the cosine does not")


@pairwise.reference
def pairwise_reference(x1, x2, p=2.0, eps=1e-6, keepdim=False):
    return np.norm(x1 - x2 + eps, p, -1, keepdim)


pairwise.second(lambda x1, x2, p=2.0, eps=1e-6, keepdim=False: (numpy.abs(x1 - x2 + eps) ** p).sum(-1, keepdims=keepdim) ** (1 / p))


@pairwise.cases
def pairwise_cases(draw):
    for p in (1.0, 2.0, 3.0):
        for keepdim in (False, True):
            yield Case(f"p{int(p)}_keep{int(keepdim)}", x1=draw.normal(4, 7), x2=draw.normal(4, 7), p=p, eps=2.0**-20, keepdim=keepdim)
    yield Case("n129", x1=draw.normal(2, 129), x2=draw.normal(2, 129), eps=2.0**-20, backward=False)


@renorm.reference
def renorm_reference(self, p, dim, maxnorm):
    """Slices along `dim` whose p-norm exceeds maxnorm are scaled by maxnorm / (norm + 1e-7)."""
    axes = tuple(a for a in range(self.ndim) if a != dim % self.ndim)
    size = np.norm(self, p, axes, keepdims=True)
    return self * np.where(np.floats(size) > maxnorm, maxnorm / (size + 1e-7), 1 + 0 * size)


@renorm.second
def renorm_second(self, p, dim, maxnorm):
    rows = numpy.moveaxis(self, dim, 0)
    out = [r * (maxnorm / (n + 1e-7) if (n := math.pow((numpy.abs(r) ** p).sum(), 1 / p)) > maxnorm else 1.0) for r in rows]
    return numpy.moveaxis(numpy.array(out), 0, dim)


@renorm.cases
def renorm_cases(draw):
    for p in (1, 2, 3):
        for dim in (0, 1):
            yield Case(f"p{p}_d{dim}", self=draw.normal(4, 5) * numpy.array([[0.125], [4.0], [1.0], [0.25]]), p=p, dim=dim, maxnorm=2)
    yield Case("three_four", self=numpy.array([[3.0, 4.0], [0.25, 0.25]]), p=2, dim=0, maxnorm=1, source="pytorch#943")
