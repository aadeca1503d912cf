"""Real and Hermitian transforms along several axes, and short-time transforms, by their definition; checked by NumPy's FFT and by least squares."""

import math

import numpy

from golden import Case, Operator, pair
from golden import numpy_ad as np
from golden.ops.fft.fft import BOUND, MODES, mirrored, paired, parts, resized, transform, twiddles
from golden.ops.fft.several import axes

operators = []
SWAPPED = {"forward": "backward", "ortho": "ortho", "backward": "forward", None: "forward"}


def numpys(name):
    """NumPy's function; of a Hermitian one its definition by the real one, conjugated and with the other norm."""
    base = name.rstrip("2n")
    many = name[len(base):]
    if base == "hfft":
        return lambda z, s, dim, norm: getattr(numpy.fft, f"irfft{many}")(numpy.conj(z), s, dim, SWAPPED[norm])
    if base == "ihfft":
        return lambda x, s, dim, norm: numpy.conj(getattr(numpy.fft, f"rfft{many}")(x, s, dim, SWAPPED[norm]))
    return getattr(numpy.fft, name)


def several(name, default):
    """`default`: the axes that ATen takes where none are named, or None. rfft and ihfft take real numbers, irfft and hfft return them."""
    operator = Operator(f"aten::fft_{name}", tolerance=BOUND, modes=MODES)
    to_complex, sign = name.startswith(("rfft", "ihfft")), 1 if name.startswith("i") else -1

    def sizes(shape, s, chosen):
        """Lengths of the transforms: the last one of a Hermitian spectrum counts all its coefficients."""
        own = [shape[a] for a in chosen]
        return list(s) if s is not None else own if to_complex else [*own[:-1], 2 * (own[-1] - 1)]

    @operator.reference
    def reference(self, s=None, dim=default, norm=None):
        re, im = (self, None) if to_complex else parts(self)
        chosen = axes(re.ndim, s, dim)
        lengths = sizes(re.shape, s, chosen)
        if to_complex:
            re, im = transform(re, None, lengths[-1], chosen[-1], sign, norm, sign < 0, lengths[-1] // 2 + 1)
        for axis, n in zip(chosen[:-1], lengths[:-1], strict=True):
            re, im = transform(re, im, n, axis, sign, norm, sign < 0)
        if to_complex:
            return paired(re, im)
        re, im = mirrored(re, im, lengths[-1], chosen[-1])
        return transform(re, im, lengths[-1], chosen[-1], sign, norm, sign < 0)[0]

    @operator.second
    def second(self, s=None, dim=default, norm=None):
        x = self if to_complex else self[..., 0] + 1j * self[..., 1]
        out = numpys(name)(numpy.asarray(x), s, axes(x.ndim, s, dim), norm)
        return numpy.stack([out.real, out.imag], axis=-1) if to_complex else out

    def spread(modulus, kept, chosen, lengths, norm, shape):
        """The sum of the moduli that count, twice those of a half spectrum, times the norm's factor."""
        n = math.prod(lengths)
        w = n**-0.5 if norm == "ortho" else 1.0 if (norm == "forward") == (sign > 0) else 1.0 / n
        m = modulus[tuple(slice(0, kept.get(a)) for a in range(modulus.ndim))]
        return numpy.broadcast_to(m.sum(axis=tuple(chosen), keepdims=True) * w * (1 if to_complex else 2), shape)

    def both(total):
        return numpy.stack([total, total], axis=-1) / math.sqrt(2)

    @operator.scale
    def scale(outputs, self, s=None, dim=default, norm=None):
        modulus = numpy.abs(self) if to_complex else numpy.hypot(self[..., 0], self[..., 1])
        chosen = axes(modulus.ndim, s, dim)
        lengths = sizes(modulus.shape, s, chosen)
        total = spread(modulus, dict(zip(chosen, lengths, strict=True)), chosen, lengths, norm, outputs[0].shape[:-1] if to_complex else outputs[0].shape)
        return both(total) if to_complex else total * 1.0

    @operator.backward_scale
    def backward_scale(gradients, upstream, self, s=None, dim=default, norm=None):
        g = numpy.hypot(upstream[0][..., 0], upstream[0][..., 1]) if to_complex else numpy.abs(upstream[0])
        shape = self.shape if to_complex else self.shape[:-1]
        chosen = axes(len(shape), s, dim)
        total = spread(g, {}, chosen, sizes(shape, s, chosen), norm, shape)
        return {"self": total * 1.0 if to_complex else both(total)}

    @operator.cases
    def cases(draw):
        tensor = draw.normal if to_complex else draw.complex_normal
        for shape in ((2, 3), (4, 4), (2, 5, 3), (3, 2)):
            for norm in (None, "ortho", "forward"):
                yield Case(f"s{'x'.join(map(str, shape))}_{norm or 'backward'}", self=tensor(*shape), norm=norm)
        for norm in (None, "forward"):
            yield Case(f"padded_and_cut_{norm or 'backward'}", self=tensor(3, 5), s=[4, 3], norm=norm)
        yield Case("odd", self=tensor(2, 4), s=[2, 7])
        yield Case("dims_2_0", self=tensor(3, 2, 4), dim=[2, 0])
        yield Case("s_and_dim", self=tensor(3, 2, 5), s=[2, 7], dim=[0, -1])
        if default is None:
            yield Case("one_axis", self=tensor(17))
            yield Case("three_axes_last_s", self=tensor(2, 3, 4), s=[3, 6])

    operators.append(operator)


for base in ("rfft", "irfft", "hfft", "ihfft"):
    several(f"{base}2", (-2, -1))
    several(f"{base}n", None)

# Short-time transforms ----------------------------------------------------------------------------------------------------------------------------


def fitted(window, win_length, n_fft):
    """The window in the middle of n_fft points; ones where none is given."""
    length = win_length or n_fft
    window = np.balls(numpy.ones(length)) if window is None else window
    left = (n_fft - length) // 2
    return np.pad(window, ((left, n_fft - length - left),))


def reflected(x, width, mode):
    """Padded at both ends of the last axis: reflected, constant 0 or replicated."""
    n = x.shape[-1]
    if mode == "constant":
        return np.pad(x, (*((0, 0) for _ in range(x.ndim - 1)), (width, width)))
    place = numpy.arange(-width, n + width)
    return x[..., numpy.clip(place, 0, n - 1) if mode == "replicate" else n - 1 - numpy.abs(n - 1 - numpy.abs(place))]


def stft(self, n_fft, hop_length=None, win_length=None, window=None, center=False, pad_mode="reflect", normalized=False, onesided=None, return_complex=True):
    """Frame k begins at k hop; (…, frequency, frame)."""
    hop, rows = hop_length or n_fft // 4, n_fft if onesided is False else n_fft // 2 + 1
    x = reflected(self, n_fft // 2, pad_mode) if center else self
    starts = numpy.arange(0, x.shape[-1] - n_fft + 1, hop)
    frames = x[..., starts[:, None] + numpy.arange(n_fft)[None]] * fitted(window, win_length, n_fft)
    c, s = twiddles(rows, n_fft, n_fft, -1)
    f = 1 / np.sqrt(np.balls(float(n_fft))) if normalized else 1
    re, im = (np.swapaxes(np.matmul(frames, np.transpose(m)), -1, -2) * f for m in (c, s))
    return paired(re, im)


def stft_second(self, n_fft, hop_length=None, win_length=None, window=None, center=False, pad_mode="reflect", normalized=False, onesided=None, return_complex=True):
    """NumPy's FFT of each frame, cut out one by one."""
    hop, length = hop_length or n_fft // 4, win_length or n_fft
    w = numpy.zeros(n_fft)
    w[(n_fft - length) // 2 : (n_fft - length) // 2 + length] = 1 if window is None else window
    modes = {"reflect": "reflect", "constant": "constant", "replicate": "edge"}
    x = numpy.pad(self, [(0, 0)] * (self.ndim - 1) + [(n_fft // 2, n_fft // 2)], modes[pad_mode]) if center else self
    transform = numpy.fft.fft if onesided is False else numpy.fft.rfft
    columns = [transform(x[..., k : k + n_fft] * w, norm="ortho" if normalized else None) for k in range(0, x.shape[-1] - n_fft + 1, hop)]
    z = numpy.stack(columns, axis=-1)
    return numpy.stack([z.real, z.imag], axis=-1)


def stft_scale(outputs, self, n_fft, **more):
    """The sum of |x w| over the frame, as any transform's: the definition itself on absolute values, at frequency 0."""
    window = more.get("window")
    sizes = stft_second(numpy.abs(self), n_fft, **more | {"window": None if window is None else numpy.abs(window)})[..., :1, :, 0]
    total = numpy.broadcast_to(sizes, outputs[0].shape[:-1])
    return numpy.stack([total, total], axis=-1) / math.sqrt(2)


def window_of(draw, n):
    """Positive and unlike at its ends, so that a turned window is found."""
    return draw.uniform(0.25, 1.0, n)


def stft_cases(centred):
    def cases(draw):
        def case(label, x, n_fft, **more):
            return Case(label, args={"self": x, "n_fft": n_fft, "return_complex": True, **({"center": True} if centred else {}), **more})

        yield case("n8", draw.normal(20), 8)
        yield case("windowed", draw.normal(20), 8, window=window_of(draw, 8), hop_length=3)
        yield case("short_window", draw.normal(18), 8, win_length=5, window=window_of(draw, 5), hop_length=4)
        yield case("no_window_short", draw.normal(14), 6, win_length=4, hop_length=2)
        yield case("batch", draw.normal(2, 12), 4, window=window_of(draw, 4), hop_length=2)
        yield case("two_sided", draw.normal(14), 6, onesided=False, hop_length=3, window=window_of(draw, 6))
        yield case("normalized", draw.normal(15), 7, normalized=True, hop_length=4, window=window_of(draw, 7))
        yield case("one_frame", draw.normal(8), 8, hop_length=8)
        if centred:
            for mode in ("constant", "replicate"):
                yield case(f"pad_{mode}", draw.normal(12), 6, pad_mode=mode, window=window_of(draw, 6), hop_length=3)
            yield case("not_centred", draw.normal(12), 4, center=False, hop_length=2)

    return cases


for overload, centred in (("", False), (".center", True)):
    # the gradient of overlapping frames is added up by index_add, whose order on CUDA is free
    operator = Operator(f"aten::stft{overload}", tolerance=BOUND, modes=MODES, nondeterministic=("cuda.backward",))
    operator.reference(stft)
    operator.second(stft_second)
    operator.scale(stft_scale)
    operator.cases(stft_cases(centred))
    operators.append(operator)


def inverse_frames(self, n_fft, onesided, normalized, return_complex):
    """(re, im), (…, frame, time): the inverse transform of each column, times sqrt(n) where it was normalized; a real signal's spectrum is told by its first half."""
    re, im = (np.swapaxes(p, -1, -2) for p in parts(self))
    if not return_complex:
        re, im = mirrored(re, im, n_fft, re.ndim - 1)
    return transform(re, im, n_fft, re.ndim - 1, 1, "ortho" if normalized else None, False)


def istft(self, n_fft, hop_length=None, win_length=None, window=None, center=True, normalized=False, onesided=None, length=None, return_complex=False):
    """Overlapping frames times the window, added up, over the sum of the squared windows; half a frame is cut off each end where centred."""
    hop, w = hop_length or n_fft // 4, fitted(window, win_length, n_fft)
    count = self.shape[-2]
    whole = n_fft + hop * (count - 1)
    start = n_fft // 2 if center else 0
    end = whole - start if length is None else start + length
    kept = slice(start, min(end, whole))

    def added(x):
        """The frames of (…, count, n_fft), each moved to its place."""
        edge = tuple((0, 0) for _ in x.shape[:-2])
        return sum(np.pad(x[..., k, :], (*edge, (k * hop, whole - n_fft - k * hop))) for k in range(count))[..., kept]

    envelope = added(np.reshape(w * w, (1, -1)) * numpy.ones((count, 1)))
    re, im = (added(part * w) / envelope for part in inverse_frames(self, n_fft, onesided, normalized, return_complex))
    if return_complex:
        return paired(re, im)
    return re if end <= whole else resized(re, length, re.ndim - 1)


def istft_second(self, n_fft, hop_length=None, win_length=None, window=None, center=True, normalized=False, onesided=None, length=None, return_complex=False):
    """The signal whose windowed frames come closest to the given ones: least squares (Griffin and Lim 1984)."""
    hop, size = hop_length or n_fft // 4, win_length or n_fft
    w = numpy.zeros(n_fft)
    w[(n_fft - size) // 2 : (n_fft - size) // 2 + size] = 1 if window is None else window
    z = numpy.swapaxes(self[..., 0] + 1j * self[..., 1], -1, -2)
    norm = "ortho" if normalized else None
    frames = numpy.fft.ifft(z, norm=norm) if onesided is False else numpy.fft.irfft(z, n_fft, norm=norm)
    frames = frames if return_complex else frames.real
    count = frames.shape[-2]
    whole = n_fft + hop * (count - 1)
    rows = numpy.concatenate([numpy.eye(whole)[k * hop : k * hop + n_fft] * w[:, None] for k in range(count)])
    signal = numpy.linalg.lstsq(rows, frames.reshape(-1, count * n_fft).T, rcond=None)[0].T.reshape(*frames.shape[:-2], whole)
    start = n_fft // 2 if center else 0
    out = signal[..., start : whole - start if length is None else start + length]
    if return_complex:
        return numpy.stack([out.real, out.imag], axis=-1)
    return out if length is None or out.shape[-1] == length else numpy.pad(out, [(0, 0)] * (out.ndim - 1) + [(0, length - out.shape[-1])])


def hermitian(draw, n, count):
    """The two-sided spectrum of a real signal: coefficient n - k is the conjugate of coefficient k."""
    z = draw.normal(n, count, 2)
    back = -numpy.arange(n) % n
    mirror = z[back] * numpy.array([1.0, -1.0])
    return pair(numpy.where((numpy.arange(n) <= back)[:, None, None], z, mirror) * numpy.where((numpy.arange(n) == back)[:, None, None], [1.0, 0.0], 1.0))


def istft_cases(draw):
    yield Case("n8", self=draw.complex_normal(5, 5), n_fft=8, hop_length=2, window=window_of(draw, 8))
    yield Case("no_window", self=draw.complex_normal(4, 4), n_fft=6, hop_length=3)
    yield Case("batch", self=draw.complex_normal(2, 3, 4), n_fft=4, hop_length=2, window=window_of(draw, 4))
    yield Case("two_sided", self=hermitian(draw, 6, 4), n_fft=6, hop_length=2, onesided=False, window=window_of(draw, 6), backward=False, note="ATen reads the first half and takes the other for its mirror image")
    yield Case("complex", self=draw.complex_normal(6, 4), n_fft=6, hop_length=2, onesided=False, window=window_of(draw, 6), return_complex=True)
    yield Case("normalized", self=draw.complex_normal(4, 4), n_fft=7, hop_length=3, normalized=True, window=window_of(draw, 7))
    yield Case("not_centred", self=draw.complex_normal(4, 3), n_fft=6, hop_length=3, center=False, window=window_of(draw, 6))
    yield Case("short_window", self=draw.complex_normal(5, 5), n_fft=8, hop_length=2, win_length=6, window=window_of(draw, 6))
    yield Case("longer", self=draw.complex_normal(4, 4), n_fft=6, hop_length=3, length=17, window=window_of(draw, 6), note="padded with zeros beyond the last frame")
    yield Case("cut", self=draw.complex_normal(4, 4), n_fft=6, hop_length=3, length=7, window=window_of(draw, 6))
    yield Case("empty_window", self=draw.complex_normal(3, 3), n_fft=4, hop_length=2, window=numpy.zeros(4), expect="error")


inverse = Operator("aten::istft", tolerance=BOUND, modes=MODES)
inverse.reference(istft)
inverse.second(istft_second)
inverse.cases(istft_cases)
operators.append(inverse)
