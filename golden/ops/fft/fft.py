"""Discrete Fourier transforms by their definition: sum over k of x_k exp(-+2 pi i j k / n); checked by NumPy's FFT.

Scale: each output is a sum of |x_k| times numbers of modulus 1 (times the norm's factor), each rounded; an FFT adds log2(n) levels: bound 16 + log2(n)."""

import math

import numpy

from golden import Case, Operator, Out, conditioned, exact, pair
from golden import numpy_ad as np

MODES = ("layouts", "threads")
BOUND = conditioned(float32=24, float64=24, why="docs/numerics.md#fft")
operators = []


def twiddles(rows, columns, n, sign):
    """cos and sin of sign 2 pi j k / n as balls, (rows, columns); the angle is reduced exactly."""
    turn = (numpy.arange(rows)[:, None] * numpy.arange(columns)[None]) % n
    angle = np.balls(turn.astype(float)) * 2 * np.pi() / n
    return np.cos(angle), sign * np.sin(angle)


def factor(n, norm, forward):
    """1, 1/n or 1/sqrt(n)."""
    if norm == "ortho":
        return 1 / np.sqrt(np.balls(float(n)))
    return 1 if (norm == "forward") != forward else np.balls(1.0) / n


def apply(matrix, x, axis):
    return np.moveaxis(np.tensordot(matrix, x, axes=((1,), (axis,))), 0, axis)


def resized(x, n, axis):
    """Cut or padded with zeros along an axis."""
    have = x.shape[axis]
    if have >= n:
        return x[(slice(None),) * axis + (slice(0, n),)]
    return np.pad(x, tuple((0, n - have) if a == axis else (0, 0) for a in range(x.ndim)))


def transform(re, im, n, axis, sign, norm, forward, rows=None):
    """(re, im) of the transform along one axis; `rows`: only the first of the n outputs."""
    re, im = resized(re, n, axis), None if im is None else resized(im, n, axis)
    c, s = twiddles(rows or n, n, n, sign)
    f = factor(n, norm, forward)
    if im is None:
        return f * apply(c, re, axis), f * apply(s, re, axis)
    return f * (apply(c, re, axis) - apply(s, im, axis)), f * (apply(c, im, axis) + apply(s, re, axis))


def parts(x):
    return x[..., 0], x[..., 1]


def paired(re, im):
    return Out(np.stack([re, im], axis=-1), complex=True)


