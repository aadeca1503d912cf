"""Backward operators of the activations at NaN: whatever the policy, equal inputs must give equal gradients, in a vector's body and tail.

ATen documents no gradient at NaN, and its scalar and vector code differ. So the golden is a set of three answers for the whole tensor: no
gradient, the upstream gradient (times the slope of a branch), or NaN. The ordinary values are checked through the forward operators."""

import math

import numpy

from golden import Case, Operator, Out, exact

operators = []
LENGTHS = (1, 7, 9, 16, 17, 31, 33, 67)
UPSTREAM = 0.75
NOTE = "equal inputs give equal outputs: a NaN in a vector's body and one in its tail get the same gradient"


def add(schema, names, slopes, **attributes):
    """`names`: the upstream gradient's and the input's argument; `slopes`: d out/d in of the branches that a comparison
    with NaN may take."""
    operator = Operator(
        f"aten::{schema}", tolerance=exact("one policy for every NaN"), differentiable=(), modes=("layouts", "threads"), plain=True
    )

    @operator.reference
    def nan_gradient(**given):
        shape = given[names[1]].shape
        answers = [numpy.full(shape, v) for v in (*(UPSTREAM * s for s in slopes), math.nan)]
        return Out(shape=shape, members=answers, whole=True, gauge="members", bound=1, why="a slope may be rounded once")

    operator.second(nan_gradient)

    @operator.cases
    def cases(draw):
        for n in LENGTHS:
            yield Case(
                f"nan_n{n}",
                args={names[0]: numpy.full(n, UPSTREAM), names[1]: numpy.full(n, math.nan), **attributes},
                special=True,
                source="pytorch#195075",
                note=NOTE,
            )

    operators.append(operator)


PAIR = ("grad_output", "self")
add("hardtanh_backward", PAIR, (0.0, 1.0), min_val=-1.0, max_val=1.0)
add("hardshrink_backward", ("grad_out", "self"), (0.0, 1.0), lambd=0.5)
add("softshrink_backward", PAIR, (0.0, 1.0), lambd=0.5)
add("hardswish_backward", PAIR, (0.0, 1.0))
add("hardsigmoid_backward", PAIR, (0.0, 1 / 6))
add("leaky_relu_backward", PAIR, (0.125, 1.0), negative_slope=0.125, self_is_result=False)
add("elu_backward", ("grad_output", "self_or_result"), (0.0, 1.0), alpha=1.0, scale=1.0, input_scale=1.0, is_result=False)
add("logit_backward", PAIR, (0.0,), eps=0.125)
add("softplus_backward", PAIR, (0.0, 1.0), beta=1.0, threshold=20.0)
