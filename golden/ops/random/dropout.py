"""Dropout in its forms: each element is 0 (or the saturation value) or exactly scaled; how many is binomial."""

import numpy

from golden import Case, Operator, Out, exact
from golden.ops.random._intervals import FALSE_ALARM, binomial
from golden.ops.random.alpha_dropout import plain_values, together

FEW_CHANNELS = (1, 3, 4, 8)
operators = []


def either(dropped, kept, p, groups=1):
    """A statistic: each element is `dropped` or `kept`; groups of elements fall together."""
    n = kept.size // groups
    low, high = binomial(n, p)
    counts = [{"value": 0, "min": low * groups, "max": high * groups}] if p > 0 else []
    return {"support": {"values": [dropped, kept]}, "counts": counts, "false_alarm": FALSE_ALARM}


def masked(name, scaled, groups=lambda x: 1):
    """`scaled(input, p)`: (what a dropped, what a kept element becomes)."""
    operator = Operator(f"aten::{name}", tolerance=exact("support exactly, the number dropped by the binomial distribution"), modes=("layouts",), plain=True)

    @operator.reference
    def reference(input, p, train):
        if not train or p == 0:
            return input
        if p == 1:
            return input * 0.0
        if input.shape == FEW_CHANNELS:
            return together(input, p, plain_values)
        dropped, kept = scaled(input, p)
        return Out(shape=input.shape, statistic=either(dropped, kept, p, groups(input)))

    @operator.second
    def second(input, p, train):
        return numpy.array(input) if not train or p == 0 else numpy.zeros(input.shape)

    @operator.cases
    def cases(draw):
        def values(*shape):
            """Positive powers of two: their scaling is exact."""
            return 2.0 ** draw.integers(-3, 4, *shape)

        shape = (40, 50) if groups(numpy.zeros((40, 50, 2))) == 1 else (20, 50, 2)
        yield Case("eval", input=values(3, 5, 2), p=0.5, train=False)
        yield Case("p0", input=values(3, 5, 2), p=0.0, train=True, source="Flux#1781", note="p = 0 is the identity")
        yield Case("p1", input=values(3, 5, 2), p=1.0, train=True, backward=False, trivial="everything is dropped: zeros, not inf or NaN", source="Flux#1781")
        for p in (0.5, 0.75, 0.3):
            yield Case(f"p{int(p * 100)}", input=values(*shape), p=p, train=True, source="shainet#106" if p == 0.3 else None,
                       note="kept values are exactly x / (1 - p)")
        if len(shape) == 3:
            yield Case("together", input=draw.normal(*FEW_CHANNELS), p=0.5, train=True, note="32 elements a channel: all fall or none")

    operators.append(operator)


masked("dropout", lambda x, p: (x * 0.0, x / (1 - p)))
masked("feature_dropout", lambda x, p: (x * 0.0, x / (1 - p)), lambda x: x[0, 0].size)

native = Operator("aten::native_dropout", tolerance=exact("support exactly, the number dropped by the binomial distribution"), modes=("layouts",), plain=True,
                  differentiable=())


@native.reference
def native_reference(input, p, train):
    if not train:
        return input, numpy.ones(input.shape, dtype=bool)
    return Out(shape=input.shape, statistic=either(input * 0.0, input / (1 - p), p)), Out(shape=input.shape, dtype="bool", unchecked="output 0 shows it")


@native.second
def native_second(input, p, train):
    return input + 0.0, numpy.full(input.shape, True)


@native.cases
def native_cases(draw):
    yield Case("eval", input=draw.normal(4, 5), p=0.5, train=False)
    for p in (0.5, 0.3):
        yield Case(f"p{int(p * 100)}", input=2.0 ** draw.integers(-3, 4, 40, 50), p=p, train=True)


operators.append(native)

back = Operator("aten::native_dropout_backward", tolerance=exact("mask times scale, one rounding each of exact factors"), modes=("layouts",), plain=True, differentiable=())
back.reference(lambda grad_output, mask, scale: grad_output * mask * scale)
back.second(lambda grad_output, mask, scale: numpy.where(mask, grad_output * scale, 0.0 * grad_output))


@back.cases
def back_cases(draw):
    for n in (1, 33, 67):
        yield Case(f"n{n}", grad_output=draw.normal(n), mask=draw.integers(0, 2, n).astype(bool) | (numpy.arange(n) == 0), scale=2.0)


operators.append(back)
