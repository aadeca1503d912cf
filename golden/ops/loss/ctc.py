"""Connectionist temporal classification: Graves et al., ICML 2006, equations 5 to 16, as sums of path probabilities."""

import itertools
import math

import numpy

from golden import Case, Operator, Out, conditioned
from golden import numpy_ad as np


def targets_of(targets, lengths, n):
    """The labels of sample n, out of a padded matrix or of one concatenated vector."""
    if targets.ndim == 2:
        return [int(t) for t in targets[n, : lengths[n]]]
    start = int(sum(lengths[:n]))
    return [int(t) for t in targets[start : start + lengths[n]]]


def likelihood(probabilities, labels, blank):
    """The probability of all paths of (T, C) that spell `labels`; shape (1,). The forward recursion, without logarithms."""
    extended = [blank]
    for label in labels:
        extended += [label, blank]
    zero = probabilities[0, :1] * 0
    alpha = [probabilities[0, s : s + 1] if k < 2 else zero for k, s in enumerate(extended)]
    for t in range(1, probabilities.shape[0]):
        step = []
        for k, s in enumerate(extended):
            total = alpha[k] + (alpha[k - 1] if k else zero)
            if k > 1 and s != blank and s != extended[k - 2]:
                total = total + alpha[k - 2]
            step.append(total * probabilities[t, s : s + 1])
        alpha = step
    return alpha[-1] + alpha[-2] if len(alpha) > 1 else alpha[-1]


def losses(log_probs, targets, input_lengths, target_lengths, blank):
    """-log likelihood of each sample, shape (N,)."""
    return np.concatenate([
        -np.log(likelihood(np.exp(log_probs[: int(input_lengths[n]), n]), targets_of(targets, target_lengths, n), blank))
        for n in range(log_probs.shape[1])])


def reference(log_probs, targets, input_lengths, target_lengths, blank=0, reduction=1, zero_infinity=False):
    """Mean: each loss over its target's length (at least 1), then over the batch."""
    values = losses(log_probs, targets, input_lengths, target_lengths, blank)
    if reduction == 0:
        return values
    if reduction == 1:
        values = values / numpy.maximum(1, numpy.asarray(target_lengths)) / len(target_lengths)
    return Out(np.total(values), shape=())


def second(log_probs, targets, input_lengths, target_lengths, blank=0, reduction=1, zero_infinity=False):
    """Every path spelled out: collapse repeats, drop blanks."""
    values = []
    for n in range(log_probs.shape[1]):
        labels, total = targets_of(targets, target_lengths, n), 0.0
        for path in itertools.product(range(log_probs.shape[2]), repeat=int(input_lengths[n])):
            if [c for c, _ in itertools.groupby(path) if c != blank] == labels:
                total += math.exp(sum(log_probs[t, n, c] for t, c in enumerate(path)))
        values.append(-math.log(total))
    values = numpy.array(values)
    if reduction == 0:
        return values
    return (values / numpy.maximum(1, numpy.asarray(target_lengths))).mean() if reduction == 1 else values.sum()


def vjp(upstream, log_probs, targets, input_lengths, target_lengths, blank=0, reduction=1, zero_infinity=False):
    """ATen's gradient (Graves' equation 16): exp(log_probs) minus the occupancy, the gradient of what log_softmax was applied to.

    The true gradient is minus the occupancy; the two are equal behind log_softmax, whose own backward takes the sum away."""
    from autograd import make_vjp

    weight = upstream[0]
    if reduction == 1:
        weight = np.reshape(weight, (1,)) / numpy.maximum(1, numpy.asarray(target_lengths)) / len(target_lengths)
    elif reduction == 2:
        weight = np.reshape(weight, (1,)) * numpy.ones(len(target_lengths))
    pull, _ = make_vjp(lambda x: losses(x, targets, input_lengths, target_lengths, blank))(log_probs)
    inside = numpy.arange(log_probs.shape[0])[:, None] < numpy.asarray(input_lengths)[None]
    return {"log_probs": pull(weight) + np.exp(log_probs) * inside[:, :, None] * np.reshape(weight, (1, -1, 1))}


def log_probs(draw, t, n, c):
    """Normalised and rounded to float32."""
    x = draw.normal(t, n, c)
    return numpy.float32(x - numpy.log(numpy.exp(x).sum(-1, keepdims=True))).astype(float)


def cases(draw, lengths):
    for reduction in (0, 1, 2):
        yield Case(f"padded_r{reduction}", log_probs=log_probs(draw, 5, 3, 4), targets=numpy.array([[1, 2, 3], [2, 2, 1], [3, 1, 1]]),
                   input_lengths=lengths([5, 4, 5]), target_lengths=lengths([3, 2, 1]), reduction=reduction, smooth=False, source="pytorch#25833",
                   note="gradients beyond an input's length are 0, and the upstream gradient counts")
    yield Case("concatenated", log_probs=log_probs(draw, 4, 2, 3), targets=numpy.array([1, 2, 1]), input_lengths=lengths([4, 3]),
               target_lengths=lengths([2, 1]), reduction=0, smooth=False)
    yield Case("blank_2", log_probs=log_probs(draw, 4, 2, 3), targets=numpy.array([[0, 1], [1, 1]]), input_lengths=lengths([4, 4]),
               target_lengths=lengths([2, 2]), blank=2, reduction=1, smooth=False)
    yield Case("empty_target", log_probs=log_probs(draw, 3, 2, 3), targets=numpy.array([[1], [2]]), input_lengths=lengths([3, 3]),
               target_lengths=lengths([0, 1]), reduction=0, smooth=False)
    yield Case("one_step", log_probs=log_probs(draw, 1, 1, 3), targets=numpy.array([[2]]), input_lengths=lengths([1]), target_lengths=lengths([1]),
               reduction=2, smooth=False)


operators = []
for overload, kind in (("IntList", list), ("Tensor", numpy.array)):
    # native CUDA CTC accumulates with atomics (docs of torch.use_deterministic_algorithms list its backward)
    operator = Operator(f"aten::ctc_loss.{overload}", tolerance=conditioned(), modes=("layouts", "cudnn", "threads"), differentiable=("log_probs",),
                        nondeterministic=("cuda.backward",))
    operator.reference(reference)
    operator.second(second)
    operator.vjp(vjp)
    operator.cases(lambda draw, kind=kind: cases(draw, kind))
    operators.append(operator)
