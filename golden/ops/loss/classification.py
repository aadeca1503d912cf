"""Losses over classes: cross entropy, negative log-likelihood and the margin losses."""

import math

import numpy

from golden import Case, Operator, Out, conditioned
from golden import numpy_ad as np
from golden.ops.loss._reduction import reduced, reduced_second

MODES = ("layouts", "threads")


def rows(self, target):
    """(N, C) view of (N, C, d1, …) logits, and the flat targets in the same order."""
    axes = (0, *range(2, self.ndim), 1)
    return np.reshape(np.transpose(self, axes), (-1, self.shape[1])), target.reshape(-1)


def back(flat, shape):
    """(N·d, C) gradients in the logits' shape."""
    return np.transpose(np.reshape(flat, (shape[0], *shape[2:], shape[1])), (0, len(shape) - 1, *range(1, len(shape) - 1)))


def kept(target, ignore_index, classes, weight):
    """Which rows count, the class of each (0 where ignored), and its weight."""
    keep = target != ignore_index
    label = numpy.where(keep, target, 0)
    return keep, label, numpy.where(keep, 1.0 if weight is None else weight[label], 0.0)


def log_softmax(x):
    return x - np.log(np.sum(np.exp(x), axis=1, keepdims=True))


# Cross entropy -------------------------------------------------------------------------------------------------------------------

cross_entropy = Operator("aten::cross_entropy_loss", tolerance=conditioned(), modes=MODES, differentiable=("self", "target"),
                         nondeterministic=("cuda.forward", "cuda.backward"))


@cross_entropy.reference
def cross_entropy_reference(self, target, weight=None, reduction=1, ignore_index=-100, label_smoothing=0.0):
    """Labels: (1 - e) w_t nll + e/C sum_c w_c (-log p_c), mean over the weights w_t. Probabilities: -sum_c w_c t'_c log p_c, mean over rows."""
    x, shape = self if self.ndim > 1 else np.reshape(self, (1, -1)), target.shape
    if target.dtype == object:
        x, t = rows(x, np.zeros(1))[0], rows(target, np.zeros(1))[0]
        smooth = t * (1 - label_smoothing) + label_smoothing / x.shape[1]
        values = -np.sum(smooth * log_softmax(x) * (1 if weight is None else weight), axis=1)
        shape = (shape[0], *shape[2:])
        return _close(values, reduction, shape, values.shape[0])
    flat, target = rows(x, target)
    classes = flat.shape[1]
    keep, label, w = kept(target, ignore_index, classes, None if weight is None else np.value(weight))
    values = []
    for n in range(flat.shape[0]):
        if not keep[n]:
            values.append(np.zeros(1) * 0)
            continue
        logp = log_softmax(flat[n : n + 1])[0]
        smooth = np.sum(np.reshape(logp * (1 if weight is None else weight), (1, -1)), axis=1)
        values.append(-(1 - label_smoothing) * w[n] * logp[label[n] : label[n] + 1] - label_smoothing / classes * smooth)
    return _close(np.concatenate(values), reduction, shape, sum(w))


def _close(values, reduction, shape, count):
    if reduction == 0:
        return Out(values, shape=shape)
    return Out(np.total(values) / (count if reduction == 1 else 1), shape=())


@cross_entropy.second
def cross_entropy_second(self, target, weight=None, reduction=1, ignore_index=-100, label_smoothing=0.0):
    x = self if self.ndim > 1 else self[None]
    logp = x - x.max(axis=1, keepdims=True)
    logp = logp - numpy.log(numpy.exp(logp).sum(axis=1, keepdims=True))
    classes = x.shape[1]
    w = numpy.ones(classes) if weight is None else weight
    wide = w.reshape(1, -1, *[1] * (x.ndim - 2))
    if target.dtype == numpy.float64:
        values = -((target * (1 - label_smoothing) + label_smoothing / classes) * logp * wide).sum(axis=1)
        return values if reduction == 0 else values.sum() / (values.size if reduction == 1 else 1)
    t = target.reshape(x.shape[0], *x.shape[2:])
    onehot = numpy.moveaxis(numpy.eye(classes)[numpy.where(t == ignore_index, 0, t)], -1, 1)
    keep = (t != ignore_index)[:, None]
    mixed = numpy.where(keep, ((1 - label_smoothing) * onehot + label_smoothing / classes) * wide * -logp, 0)
    values = mixed.sum(axis=1)
    if reduction == 0:
        return values.reshape(target.shape)
    with numpy.errstate(invalid="ignore"):
        return values.sum() / (numpy.where(keep, onehot * wide, 0).sum() if reduction == 1 else 1)


