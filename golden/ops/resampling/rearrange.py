"""pixel_shuffle, pixel_unshuffle, channel_shuffle: copies in another order; im2col and its transpose col2im: windows as columns, and their sum."""

import itertools

import numpy

from golden import Case, Operator, conditioned, exact
from golden import numpy_ad as np

MODES = ("layouts", "channels_last", "deterministic", "threads")
shuffle = Operator("aten::pixel_shuffle", tolerance=exact(), backward_tolerance=exact(), plain=True, scale="multilinear", modes=MODES)
unshuffle = Operator("aten::pixel_unshuffle", tolerance=exact(), backward_tolerance=exact(), plain=True, scale="multilinear", modes=MODES)
im2col = Operator("aten::im2col", tolerance=exact(), backward_tolerance=conditioned(), plain=True, scale="multilinear", modes=MODES)
col2im = Operator("aten::col2im", tolerance=conditioned(), scale="multilinear", modes=("layouts", "deterministic", "threads"))
operators = [shuffle, unshuffle, im2col, col2im]


def special(*shape):
    return numpy.resize(numpy.array([1.0, numpy.nan, -0.0, numpy.inf, -numpy.inf, 2.0, 0.0]), shape)


# Pixel shuffles: (…, C r^2, H, W) <-> (…, C, H r, W r) ---------------------------------------------------------------------------------


