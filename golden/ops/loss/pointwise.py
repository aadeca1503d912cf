"""Losses that compare element by element: one function of (self, target) and a reduction."""

import math

import numpy

from golden import Case, Operator, conditioned
from golden import numpy_ad as np
from golden.ops.loss._reduction import reduced, reduced_second

MODES = ("layouts", "threads")
operators = []


def pointwise(name, reference, second, inputs, extra=(), **options):
    """`reference` and `second` give the values before the reduction; `inputs(draw, *shape)` the tensors; `extra(draw)` more cases."""
    operator = Operator(f"aten::{name}", tolerance=conditioned(), modes=MODES, **options)
    operator.reference(lambda reduction=1, **args: reduced(reference(**args), reduction))
    operator.second(lambda reduction=1, **args: reduced_second(second(**args), reduction))

    @operator.cases
    def cases(draw):
        for reduction in (0, 1, 2):
            for shape in ((1,), (17,), (3, 33), (2, 3, 4)):
                yield Case(f"r{reduction}_s{'x'.join(map(str, shape))}", **inputs(draw, *shape), reduction=reduction)
        yield from extra(draw) if extra else ()

    operators.append(operator)


def normals(draw, *shape):
    return {"self": draw.normal(*shape), "target": draw.normal(*shape)}


def signs(draw, *shape):
    return draw.integers(0, 2, *shape) * 2.0 - 1


def huber(self, target, delta):
    d = np.absolute(self - target)
    inside = np.floats(d) < delta
    return np.where(inside, d * d / 2, delta * (d - delta / 2))


def huber_second(self, target, delta):
    return numpy.vectorize(lambda d: 0.5 * d * d if abs(d) < delta else delta * (abs(d) - 0.5 * delta))(self - target)


pointwise("mse_loss", lambda self, target: (self - target) * (self - target), lambda self, target: (self - target) ** 2, normals)
pointwise("l1_loss", lambda self, target: np.absolute(self - target), lambda self, target: numpy.maximum(self - target, target - self), normals,
          lambda draw: [Case("equal", self=numpy.array([1.0, 2.0, 3.0]), target=numpy.array([1.0, 2.0, 2.0]), reduction=2, smooth=False,
                             source="pytorch#7172", note="the gradient of |x| at 0 is 0")])
pointwise("smooth_l1_loss", lambda self, target, beta=1.0: huber(self, target, beta) / beta,
          lambda self, target, beta=1.0: huber_second(self, target, beta) / beta, normals,
          lambda draw: [Case(f"beta_{n}", **normals(draw, 21), beta=b, reduction=1, source="pytorch#94226") for n, b in (("half", 0.5), ("two", 2.0))])
pointwise("huber_loss", lambda self, target, delta=1.0: huber(self, target, delta),
          lambda self, target, delta=1.0: huber_second(self, target, delta), normals,
          lambda draw: [Case("delta_half", **normals(draw, 21), delta=0.5, reduction=0),
                        Case("huge", self=numpy.array([2.0**99, -(2.0**99)]), target=numpy.zeros(2), reduction=0,
                             note="linear beyond delta: no overflow")])
pointwise("soft_margin_loss", lambda self, target: np.log1p(np.exp(-self * target)), lambda self, target: numpy.logaddexp(0, -self * target),
          lambda draw, *s: {"self": draw.normal(*s), "target": signs(draw, *s)},
          lambda draw: [Case(f"far_{n}", self=numpy.array([x, -x, 3.0]), target=numpy.array([-1.0, 1.0, 1.0]), reduction=0, dtypes=t,
                             source="pytorch#1516", note="log(1 + exp(x)) is x for large x: exp(x) overflows, the loss does not")
                        for n, x, t in (("200", 200.0, ("float32",)), ("800", 800.0, ("float64",)))],
          differentiable=("self",))
pointwise("hinge_embedding_loss", lambda self, target, margin=1.0: np.where(target == 1, self, np.where(np.floats(self) < margin, margin - self, 0 * self)),
          lambda self, target, margin=1.0: numpy.where(target > 0, self, numpy.clip(margin - self, 0, None)),
          lambda draw, *s: {"self": draw.normal(*s), "target": signs(draw, *s)},
          lambda draw: [Case("margin_half", self=draw.normal(31), target=signs(draw, 31), margin=0.5, reduction=1)],
          differentiable=("self",))
pointwise("margin_ranking_loss",
          lambda input1, input2, target, margin=0.0: _positive(margin - target * (input1 - input2)),
          lambda input1, input2, target, margin=0.0: numpy.clip(margin - target * (input1 - input2), 0, None),
          lambda draw, *s: {"input1": draw.normal(*s), "input2": draw.normal(*s), "target": signs(draw, *s), "margin": 0.25},
          differentiable=("input1", "input2"))


def _positive(x):
    return np.where(np.floats(x) > 0, x, 0 * x)


def bce(self, target, weight=None):
    """-(t log x + (1 - t) log(1 - x)); ATen holds each logarithm at -100 or above."""
    x = np.value(self)
    log_x = np.where(x == 0, -100, np.log(np.where(x == 0, 1, self)))
    log_1x = np.where(x == 1, -100, np.log1p(np.where(x == 1, 0, -self)))
    loss = -(target * log_x + (1 - target) * log_1x)
    return loss if weight is None else loss * weight