@cross_entropy.vjp
def cross_entropy_vjp(upstream, self, target, weight=None, reduction=1, ignore_index=-100, label_smoothing=0.0):
    """p (sum of the row's weights) - the row's weights, times the upstream gradient; exactly 0 for an ignored row, whatever is in it."""
    x = self if self.ndim > 1 else np.reshape(self, (1, -1))
    flat, _ = rows(x, np.zeros(1))
    classes, e = flat.shape[1], label_smoothing
    probabilities = np.exp(log_softmax(flat))
    w = 1 if weight is None else np.reshape(weight, (1, -1))
    grow = np.reshape(upstream[0], (-1, 1))
    if np.value(target).dtype == object:
        t = rows(target, np.zeros(1))[0]
        goal = (t * (1 - e) + e / classes) * w
        scale = grow / (flat.shape[0] if reduction == 1 else 1)
        return {
            "self": back(scale * (probabilities * np.sum(goal, axis=1, keepdims=True) - goal), x.shape),
            "target": back(-scale * (1 - e) * w * log_softmax(flat), x.shape),
        }
    keep, label, picked = kept(target.reshape(-1), ignore_index, classes, None if weight is None else np.value(weight))
    goal = (1 - e) * picked[:, None] * numpy.eye(classes)[label] + e / classes * w
    count = sum(picked) if reduction == 1 and keep.any() else 1
    gradient = grow / count * (probabilities * np.sum(goal, axis=1, keepdims=True) - goal)
    gradient = np.where(numpy.repeat(keep[:, None], classes, axis=1), gradient, 0)
    return {"self": np.reshape(back(gradient, x.shape), self.shape)}


@cross_entropy.cases
def cross_entropy_cases(draw):
    for weighted in (False, True):
        for ignore in (-100, 2):
            for smoothing in (0.0, 0.125):
                for reduction in (0, 1, 2):
                    target = draw.integers(0, 5, 7)
                    target[3] = ignore
                    yield Case(f"w{int(weighted)}_i{'none' if ignore < 0 else ignore}_ls{int(smoothing > 0)}_r{reduction}", self=draw.normal(7, 5),
                               target=target, weight=draw.uniform(0.25, 2, 5) if weighted else None, reduction=reduction, ignore_index=ignore,
                               label_smoothing=smoothing, source="pytorch#73205")
    for reduction in (0, 1, 2):
        p = draw.uniform(0, 1, 3, 4)
        yield Case(f"probabilities_r{reduction}", self=draw.normal(3, 4), target=p, weight=draw.uniform(0.25, 2, 4), reduction=reduction,
                   label_smoothing=0.25)
        yield Case(f"image_r{reduction}", self=draw.normal(2, 3, 2, 4), target=draw.integers(0, 3, 2, 2, 4), reduction=reduction)
    yield Case("one_row", self=draw.normal(6), target=numpy.array(4), reduction=1)
    yield Case("equal_1e8", self=numpy.array([[1e8, 1e8]]), target=numpy.array([1]), source="pytorch#11752")
    yield Case("report", self=numpy.array([[1.0, 2.0], [3.0, 0.40625]]), target=numpy.array([-100, 1]), reduction=1, label_smoothing=0.125,
               source="pytorch#73205")
    for reduction in (0, 2):
        yield Case(f"all_ignored_r{reduction}", self=draw.normal(2, 3), target=numpy.array([-100, -100]), reduction=reduction, backward=False,
                   trivial="every row is ignored: the loss is 0", source="pytorch#116349")
    yield Case("all_ignored_mean", self=draw.normal(2, 3), target=numpy.array([-100, -100]), reduction=1, special=True, backward=False,
               trivial="0 over 0 is NaN", source="pytorch#75181")
    yield Case("nan_in_an_ignored_row", self=numpy.array([[math.nan, 0.0], [0.0, 0.0]]), target=numpy.array([-100, 0]), reduction=2, special=True,
               source="pytorch#192685", note="an ignored row adds nothing to the loss, and its gradient is 0")


# Negative log-likelihood -----------------------------------------------------------------------------------------------------------


def nll_reference(self, target, weight=None, reduction=1, ignore_index=-100):
    x = self if self.ndim > 1 else np.reshape(self, (1, -1))
    flat, t = rows(x, target)
    _, label, w = kept(t, ignore_index, flat.shape[1], None if weight is None else np.value(weight))
    values = -w * flat[numpy.arange(flat.shape[0]), label]
    return _close(values, reduction, target.shape, sum(w))


def nll_second(self, target, weight=None, reduction=1, ignore_index=-100):
    x = numpy.moveaxis(self, 1, -1).reshape(-1, self.shape[1]) if self.ndim > 1 else self[None]
    total, count, values = 0.0, 0.0, []
    for row, t in zip(x, target.reshape(-1), strict=True):
        w = 0.0 if t == ignore_index else 1.0 if weight is None else weight[t]
        values.append(-w * row[t] if w else 0.0)
        total, count = total + values[-1], count + w
    return numpy.array(values).reshape(target.shape) if reduction == 0 else total / (count if reduction == 1 else 1)


