"""LSTM, GRU and plain RNN: whole sequences and single cells. Gate order and formulas as in torch.nn's documentation.

cuDNN's RNN kernels compute with fast tanh and sigmoid of their own: measured on an H200 at 18.5 effective bits where IEEE float32 was asked for;
the library's bound (docs/numerics.md#cudnn-rnn) is stated on its own, for that library alone."""

import numpy

from golden import Case, Operator, conditioned
from golden import numpy_ad as np

MODES = ("layouts", "math", "cudnn", "deterministic", "threads")
TOLERANCE = conditioned(tf32=32800)
CUDNN_WHY = "docs/numerics.md#cudnn-rnn: cuDNN's fast tanh and sigmoid give about 18 of float32's 24 bits; without cuDNN the bound is 16"


class Numpy:
    """The functions of the second formula, on plain arrays."""

    tanh = staticmethod(numpy.tanh)
    concatenate = staticmethod(numpy.concatenate)
    stack = staticmethod(numpy.stack)

    @staticmethod
    def expit(x):
        return (1 + numpy.tanh(x / 2)) / 2


def lstm_step(m, x, h, c, w_ih, w_hh, b_ih, b_hh):
    """i, f, g, o in this order; (N, H) each."""
    gates = x @ w_ih.T + h @ w_hh.T
    if b_ih is not None:
        gates = gates + b_ih + b_hh
    n = h.shape[1] if w_hh.shape[0] == 4 * h.shape[1] else c.shape[1]
    i, f, g, o = (gates[:, k * n : (k + 1) * n] for k in range(4))
    c = m.expit(f) * c + m.expit(i) * m.tanh(g)
    return m.expit(o) * m.tanh(c), c


def gru_step(m, x, h, _, w_ih, w_hh, b_ih, b_hh):
    """r, z, n in this order; the reset gate works on W_hn h + b_hn (cuDNN's variant, not Cho's)."""
    a, b = x @ w_ih.T, h @ w_hh.T
    if b_ih is not None:
        a, b = a + b_ih, b + b_hh
    n = h.shape[1]
    r, z = m.expit(a[:, :n] + b[:, :n]), m.expit(a[:, n : 2 * n] + b[:, n : 2 * n])
    new = m.tanh(a[:, 2 * n :] + r * b[:, 2 * n :])
    return (1 - z) * new + z * h, None


def tanh_step(m, x, h, _, w_ih, w_hh, b_ih, b_hh):
    a = x @ w_ih.T + h @ w_hh.T
    return m.tanh(a if b_ih is None else a + b_ih + b_hh), None


def relu_step(m, x, h, _, w_ih, w_hh, b_ih, b_hh):
    a = x @ w_ih.T + h @ w_hh.T
    a = a if b_ih is None else a + b_ih + b_hh
    return (numpy.maximum(a, 0) if m is Numpy else np.where(np.floats(a) > 0, a, 0 * a)), None


def sequence(m, step, input, h0, c0, params, has_biases, num_layers, bidirectional, batch_first, projected=False):
    """(output, h_n, c_n); params: w_ih, w_hh (, b_ih, b_hh) (, w_hr) a layer and direction; `projected`: h = o * tanh(c) W_hr^T."""
    x = input.transpose(1, 0, 2) if m is Numpy and batch_first else np.transpose(input, (1, 0, 2)) if batch_first else input
    directions, each = 2 if bidirectional else 1, 2 + 2 * has_biases + projected
    steps, hs, cs = x.shape[0], [], []
    for layer in range(num_layers):
        outs = []
        for d in range(directions):
            k = layer * directions + d
            p = list(params[k * each : (k + 1) * each])
            w_hr = p.pop() if projected else None
            p = p if has_biases else [*p, None, None]
            h, c, ys = h0[k], c0[k] if c0 is not None else None, [None] * steps
            for t in range(steps) if d == 0 else reversed(range(steps)):
                h, c = step(m, x[t], h, c, *p)
                h = h if w_hr is None else h @ w_hr.T
                ys[t] = h
            outs.append(m.stack(ys))
            hs.append(h)
            cs.append(c)
        x = outs[0] if directions == 1 else m.concatenate(outs, axis=2)
    if batch_first:
        x = x.transpose(1, 0, 2) if m is Numpy else np.transpose(x, (1, 0, 2))
    return x, m.stack(hs), m.stack(cs) if c0 is not None else None


