"""Tensors out of numbers: ranges, windows, constants. No tensor goes in, so dtype and device are those under test."""

import math

import numpy

from golden import Case, Operator, Out, conditioned, exact
from golden import numpy_ad as np

operators = []


def factory(schema, reference, second, calls, tolerance, **options):
    operator = Operator(f"aten::{schema}", tolerance=tolerance, modes=(), **options)
    operator.reference(reference)
    operator.second(second)

    @operator.cases
    def cases(draw):
        for n, (attributes, fields) in enumerate(calls):
            yield Case(f"c{n}", args=attributes, **fields)

    operators.append(operator)


def spaced(start, end, count):
    """start + k (end - start) / (count - 1) on balls; count 1 gives start."""
    k = np.balls(numpy.arange(count, dtype=float))
    a, b = np.balls(float(start)), np.balls(float(end))
    return a + (b - a) * k / max(count - 1, 1)


def largest(start, end):
    """ATen computes from both ends: every element errs by the roundings of the larger end and of step · k."""
    return lambda outputs, **a: numpy.abs(outputs[0]) + abs(float(a[start])) + abs(float(a[end]))


factory("linspace", lambda start, end, steps: spaced(start, end, steps), lambda start, end, steps: numpy.linspace(start, end, steps),
        [({"start": a, "end": b, "steps": n}, {}) for a, b, n in ((3.0, 1.0, 1), (0.0, 1.0, 2), (-3.0, 7.0, 11), (1.0, -1.0, 17), (0.0, 100.0, 67), (1e6, 1e6 + 8, 33), (-2, 5, 8))],
        conditioned(float32=4, float64=4, why="docs/numerics.md#ranges"))
operators[-1].scale(largest("start", "end"))
factory("logspace", lambda start, end, steps, base=10.0: np.exp(spaced(start, end, steps) * np.ln(base)),
        lambda start, end, steps, base=10.0: numpy.array([base ** (start + k * (end - start) / max(steps - 1, 1)) for k in range(steps)]),
        [({"start": a, "end": b, "steps": n, "base": c}, {}) for a, b, n, c in ((0.0, 1.0, 1, 10.0), (-2.0, 3.0, 6, 10.0), (0.0, 5.0, 17, 2.0), (3.0, 0.5, 33, 2.5))],
        conditioned(float32=8, float64=8, why="docs/numerics.md#ranges"))
operators[-1].scale(lambda outputs, start, end, steps, base=10.0:
                    numpy.abs(outputs[0]) * (1 + (abs(start) + abs(end)) * abs(math.log(base))))
factory("arange.start_step", lambda start, end, step: np.balls(numpy.arange(math.ceil((end - start) / step)) * float(step)) + float(start),
        lambda start, end, step: numpy.array([start + k * step for k in range(math.ceil((end - start) / step))], dtype=float),
        [({"start": 0.0, "end": 5.0, "step": 1.0}, {}), ({"start": 1.0, "end": 2.0, "step": 0.125}, {}), ({"start": 5.0, "end": -3.0, "step": -0.5}, {}),
         ({"start": -7.0, "end": 300.0, "step": 2.25}, {}), ({"start": 0.0, "end": 0.5, "step": 1.0}, {"trivial": "one element, 0"})], conditioned(float32=2, float64=2))
factory("eye.m", lambda n, m: numpy.array([[float(i == j) for j in range(m)] for i in range(n)]), lambda n, m: numpy.eye(n, m),
        [({"n": a, "m": b}, {}) for a, b in ((1, 1), (3, 3), (2, 5), (5, 2), (33, 17))], exact(), plain=True)
for name, fill in (("ones", 1.0), ("full", 2.5)):
    attributes = [{"size": s, **({"fill_value": fill} if name == "full" else {})} for s in ((1,), (7, 3), (2, 3, 4), (33,))]
    factory(name, lambda size, fill_value=1.0: numpy.array([float(fill_value)] * int(numpy.prod(size))).reshape(size),
            lambda size, fill_value=1.0: numpy.ones(size) * fill_value, [(a, {}) for a in attributes], exact(), plain=True)
factory("zeros", lambda size: numpy.array([0.0] * int(numpy.prod(size))).reshape(size), lambda size: numpy.zeros(size),
        [({"size": s}, {"trivial": "zeros are asked for; the allocator is filled with NaN"}) for s in ((1,), (7, 3), (67,))], exact(), plain=True)
