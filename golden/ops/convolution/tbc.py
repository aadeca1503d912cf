"""aten::conv_tbc: a 1-D convolution of (time, batch, channels) with a weight (kernel, inputs, outputs), as sequence models use it."""

import numpy

from golden import Case, Operator, conditioned
from golden import numpy_ad as np

operator = Operator("aten::conv_tbc", tolerance=conditioned(tf32=32800), modes=("layouts", "math", "deterministic", "threads"))


@operator.reference
def conv_tbc(self, weight, bias, pad=0):
    x = np.pad(self, ((pad, pad), (0, 0), (0, 0)))
    times = x.shape[0] - weight.shape[0] + 1
    out = np.reshape(bias, (1, 1, -1))
    for k in range(weight.shape[0]):
        out = out + np.einsum("tbi,io->tbo", x[k : k + times], weight[k])
    return out


@operator.second
def second(self, weight, bias, pad=0):
    """One output position at a time; what lies beyond the ends is left out."""
    kernel, times = weight.shape[0], self.shape[0]
    out = numpy.zeros((times + 2 * pad - kernel + 1, self.shape[1], weight.shape[2]))
    for t, b in numpy.ndindex(*out.shape[:2]):
        seen = [k for k in range(kernel) if 0 <= t + k - pad < times]
        out[t, b] = bias + sum(self[t + k - pad, b] @ weight[k] for k in seen)
    return out


@operator.cases
def cases(draw):
    for name, (times, batch, inputs, outputs, kernel, pad) in {
        "t5_b2_i3_o4_k3_p1": (5, 2, 3, 4, 3, 1),
        "t1_b1_i1_o1_k1_p0": (1, 1, 1, 1, 1, 0),
        "t7_b3_i4_o2_k2_p0": (7, 3, 4, 2, 2, 0),
        "t3_b2_i2_o5_k5_p4": (3, 2, 2, 5, 5, 4),  # wider than the text: some positions see only padding
        "t4_b1_i17_o3_k1_p2": (4, 1, 17, 3, 1, 2),
    }.items():
        yield Case(name, self=draw.normal(times, batch, inputs), weight=draw.normal(kernel, inputs, outputs), bias=draw.normal(outputs), pad=pad)
    yield Case("tiny", self=draw.normal(3, 2, 4) * 2.0**-66, weight=draw.normal(2, 4, 3), bias=draw.normal(3) * 2.0**-66, pad=1)
    yield Case("channels_differ", self=draw.normal(5, 2, 3), weight=draw.normal(3, 4, 4), bias=draw.normal(4), pad=1, expect="error")