def weights(draw, gates, inputs, hidden, layers=1, directions=1, biases=True, proj=0):
    """Parameters of every layer and direction, uniform in ±1/sqrt(hidden) times 1.5."""
    bound, out = 1.5 / hidden**0.5, []
    for layer in range(layers):
        for _ in range(directions):
            width = inputs if layer == 0 else directions * (proj or hidden)
            out += [draw.uniform(-bound, bound, gates * hidden, width), draw.uniform(-bound, bound, gates * hidden, proj or hidden)]
            out += [draw.uniform(-bound, bound, gates * hidden) for _ in range(2 if biases else 0)]
            out += [draw.uniform(-bound, bound, proj, hidden)] if proj else []
    return out


SHAPES = (  # name, T, N, inputs, hidden, layers, directions, biases, batch_first
    ("t5", 5, 2, 3, 2, 1, 1, True, False),
    ("t1", 1, 2, 2, 4, 1, 1, True, False),
    ("no_bias", 3, 2, 2, 2, 1, 1, False, False),
    ("two_layers", 3, 1, 2, 2, 2, 1, True, False),
    ("bidirectional", 3, 2, 2, 2, 1, 2, True, True),
)


def whole(name, step, gates, has_cell):
    operator = Operator(f"aten::{name}.input", tolerance=TOLERANCE, modes=MODES,
                        library_tolerance={"cudnn": conditioned(float32=128, float64=16, tf32=32800, why=CUDNN_WHY)})

    def run(m, input, hx, params, has_biases, num_layers, dropout, train, bidirectional, batch_first):
        h0, c0 = (hx[0], hx[1]) if has_cell else (hx, None)
        projected = has_cell and h0.shape[2] != c0.shape[2]
        out = sequence(m, step, input, h0, c0, params, has_biases, num_layers, bidirectional, batch_first, projected)
        return out if has_cell else out[:2]

    operator.reference(lambda **a: run(np, **a))
    operator.second(lambda **a: run(Numpy, **a))

    @operator.cases
    def cases(draw):
        for label, t, n, i, h, layers, directions, biases, batch_first in SHAPES:
            state = [draw.normal(layers * directions, n, h) for _ in range(2 if has_cell else 1)]
            yield Case(label, input=draw.normal(*((n, t) if batch_first else (t, n)), i), hx=state if has_cell else state[0],
                       params=weights(draw, gates, i, h, layers, directions, biases), has_biases=biases, num_layers=layers, dropout=0.0, train=True,
                       bidirectional=directions == 2, batch_first=batch_first,
                       source="pytorch#80306" if batch_first else None, note="batch_first leaves h_n as (layers * directions, N, H)" if batch_first else None)
        if has_cell:
            yield Case("projection", input=draw.normal(3, 2, 2), hx=[draw.normal(1, 2, 2), draw.normal(1, 2, 3)],
                       params=weights(draw, gates, 2, 3, proj=2), has_biases=True, num_layers=1, dropout=0.0, train=True, bidirectional=False,
                       batch_first=False, source="pytorch#139582", note="h has proj_size, c hidden_size; W_hr works at every step")

    return operator


def cell(name, step, gates, has_cell):
    operator = Operator(f"aten::{name}", tolerance=TOLERANCE, modes=("layouts", "math", "threads"))

    def run(m, input, hx, w_ih, w_hh, b_ih=None, b_hh=None):
        h, c = step(m, input, *(hx if has_cell else (hx, None)), w_ih, w_hh, b_ih, b_hh)
        return (h, c) if has_cell else h

    operator.reference(lambda **a: run(np, **a))
    operator.second(lambda **a: run(Numpy, **a))

    @operator.cases
    def cases(draw):
        for n, i, h, biases in ((2, 3, 2, True), (1, 5, 3, False), (3, 1, 1, True)):
            state = [draw.normal(n, h) for _ in range(2 if has_cell else 1)]
            w = weights(draw, gates, i, h, biases=biases)
            yield Case(f"n{n}_i{i}_h{h}", input=draw.normal(n, i), hx=state if has_cell else state[0],
                       **dict(zip(("w_ih", "w_hh", "b_ih", "b_hh"), w, strict=False)))
        if name == "gru_cell":
            one = numpy.ones((1, 1))
            yield Case("reset_after", input=one, hx=one, w_ih=numpy.ones((3, 1)), w_hh=numpy.ones((3, 1)), b_ih=numpy.zeros(3),
                       b_hh=numpy.array([0.0, 0.0, 1.0]), source="oneDNN#617",
                       note="0.99905 with the reset gate after W_hn h + b_hn, 0.99925 before")

    return operator


operators = [
    whole("lstm", lstm_step, 4, True), whole("gru", gru_step, 3, False), whole("rnn_tanh", tanh_step, 1, False), whole("rnn_relu", relu_step, 1, False),
    cell("lstm_cell", lstm_step, 4, True), cell("gru_cell", gru_step, 3, False), cell("rnn_tanh_cell", tanh_step, 1, False),
]