def bce_second(self, target, weight=None):
    def one(x, t):
        return -t * (math.log(x) if x else -100.0) - (1 - t) * (math.log(1 - x) if x < 1 else -100.0)

    return numpy.vectorize(one)(self, target) * (1 if weight is None else weight)


pointwise("binary_cross_entropy", bce, bce_second,
          lambda draw, *s: {"self": draw.uniform(0.0625, 0.9375, *s), "target": draw.uniform(0, 1, *s)},
          lambda draw: [
              Case("weight", self=draw.uniform(0.0625, 0.9375, 3, 7), target=draw.uniform(0, 1, 3, 7), weight=draw.uniform(0.5, 2, 3, 7), reduction=1),
              Case("certain", self=numpy.array([0.0, 1.0, 1.0, 0.0, 0.5]), target=numpy.array([1.0, 0.0, 0.75, 0.25, 1.0]), reduction=0,
                   backward=False, note="log(0) is held at -100"),
              Case("near_0_and_1", self=numpy.array([2.0**-20, 1 - 2.0**-20, 2.0**-10]), target=numpy.array([1.0, 0.0, 0.5]), reduction=0),
          ], differentiable=("self",))


def bce_logits(self, target, weight=None, pos_weight=None):
    """(1 - t) x + (1 + (p - 1) t) log(1 + exp(-x))."""
    factor = 1 if pos_weight is None else 1 + (pos_weight - 1) * target
    loss = (1 - target) * self + factor * np.log1p(np.exp(-self))
    return loss if weight is None else loss * weight


def bce_logits_second(self, target, weight=None, pos_weight=None):
    p = 1 if pos_weight is None else pos_weight
    loss = target * p * numpy.logaddexp(0, -self) + (1 - target) * numpy.logaddexp(0, self)
    return loss if weight is None else loss * weight


pointwise("binary_cross_entropy_with_logits", bce_logits, bce_logits_second,
          lambda draw, *s: {"self": draw.normal(*s), "target": draw.uniform(0, 1, *s)},
          lambda draw: [
              Case("pos_weight", self=draw.normal(4, 5), target=draw.uniform(0, 1, 4, 5), pos_weight=draw.uniform(0.5, 3, 5), reduction=1),
              Case("weights", self=draw.normal(4, 5), target=draw.uniform(0, 1, 4, 5), weight=draw.uniform(0.5, 2, 4, 5),
                   pos_weight=draw.uniform(0.5, 3, 5), reduction=2),
              Case("far", self=numpy.array([100.0, -100.0, 50.0, -50.0]), target=numpy.array([0.0, 1.0, 0.5, 0.25]), reduction=0),
          ], differentiable=("self",))


def poisson_second(input, target, log_input, full, eps):
    loss = numpy.exp(input) - target * input if log_input else input - target * numpy.log(input + eps)
    stirling = numpy.where(target > 1, target * numpy.log(numpy.maximum(target, 1)) - target + 0.5 * numpy.log(2 * math.pi * numpy.maximum(target, 1)), 0)
    return loss + (stirling if full else 0)


def poisson(input, target, log_input, full, eps):
    """exp(x) - t x, or x - t log(x + eps); `full` adds Stirling's approximation of log(t!) where t > 1."""
    loss = np.exp(input) - target * input if log_input else input - target * np.log(input + eps)
    if not full:
        return loss
    large = np.floats(target) > 1
    t = np.where(large, target, 1)
    return loss + np.where(large, t * np.log(t) - t + np.log(2 * np.pi() * t) / 2, 0)


poisson_loss = Operator("aten::poisson_nll_loss", tolerance=conditioned(), modes=MODES, differentiable=("input",))
poisson_loss.reference(lambda reduction, **args: reduced(poisson(**args), reduction))
poisson_loss.second(lambda reduction, **args: reduced_second(poisson_second(**args), reduction))


@poisson_loss.cases
def poisson_cases(draw):
    for log_input in (True, False):
        for full in (True, False):
            for reduction in (0, 1, 2):
                yield Case(f"log{int(log_input)}_full{int(full)}_r{reduction}", input=draw.uniform(0.25, 2, 3, 6), target=draw.integers(0, 6, 3, 6) * 1.0,
                           log_input=log_input, full=full, eps=2.0**-20, reduction=reduction)


operators.append(poisson_loss)


def kl(self, target, log_target=False):
    """t (log t - x), 0 where t is 0; exp(t) (t - x) for log targets."""
    if log_target:
        return np.exp(target) * (target - self)
    positive = np.value(target) > 0
    t = np.where(positive, target, 1)
    return np.where(positive, t * (np.log(t) - self), 0)


def kl_second(self, target, log_target=False):
    if log_target:
        return numpy.exp(target) * (target - self)
    return numpy.vectorize(lambda x, t: t * math.log(t) - t * x if t > 0 else 0.0)(self, target)


pointwise("kl_div", kl, kl_second, lambda draw, *s: {"self": draw.normal(*s), "target": draw.uniform(0.125, 1, *s)},
          lambda draw: [
              Case("log_target", self=draw.normal(3, 7), target=draw.normal(3, 7), log_target=True, reduction=1),
              Case("zero_target", self=draw.normal(4), target=numpy.array([0.0, 0.5, 0.0, 0.5]), reduction=1, smooth=False, source="pytorch#89558",
                   note="a target of 0 adds 0; the mean is over elements"),
          ], differentiable=("self",))