@shuffle.reference
def shuffle_reference(self, upscale_factor):
    *batch, c, h, w = self.shape
    r, n = upscale_factor, len(batch)
    x = np.reshape(self, (*batch, c // r**2, r, r, h, w))
    return np.reshape(np.transpose(x, (*range(n), n, n + 3, n + 1, n + 4, n + 2)), (*batch, c // r**2, h * r, w * r))


@shuffle.second
def shuffle_second(self, upscale_factor):
    *batch, c, h, w = self.shape
    r = upscale_factor
    out = numpy.empty((*batch, c // r**2, h * r, w * r))
    for k, i, j in numpy.ndindex(*out.shape[-3:]):
        out[..., k, i, j] = self[..., k * r * r + i % r * r + j % r, i // r, j // r]
    return out


@unshuffle.reference
def unshuffle_reference(self, downscale_factor):
    *batch, c, h, w = self.shape
    r, n = downscale_factor, len(batch)
    x = np.reshape(self, (*batch, c, h // r, r, w // r, r))
    return np.reshape(np.transpose(x, (*range(n), n, n + 2, n + 4, n + 1, n + 3)), (*batch, c * r**2, h // r, w // r))


@unshuffle.second
def unshuffle_second(self, downscale_factor):
    *batch, c, h, w = self.shape
    r = downscale_factor
    out = numpy.empty((*batch, c * r * r, h // r, w // r))
    for k, i, j in numpy.ndindex(c, h, w):
        out[..., k * r * r + i % r * r + j % r, i // r, j // r] = self[..., k, i, j]
    return out


@shuffle.cases  # not with five dimensions: ATen refuses channels_last_3d, which a batch of batches is not
def shuffle_cases(draw):
    for shape, r in (((2, 4, 3, 2), 2), ((1, 9, 2, 3), 3), ((2, 8, 1, 1), 2), ((1, 3, 4, 5), 1), ((8, 2, 3), 2), ((1, 2, 1, 4, 2, 2), 2), ((1, 16, 2, 2), 4)):
        yield Case(f"s{'x'.join(map(str, shape))}_r{r}", self=draw.normal(*shape), upscale_factor=r)
    yield Case("special", self=special(1, 4, 2, 3), upscale_factor=2, special=True)
    yield Case("channels_indivisible", self=draw.normal(1, 6, 2, 2), upscale_factor=2, expect="error")


@unshuffle.cases
def unshuffle_cases(draw):
    for shape, r in (((2, 1, 6, 4), 2), ((1, 2, 6, 9), 3), ((2, 2, 2, 2), 2), ((1, 3, 4, 5), 1), ((2, 4, 6), 2), ((1, 2, 1, 1, 4, 4), 2), ((1, 1, 8, 4), 4)):
        yield Case(f"s{'x'.join(map(str, shape))}_r{r}", self=draw.normal(*shape), downscale_factor=r)
    yield Case("special", self=special(1, 1, 4, 6), downscale_factor=2, special=True)
    yield Case("height_indivisible", self=draw.normal(1, 1, 5, 4), downscale_factor=2, expect="error")


# Channel shuffle: channel g (C / groups) + k goes to k groups + g ---------------------------------------------------------------------


def channels(name):
    operator = Operator(f"aten::{name}", tolerance=exact(), backward_tolerance=exact(), plain=True, scale="multilinear", modes=MODES)

    @operator.reference
    def reference(self, groups):
        n, c, *rest = self.shape
        return np.reshape(np.swapaxes(np.reshape(self, (n, groups, c // groups, *rest)), 1, 2), self.shape)

    operator.second(lambda self, groups: self[:, [k % groups * (self.shape[1] // groups) + k // groups for k in range(self.shape[1])]])

    @operator.cases
    def cases(draw):
        for shape, groups in (((2, 6, 2, 3), 2), ((2, 6, 2, 3), 3), ((1, 8, 3, 3), 4), ((1, 5, 2, 2), 1), ((1, 5, 2, 2), 5), ((3, 4, 1, 1), 2), ((2, 24, 2, 2), 3), ((1, 4, 2, 2, 2), 2)):
            yield Case(f"s{'x'.join(map(str, shape))}_g{groups}", self=draw.normal(*shape), groups=groups)
        yield Case("special", self=special(1, 4, 2, 3), groups=2, special=True)

    return operator


operators += [channels("channel_shuffle")]

# im2col, col2im -----------------------------------------------------------------------------------------------------------------------


def places(size, kernel, dilation, padding, stride):
    """Per kernel row and column, then per window: the position along an axis; outside where it falls into the padding."""
    axes = []
    for n, k, d, p, s in zip(size, kernel, dilation, padding, stride, strict=True):
        count = (n + 2 * p - d * (k - 1) - 1) // s + 1
        axes.append([[b * s - p + a * d for b in range(count)] for a in range(k)])
    return axes


def columns(x, kernel_size, dilation, padding, stride):
    """out[n, c kh kw + …, l] = x[n, c, place]; a zero from the padding. x is (N, C, H, W)."""
    n, c, h, w = x.shape
    rows, cols = places((h, w), kernel_size, dilation, padding, stride)
    zero = np.value(x)[:, :, :1, :1].reshape(n, c, 1) * 0 if np.value(x).dtype == object else numpy.zeros((n, c, 1))
    flat = np.concatenate([np.reshape(x, (n, c, h * w)), zero], axis=2)
    at = numpy.array([[[i * w + j if 0 <= i < h and 0 <= j < w else h * w for i in r for j in q] for q in cols] for r in rows])
    return np.reshape(flat[:, :, at.reshape(-1)], (n, c * at.shape[0] * at.shape[1], at.shape[2]))


@im2col.reference
def im2col_reference(self, kernel_size, dilation, padding, stride):
    out = columns(self if self.ndim == 4 else np.reshape(self, (1, *self.shape)), kernel_size, dilation, padding, stride)
    return out if self.ndim == 4 else out[0]


@im2col.second
def im2col_second(self, kernel_size, dilation, padding, stride):
    x = self if self.ndim == 4 else self[None]
    wide = numpy.pad(x, ((0, 0), (0, 0), *((p, p) for p in padding)))
    count = [(s - d * (k - 1) - 1) // t + 1 for s, d, k, t in zip(wide.shape[2:], dilation, kernel_size, stride, strict=True)]
    parts = []
    for c in range(x.shape[1]):
        for i, j in numpy.ndindex(*kernel_size):
            top, left = i * dilation[0], j * dilation[1]
            part = wide[:, c, top : top + (count[0] - 1) * stride[0] + 1 : stride[0], left : left + (count[1] - 1) * stride[1] + 1 : stride[1]]
            parts.append(part.reshape(x.shape[0], -1))
    out = numpy.stack(parts, axis=1)
    return out if self.ndim == 4 else out[0]


def attributes():
    """kernel, dilation, padding, stride, crossed; the axes differ."""
    yield from (((2, 2), (1, 1), (0, 0), (1, 1)), ((3, 2), (1, 2), (1, 0), (2, 1)), ((2, 3), (2, 1), (1, 1), (1, 2)), ((1, 1), (1, 1), (0, 0), (2, 2)),
                ((3, 3), (1, 1), (2, 1), (3, 2)), ((2, 2), (2, 2), (1, 1), (2, 2)), ((1, 2), (1, 1), (0, 1), (1, 1)))


def label(*groups):
    return "_".join(letter + "".join(map(str, g)) for letter, g in zip("kdps", groups, strict=True))


@im2col.cases
def im2col_cases(draw):
    for k, d, p, s in attributes():
        yield Case(label(k, d, p, s), self=draw.normal(2, 2, 5, 4), kernel_size=k, dilation=d, padding=p, stride=s)
    yield Case("no_batch", self=draw.normal(3, 4, 5), kernel_size=(2, 3), dilation=(1, 1), padding=(1, 0), stride=(1, 1))
    yield Case("whole", self=draw.normal(1, 2, 3, 4), kernel_size=(3, 4), dilation=(1, 1), padding=(0, 0), stride=(1, 1))
    yield Case("special", self=special(1, 2, 3, 4), kernel_size=(2, 2), dilation=(1, 1), padding=(1, 1), stride=(1, 1), special=True)
    yield Case("kernel_too_large", self=draw.normal(1, 1, 2, 2), kernel_size=(3, 3), dilation=(1, 1), padding=(0, 0), stride=(1, 1), expect="error")


@col2im.reference
def col2im_reference(self, output_size, kernel_size, dilation, padding, stride):
    """The matrix of im2col, transposed: one-hot rows."""
    n = self.shape[0]
    rows, cols = places(output_size, kernel_size, dilation, padding, stride)
    h, w = output_size
    c = self.shape[1] // (len(rows) * len(cols))
    x = np.reshape(self, (n, c, len(rows), len(cols), len(rows[0]), len(cols[0])))
    down, across = (numpy.array([[[float(v == m) for v in line] for line in axis] for m in range(size)]) for axis, size in ((rows, h), (cols, w)))
    return np.einsum("ncabij,hai,wbj->nchw", x, down, across)


@col2im.second
def col2im_second(self, output_size, kernel_size, dilation, padding, stride):
    area = kernel_size[0] * kernel_size[1]
    out = numpy.zeros((self.shape[0], self.shape[1] // area, *output_size))
    rows, cols = places(output_size, kernel_size, dilation, padding, stride)
    for (a, r), (b, q) in itertools.product(enumerate(rows), enumerate(cols)):
        for (i, y), (j, x) in itertools.product(enumerate(r), enumerate(q)):
            if 0 <= y < output_size[0] and 0 <= x < output_size[1]:
                out[:, :, y, x] += self[:, a * kernel_size[1] + b :: area, i * len(q) + j]
    return out


@col2im.cases
def col2im_cases(draw):
    for k, d, p, s in attributes():
        rows, cols = places((5, 4), k, d, p, s)
        yield Case(label(k, d, p, s), self=draw.normal(2, 2 * len(rows) * len(cols), len(rows[0]) * len(cols[0])), output_size=(5, 4), kernel_size=k, dilation=d, padding=p, stride=s)
    yield Case("counting", self=numpy.ones((1, 9, 12)), output_size=(3, 4), kernel_size=(3, 3), dilation=(1, 1), padding=(1, 1), stride=(1, 1),
               note="ones: the output counts the windows that see a pixel")
