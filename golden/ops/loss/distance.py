"""Losses on distances between vectors: triplet margin, cosine embedding, pdist."""

import math

import numpy

from golden import Case, Operator, conditioned
from golden import numpy_ad as np
from golden.ops.loss._reduction import reduced, reduced_second

MODES = ("layouts", "threads")
triplet = Operator("aten::triplet_margin_loss", tolerance=conditioned(), modes=MODES)
cosine = Operator("aten::cosine_embedding_loss", tolerance=conditioned(), modes=MODES, differentiable=("input1", "input2"))
pdist = Operator("aten::pdist", tolerance=conditioned(), modes=("layouts", "threads"))
operators = [triplet, cosine, pdist]


@triplet.reference
def triplet_reference(anchor, positive, negative, margin=1.0, p=2.0, eps=1e-6, swap=False, reduction=1):
    """max(0, margin + d(a, p) - d(a, n)), d(x, y) = |x - y + eps|_p."""
    far = np.norm(anchor - negative + eps, p)
    if swap:
        other = np.norm(positive - negative + eps, p)
        far = np.where(np.floats(other) < np.floats(far), other, far)
    gap = margin + np.norm(anchor - positive + eps, p) - far
    return reduced(np.where(np.floats(gap) > 0, gap, 0 * gap), reduction)


@triplet.second
def triplet_second(anchor, positive, negative, margin=1.0, p=2.0, eps=1e-6, swap=False, reduction=1):
    def d(x, y):
        return (numpy.abs(x - y + eps) ** p).sum(-1) ** (1 / p)

    far = numpy.minimum(d(anchor, negative), d(positive, negative)) if swap else d(anchor, negative)
    return reduced_second(numpy.clip(margin + d(anchor, positive) - far, 0, None), reduction)


@triplet.cases
def triplet_cases(draw):
    for p in (1.0, 2.0, 3.0):
        for swap in (False, True):
            for reduction in (0, 1, 2):
                yield Case(f"p{int(p)}_swap{int(swap)}_r{reduction}", anchor=draw.normal(3, 5), positive=draw.normal(3, 5), negative=draw.normal(3, 5),
                           margin=3.0, p=p, eps=2.0**-20, swap=swap, reduction=reduction)


@cosine.reference
def cosine_reference(input1, input2, target, margin=0.0, reduction=1):
    """1 - cos for target 1, max(0, cos - margin) for target -1; ATen adds 1e-12 to each square."""
    dot = np.sum(input1 * input2, axis=1)
    size = np.sqrt((np.sum(input1 * input1, axis=1) + 1e-12) * (np.sum(input2 * input2, axis=1) + 1e-12))
    c = dot / size
    positive = np.value(target) == 1
    values = np.where(positive, 1 - c, np.where(np.floats(c) > margin, c - margin, 0 * c))
    return reduced(values, reduction)


@cosine.second
def cosine_second(input1, input2, target, margin=0.0, reduction=1):
    values = []
    for a, b, t in zip(input1, input2, target, strict=True):
        c = (a @ b) / math.sqrt((a @ a + 1e-12) * (b @ b + 1e-12))
        values.append(1 - c if t == 1 else max(0.0, c - margin))
    return reduced_second(numpy.array(values), reduction)


@cosine.cases
def cosine_cases(draw):
    for margin in (0.0, 0.25):
        for reduction in (0, 1, 2):
            yield Case(f"m{int(margin * 100)}_r{reduction}", input1=draw.normal(6, 5), input2=draw.normal(6, 5),
                       target=numpy.array([1.0, -1.0, 1.0, -1.0, -1.0, 1.0]), margin=margin, reduction=reduction)


def pairs(n):
    return numpy.triu_indices(n, 1)


@pdist.reference
def pdist_reference(self, p=2.0):
    i, j = pairs(self.shape[0])
    return np.norm(self[i] - self[j], p)


@pdist.second
def pdist_second(self, p=2.0):
    n = self.shape[0]
    return numpy.array([(numpy.abs(self[a] - self[b]) ** p).sum() ** (1 / p) for a in range(n) for b in range(a + 1, n)])


@pdist.cases
def pdist_cases(draw):
    for p in (1.0, 2.0, 3.0):
        for n, d in ((2, 1), (5, 3), (7, 17)):
            yield Case(f"p{int(p)}_s{n}x{d}", self=draw.normal(n, d), p=p)