def mirrored(re, im, n, axis):
    """All n coefficients of a Hermitian spectrum out of its first n // 2 + 1; the imaginary parts of the first and, for even n, the middle one do not count."""
    half = n // 2 + 1
    re, im = resized(re, half, axis), resized(im, half, axis)
    ahead = (slice(None),) * axis
    keep = numpy.ones(half)
    keep[0] = 0
    if n % 2 == 0:
        keep[-1] = 0
    im = im * keep.reshape([-1 if a == axis else 1 for a in range(im.ndim)])
    back = numpy.arange((n - 1) // 2, 0, -1)
    return np.concatenate([re, re[(*ahead, back)]], axis=axis), np.concatenate([im, -im[(*ahead, back)]], axis=axis)


def one(name, kind):
    """kind: "c2c", "r2c", "c2r"; forward by the name."""
    operator = Operator(f"aten::fft_{name}", tolerance=BOUND, modes=MODES)
    inverse = name.startswith("i") or name == "hfft"
    forward = not name.startswith("i")  # which of the norm names scales
    sign = {"fft": -1, "ifft": 1, "rfft": -1, "ihfft": 1, "irfft": 1, "hfft": -1}[name]

    def lengths(x, n, axis):
        have = x.shape[axis]
        return n if n is not None else 2 * (have - 1) if kind == "c2r" else have

    def spatial(x, dim):
        ndim = x.ndim - (kind != "r2c" and name not in ("rfft", "ihfft") and x.shape[-1] == 2)
        return dim % ndim

    @operator.reference
    def reference(self, n=None, dim=-1, norm=None):
        axis = spatial(self, dim)
        if kind == "r2c":
            size = lengths(self, n, axis)
            return paired(*transform(self, None, size, axis, sign, norm, forward, size // 2 + 1))
        re, im = parts(self)
        size = lengths(re, n, axis)
        if kind == "c2c":
            return paired(*transform(re, im, size, axis, sign, norm, forward))
        re, im = mirrored(re, im, size, axis)
        return transform(re, im, size, axis, sign, norm, forward)[0]

    @operator.second
    def second(self, n=None, dim=-1, norm=None):
        z = self if kind == "r2c" else self[..., 0] + 1j * self[..., 1]
        out = getattr(numpy.fft, name)(numpy.asarray(z), n, spatial(self, dim), norm)
        return numpy.stack([out.real, out.imag], axis=-1) if kind != "c2r" else out

    def spread(values, axis, size, out_length, weight):
        """The sum of |values| along an axis, repeated, times the norm's factor."""
        total = numpy.sum(numpy.abs(values[(slice(None),) * axis + (slice(0, size),)]), axis=axis, keepdims=True) * weight
        return numpy.repeat(total, out_length, axis=axis)

    def weight(size, norm):
        return size**-0.5 if norm == "ortho" else 1.0 if (norm == "forward") != forward else 1.0 / size

    def modulus(x, is_complex):
        return numpy.hypot(x[..., 0], x[..., 1]) if is_complex else numpy.abs(x)

    @operator.scale
    def scale(outputs, self, n=None, dim=-1, norm=None):
        axis = spatial(self, dim)
        x = modulus(numpy.asarray(self), kind != "r2c")
        size = lengths(x, n, axis)
        out = outputs[0].shape[:-1] if kind != "c2r" else outputs[0].shape
        s = spread(x, axis, size, out[axis], weight(size, norm) * (2 if kind == "c2r" else 1))
        return s if kind == "c2r" else numpy.stack([s, s], axis=-1) / math.sqrt(2)

    @operator.backward_scale
    def backward_scale(gradients, upstream, self, n=None, dim=-1, norm=None):
        axis = spatial(self, dim)
        x = modulus(numpy.asarray(self), kind != "r2c")
        g = modulus(numpy.asarray(upstream[0]), kind != "c2r")
        size = lengths(x, n, axis)
        s = spread(g, axis, g.shape[axis], x.shape[axis], weight(size, norm) * (2 if kind == "c2r" else 1))
        return {"self": s if kind == "r2c" else numpy.stack([s, s], axis=-1) / math.sqrt(2)}

    @operator.cases
    def cases(draw):
        tensor = draw.normal if kind == "r2c" else draw.complex_normal
        for n in (1, 2, 3, 4, 7, 8, 16, 31):
            size = n if kind != "c2r" else n // 2 + 1
            yield Case(f"n{n}", self=tensor(size), **({"n": n} if kind == "c2r" else {}))
        yield Case("n131", self=tensor(131 if kind != "c2r" else 66), **({"n": 131} if kind == "c2r" else {}), backward=False, source="pytorch#67140", note="a prime beyond 127: Bluestein's algorithm")
        for norm in ("backward", "ortho", "forward"):
            yield Case(f"norm_{norm}", self=tensor(2, 5), n=6, norm=norm, note="padded from 5 to 6")
            yield Case(f"cut_{norm}", self=tensor(3, 7), n=5, norm=norm)
        yield Case("dim0", self=tensor(6, 3), dim=0)
        yield Case("dim1_of_3", self=tensor(2, 5, 3), dim=1)
        if kind == "c2r":
            yield Case("default_n", self=tensor(4), source="pytorch#19111", note="n = 2 (4 - 1): an odd length must be named")
        if kind == "c2c":
            huge = numpy.zeros((4, 2))
            huge[:, 1] = 2.0**126
            if inverse:
                yield Case("sum_overflows", self=pair(huge), dtypes=("float32",), backward=False, only=("cuda",), source="pytorch#156020",
                           note="the sum overflows float32, the mean does not; on a CPU the answer depends on which kernels MKL picks for its model")

    operators.append(operator)


for name, kind in (("fft", "c2c"), ("ifft", "c2c"), ("rfft", "r2c"), ("ihfft", "r2c"), ("irfft", "c2r"), ("hfft", "c2r")):
    one(name, kind)


for name, numpys in (("fftshift", numpy.fft.fftshift), ("ifftshift", numpy.fft.ifftshift)):
    operator = Operator(f"aten::fft_{name}", tolerance=exact(), modes=MODES, plain=True, scale="multilinear")
    back = name == "ifftshift"

    def moved(self, dim=None, back=back):
        for d in range(self.ndim) if dim is None else dim:
            n = self.shape[d]
            order = (numpy.arange(n) + (n // 2 if back else -(n // 2))) % n
            self = self[(slice(None),) * (d % self.ndim) + (order,)]
        return self

    operator.reference(moved)
    operator.second(lambda self, dim=None, f=numpys: f(self, dim))
    operator.cases(lambda draw: [Case(f"s{'x'.join(map(str, s))}_{n}", self=draw.normal(*s), dim=d) for n, (s, d) in enumerate((((7,), None), ((8,), (0,)), ((3, 4), None), ((3, 5), (1,))))])
    operators.append(operator)