factory("scalar_tensor", lambda s: Out(numpy.array([float(s)]), shape=()), lambda s: numpy.float64(s), [({"s": v}, {}) for v in (2.5, -3, 16777216.0)], exact(), plain=True)
for name, keep in (("tril_indices", lambda i, j, o: j - i <= o), ("triu_indices", lambda i, j, o: j - i >= o)):
    index = numpy.tril_indices if name == "tril_indices" else numpy.triu_indices
    factory(name, lambda row, col, offset, dtype, keep=keep: numpy.array([(i, j) for i in range(row) for j in range(col) if keep(i, j, offset)], dtype=numpy.int64).reshape(-1, 2).T.copy(),
            lambda row, col, offset, dtype, index=index: numpy.array(index(row, offset, col)),
            [({"row": r, "col": c, "offset": o, "dtype": "int64"}, {}) for r, c, o in ((3, 3, 0), (2, 5, 1), (5, 2, -1))], exact(), plain=True)

# Windows: cosines over the (periodic) length. The cosine's argument carries an error of u times itself, up to pi times the coefficient.
WINDOW = conditioned(float32=16, float64=16, why="docs/numerics.md#windows")


def angle(window_length, periodic):
    n = window_length if periodic else window_length - 1
    return 2 * np.pi() * np.balls(numpy.arange(window_length, dtype=float)) / n


def cosines(*coefficients):
    def reference(window_length, periodic, **given):
        if window_length == 1:
            return np.balls(numpy.ones(1))
        a = [given.get(k, v) for k, v in coefficients]
        return a[0] - a[1] * np.cos(angle(window_length, periodic)) + (a[2] * np.cos(2 * angle(window_length, periodic)) if len(a) > 2 else 0)

    def second(window_length, periodic, **given):
        a = [given.get(k, v) for k, v in coefficients]
        n = window_length + periodic
        x = 2 * math.pi * numpy.arange(n) / max(n - 1, 1)
        w = a[0] - a[1] * numpy.cos(x) + (a[2] * numpy.cos(2 * x) if len(a) > 2 else 0)
        return numpy.ones(1) if window_length == 1 else w[:window_length]

    return reference, second


LENGTHS = [{"window_length": n, "periodic": p} for n in (1, 2, 7, 16, 33) for p in (True, False)]
for name, pair, extra in (
    ("hann_window.periodic", cosines(("a", 0.5), ("b", 0.5)), {}),
    ("hamming_window.periodic_alpha_beta", cosines(("alpha", 0.54), ("beta", 0.46)), {"alpha": 0.5625, "beta": 0.4375}),
    ("blackman_window.periodic", cosines(("a", 0.42), ("b", 0.5), ("c", 0.08)), {}),
):
    factory(name, *pair, [({**a, **extra}, {"trivial": "zero at both ends"} if a["window_length"] == 2 and not a["periodic"] else {}) for a in LENGTHS], WINDOW)
    operators[-1].scale(lambda outputs, **a: numpy.full(outputs[0].shape, 1 + math.pi))


def bartlett(window_length, periodic):
    n = np.balls(float(window_length if periodic else max(window_length - 1, 1)))
    k = np.balls(numpy.arange(window_length, dtype=float))
    if window_length == 1:
        return np.balls(numpy.ones(1))
    return 1 - np.absolute(2 * k / n - 1)


factory("bartlett_window.periodic", bartlett, lambda window_length, periodic: numpy.bartlett(window_length + periodic)[:window_length] if window_length > 1 else numpy.ones(1),
        [(a, {"trivial": "zero at both ends"} if a["window_length"] == 2 and not a["periodic"] else {}) for a in LENGTHS], WINDOW)
operators[-1].scale(lambda outputs, **a: numpy.full(outputs[0].shape, 2.0))


def i0(x):
    """Modified Bessel function of order 0, DLMF 10.25.2."""
    return np.elementwise(lambda v: v.bessel_i(0), x)


def kaiser(window_length, periodic, beta):
    if window_length == 1:
        return np.balls(numpy.ones(1))
    k = np.balls(numpy.arange(window_length, dtype=float))
    r = 2 * k / (window_length if periodic else window_length - 1) - 1
    inside = np.where(np.floats(1 - r * r) > 0, 1 - r * r, 0)
    return i0(np.balls(float(beta)) * np.sqrt(inside)) / i0(np.balls(numpy.array([float(beta)])))


factory("kaiser_window.beta", kaiser, lambda window_length, periodic, beta: numpy.kaiser(window_length + periodic, beta)[:window_length] if window_length > 1 else numpy.ones(1),
        [({**a, "beta": 12.0 if a["window_length"] % 2 else 5.5}, {}) for a in LENGTHS], conditioned(float32=64, float64=64, why="docs/numerics.md#windows"))
operators[-1].scale(lambda outputs, window_length, periodic, beta: numpy.abs(outputs[0]) * (1 + beta))