def nll(name, shapes):
    operator = Operator(f"aten::{name}", tolerance=conditioned(), modes=MODES, differentiable=("self",), nondeterministic=("cuda.forward", "cuda.backward"))
    operator.reference(nll_reference)
    operator.second(nll_second)

    @operator.cases
    def cases(draw):
        for shape in shapes:
            for weighted in (False, True):
                for reduction in (0, 1, 2):
                    target = draw.integers(0, shape[1], shape[0], *shape[2:])
                    target.reshape(-1)[0] = 1
                    yield Case(f"s{'x'.join(map(str, shape))}_w{int(weighted)}_r{reduction}", self=draw.normal(*shape), target=target,
                               weight=draw.uniform(0.25, 2, shape[1]) if weighted else None, reduction=reduction, ignore_index=1,
                               source="pytorch#94226")
        yield Case("bad_class", self=draw.normal(*shapes[0]), target=numpy.full((shapes[0][0], *shapes[0][2:]), 99), expect="error", source="pytorch#571")

    return operator


# Margins -----------------------------------------------------------------------------------------------------------------------------

multi_margin = Operator("aten::multi_margin_loss", tolerance=conditioned(), modes=MODES, differentiable=("self",), nondeterministic=("cuda.forward",))


@multi_margin.reference
def multi_margin_reference(self, target, p=1, margin=1, weight=None, reduction=1):
    """sum over c != t of w_t max(0, margin - x_t + x_c)^p / C."""
    picked = self[numpy.arange(self.shape[0]), target].reshape(-1, 1) if not hasattr(self, "_value") else np.reshape(
        self[numpy.arange(self.shape[0]), target], (-1, 1))
    gap = margin - picked + self
    live = (np.floats(gap) > 0) & (numpy.arange(self.shape[1])[None] != target[:, None])
    gap = np.where(live, gap, 0)
    w = 1 if weight is None else np.value(weight)[target][:, None]
    values = np.sum(w * (gap if p == 1 else gap * gap), axis=1) / self.shape[1]
    return reduced(values, reduction)


@multi_margin.second
def multi_margin_second(self, target, p=1, margin=1, weight=None, reduction=1):
    values = numpy.array([
        sum(max(0.0, margin - row[t] + row[c]) ** p for c in range(len(row)) if c != t) * (1 if weight is None else weight[t]) / len(row)
        for row, t in zip(self, target, strict=True)])
    return reduced_second(values, reduction)


@multi_margin.cases
def multi_margin_cases(draw):
    for p in (1, 2):
        for weighted in (False, True):
            for reduction in (0, 1, 2):
                yield Case(f"p{p}_w{int(weighted)}_r{reduction}", self=draw.normal(4, 5), target=draw.integers(0, 5, 4), p=p, margin=0.5,
                           weight=draw.uniform(0.25, 2, 5) if weighted else None, reduction=reduction)


multilabel = Operator("aten::multilabel_margin_loss", tolerance=conditioned(), modes=MODES, differentiable=("self",), nondeterministic=("cuda.forward",))


def labels_of(row):
    """The targets before the first negative one."""
    stop = numpy.flatnonzero(row < 0)
    return list(row[: stop[0]] if stop.size else row)


@multilabel.reference
def multilabel_reference(self, target, reduction=1):
    """sum over targets j and non-targets i of max(0, 1 - x_j + x_i) / C."""
    values = []
    for n in range(self.shape[0]):
        labels, total = labels_of(target[n]), np.zeros(1) * 0
        for j in labels:
            for i in range(self.shape[1]):
                gap = 1 - self[n, j : j + 1] + self[n, i : i + 1]
                total = total + (gap if i not in labels and np.floats(gap)[0] > 0 else 0 * gap)
        values.append(total / self.shape[1])
    return reduced(np.concatenate(values), reduction)


@multilabel.second
def multilabel_second(self, target, reduction=1):
    values = []
    for row, t in zip(self, target, strict=True):
        labels = labels_of(t)
        others = numpy.delete(row, labels)
        values.append(numpy.clip(1 - row[labels][:, None] + others[None], 0, None).sum() / row.size)
    return reduced_second(numpy.array(values), reduction)


@multilabel.cases
def multilabel_cases(draw):
    for reduction in (0, 1, 2):
        yield Case(f"r{reduction}", self=draw.normal(3, 5), target=numpy.array([[3, 0, -1, 1, 2], [1, -1, 0, 0, 0], [4, 2, 1, -1, -1]]), reduction=reduction)
    yield Case("report", self=numpy.array([[0.125, 0.25, 0.375, 0.8125]]), target=numpy.array([[3, 0, -1, 1]]), reduction=1)
    yield Case("no_label", self=draw.normal(2, 4), target=numpy.array([[-1, 0, 1, 2], [2, -1, 0, 0]]), reduction=0)
    yield Case("bad_label", self=draw.normal(1, 4), target=numpy.array([[9, -1, 0, 0]]), expect="error", note="a label outside of 0 … C - 1")


operators = [
    cross_entropy,
    nll("nll_loss", ((5, 4), (33, 3))),
    nll("nll_loss2d", ((2, 3, 3, 4),)),
    nll("nll_loss_nd", ((5, 4), (2, 3, 4), (2, 3, 2, 3))),
    multi_margin,
    multilabel,
]
