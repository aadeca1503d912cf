"""Max pooling: the value, and the flat index of the first largest element of each window (a NaN wins); its gradient goes there."""

import itertools
import math
from fractions import Fraction

import numpy

from golden import Case, Operator, conditioned, exact
from golden import numpy_ad as np
from golden.ops.pooling._windows import adaptive, starts

MODES = ("layouts", "channels_last", "cudnn", "deterministic", "threads")
operators = []


def positions(sizes, kernel, stride, padding, dilation, ceil_mode):
    """Per axis, the positions inside the input that each window sees."""
    rows = []
    for size, k, s, p, d in zip(sizes, kernel, stride or kernel, padding, dilation, strict=True):
        rows.append([[i for i in range(a, a + d * k, d) if 0 <= i < size] for a in starts(size, k, s, p, d, ceil_mode)])
    return rows


def best(x, rows):
    """Flat index (over the spatial axes) of the winner of each window, shape (N, C, windows…): the definition, in a loop."""
    n, c, *sizes = x.shape
    out = numpy.zeros((n, c, *map(len, rows)), dtype=numpy.int64)
    for i in numpy.ndindex(*out.shape):
        top = None
        for at in itertools.product(*(row[k] for row, k in zip(rows, i[2:], strict=True))):
            v = x[(*i[:2], *at)]
            if top is None or v > top[0] or (numpy.isnan(v) and not numpy.isnan(top[0])):
                top = (v, int(numpy.ravel_multi_index(at, sizes)))
        out[i] = top[1]
    return out


def gather(x, index):
    """x[n, c].flat[index[n, c, …]]."""
    n, c = x.shape[:2]
    flat = np.reshape(x, (n * c, -1))
    return np.reshape(flat[numpy.arange(n * c)[:, None], index.reshape(n * c, -1)], index.shape)


def by_slices(x, rows):
    """The second formula: the largest of the shifted copies (padding is -inf), and the first position that holds it."""
    out = numpy.empty((*x.shape[:2], *map(len, rows)))
    for i in itertools.product(*(range(len(r)) for r in rows)):
        box = x[numpy.ix_(range(x.shape[0]), range(x.shape[1]), *(r[k] for r, k in zip(rows, i, strict=True)))]
        out[(slice(None), slice(None), *i)] = box.reshape(*x.shape[:2], -1).max(-1)  # numpy.max hands NaN on
    return out


# At most one NaN a window: which of several gives the index is not defined.
SPECIAL = numpy.array([[1.0, 2.0, 2.0, -numpy.inf, -numpy.inf, 3.0], [2.0, numpy.nan, 0.5, -numpy.inf, -numpy.inf, 3.0], [0.0, -0.0, 1.0, -1.0, numpy.inf, 4.0],
                       [5.0, 5.0, 5.0, 5.0, numpy.nan, 5.0], [-numpy.inf, -numpy.inf, 1.0, 1.0, 1.0, 2.0], [-numpy.inf, -numpy.inf, 0.0, 0.0, 0.0, 1.0]])


def pool(name, n, with_index):
    # gradients of overlapping windows are sums; CUDA's max_pool3d backward uses atomicAdd
    operator = Operator(f"aten::{name}", tolerance=exact(), backward_tolerance=conditioned(), plain=True, scale="multilinear",
                        modes=MODES if n > 1 else ("layouts", "threads"), nondeterministic=("cuda.backward",) if n == 3 else ())

    @operator.reference
    def reference(self, kernel_size, stride=(), padding=(0,), dilation=(1,), ceil_mode=False):
        rows = positions(self.shape[2:], kernel_size, stride, padding if len(padding) == n else padding * n, dilation if len(dilation) == n else dilation * n, ceil_mode)
        index = best(np.floats(self), rows)
        return (gather(self, index), index) if with_index else gather(self, index)

    @operator.second
    def second(self, kernel_size, stride=(), padding=(0,), dilation=(1,), ceil_mode=False):
        rows = positions(self.shape[2:], kernel_size, stride, padding if len(padding) == n else padding * n, dilation if len(dilation) == n else dilation * n, ceil_mode)
        values = by_slices(self, rows)
        if not with_index:
            return values
        index = numpy.zeros(values.shape, dtype=numpy.int64)
        for i in numpy.ndindex(*values.shape):
            seen = [int(numpy.ravel_multi_index(p, self.shape[2:])) for p in itertools.product(*(r[k] for r, k in zip(rows, i[2:], strict=True)))]
            flat = self[i[:2]].reshape(-1)[seen]
            hit = numpy.isnan(flat) if numpy.isnan(flat).any() else flat == flat.max()
            index[i] = seen[int(numpy.flatnonzero(hit)[0])]
        return values, index

    @operator.cases
    def cases(draw):
        size = {1: (11,), 2: (7, 6), 3: (4, 5, 3)}[n]
        for k, s, p, d in ((2, 2, 0, 1), (3, 2, 1, 1), (3, 1, 1, 1), (2, 3, 1, 1), (2, 1, 0, 2), (2, 2, 1, 2)):
            for ceil_mode in (False, True):
                yield Case(f"k{k}_s{s}_p{p}_d{d}_ceil{int(ceil_mode)}", self=draw.distinct(2, 3, *size), kernel_size=(k,) * n, stride=(s,) * n, padding=(p,) * n,
                           dilation=(d,) * n, ceil_mode=ceil_mode)
        yield Case("ties", self=draw.integers(0, 3, 1, 2, *size).astype(float), kernel_size=(2,) * n, stride=(1,) * n, smooth=False, source="pytorch#7670",
                   note="the first of the largest gets the gradient")
        if n == 2:
            for name, kernel, stride, padding in (("k12_s11_p01", (1, 2), (1, 1), (0, 1)), ("k31_s12_p10", (3, 1), (1, 2), (1, 0)), ("k23_s31_p11", (2, 3), (3, 1), (1, 1))):
                yield Case(name, self=draw.distinct(2, 5, 5, 4), kernel_size=kernel, stride=stride, padding=padding)
            for c in (3, 8):
                yield Case(f"all_minus_inf_c{c}", self=numpy.full((1, c, 6, 7), -numpy.inf), kernel_size=(3, 3), stride=(2, 2), padding=(1, 1), ceil_mode=True, special=True,
                           source="pytorch#7670", note="every window is of -inf: -inf, and the index of its first element")
            for c in (1, 3):
                yield Case(f"special_c{c}", self=numpy.broadcast_to(SPECIAL, (1, c, 6, 6)).copy(), kernel_size=(2, 2), stride=(2, 2), special=True, source="pytorch#7670",
                           note="NaN wins, a window of -inf gives the index of its first element")
                yield Case(f"special_overlap_c{c}", self=numpy.broadcast_to(SPECIAL, (1, c, 6, 6)).copy(), kernel_size=(3, 3), stride=(2, 2), padding=(1, 1), special=True)

    return operator


def adaptive_pool(n):
    operator = Operator(f"aten::adaptive_max_pool{n}d", tolerance=exact(), backward_tolerance=conditioned(), plain=True, scale="multilinear",
                        modes=("layouts", "channels_last", "deterministic", "threads") if n > 1 else ("layouts", "threads"), nondeterministic=("cuda.backward",))

    def rows_of(self, output_size):
        return [[list(range(a, b)) for a, b in adaptive(size, m)] for size, m in zip(self.shape[2:], output_size, strict=True)]

    @operator.reference
    def reference(self, output_size):
        index = best(np.floats(self), rows_of(self, output_size))
        return gather(self, index), index

    @operator.second
    def second(self, output_size):
        rows = rows_of(self, output_size)
        values = by_slices(self, rows)
        index = numpy.zeros(values.shape, dtype=numpy.int64)
        for i in numpy.ndindex(*values.shape):
            seen = [int(numpy.ravel_multi_index(p, self.shape[2:])) for p in itertools.product(*(r[k] for r, k in zip(rows, i[2:], strict=True)))]
            flat = self[i[:2]].reshape(-1)[seen]
            index[i] = seen[int(numpy.flatnonzero(numpy.isnan(flat) if numpy.isnan(flat).any() else flat == flat.max())[0])]
        return values, index

    @operator.cases
    def cases(draw):
        size = {1: (11,), 2: (7, 6), 3: (4, 5, 3)}[n]
        for out in (1, 2, 3, 5):
            yield Case(f"to_{out}", self=draw.distinct(2, 3, *size), output_size=(out,) * n)
        yield Case("same_size", self=draw.distinct(1, 2, *size), output_size=size)
        yield Case("mixed", self=draw.distinct(1, 4, *(size[k] + k % 2 for k in range(n))), output_size=tuple(2 + k for k in range(n)), source="pytorch#60524",
                   note="divisible and non-divisible axes mixed")
        yield Case("ties", self=draw.integers(0, 3, 1, 2, *size).astype(float), output_size=(3,) * n, smooth=False, source="pytorch#7670", note="the first of the largest gets the gradient")
        if n == 2:
            for c in (1, 3):
                yield Case(f"special_c{c}", self=numpy.broadcast_to(SPECIAL, (1, c, 6, 6)).copy(), output_size=(3, 3), special=True, source="pytorch#7670",
                           note="NaN wins, a window of -inf gives the index of its first element")

    return operator


unpool = Operator("aten::max_unpool2d", tolerance=exact(), plain=True, scale="multilinear", modes=("layouts", "deterministic", "threads"), nondeterministic=())


@unpool.reference
def unpool_reference(self, indices, output_size):
    n, c = self.shape[:2]
    area = output_size[0] * output_size[1]
    where = numpy.full((n * c, area), self[0, 0].size)
    for row, index in enumerate(indices.reshape(n * c, -1)):
        where[row, index] = numpy.arange(index.size)
    flat = np.concatenate([np.reshape(self, (n * c, -1)), np.value(self).reshape(n * c, -1)[:, :1] * 0 + 0.0], axis=1)
    return np.reshape(flat[numpy.arange(n * c)[:, None], where], (n, c, *output_size))


@unpool.second
def unpool_second(self, indices, output_size):
    out = numpy.zeros((*self.shape[:2], output_size[0] * output_size[1]))
    for i in numpy.ndindex(*self.shape):
        out[(*i[:2], indices[i])] = self[i]
    return out.reshape(*self.shape[:2], *output_size)


@unpool.cases
def unpool_cases(draw):
    for c, size, out in ((1, (2, 2), (4, 4)), (3, (2, 3), (5, 6))):
        index = numpy.stack([numpy.sort(draw.permutation(out[0] * out[1])[: size[0] * size[1]]).reshape(size) for _ in range(2 * c)]).reshape(2, c, *size)
        yield Case(f"c{c}", self=draw.normal(2, c, *size), indices=index, output_size=out, source="pytorch#132041", note="unique indices: with duplicates the last or the first wins")


# Unpooling of a volume ---------------------------------------------------------------------------------------------------------------

unpool3 = Operator("aten::max_unpool3d", tolerance=exact(), plain=True, scale="multilinear", modes=("layouts", "deterministic", "threads"))


@unpool3.reference
def unpool3_reference(self, indices, output_size, stride, padding):
    rows, volume = self.shape[0] * self.shape[1], math.prod(output_size)
    where = numpy.full((rows, volume), self[0, 0].size)
    for row, index in enumerate(indices.reshape(rows, -1)):
        where[row, index] = numpy.arange(index.size)
    flat = np.concatenate([np.reshape(self, (rows, -1)), np.value(self).reshape(rows, -1)[:, :1] * 0 + 0.0], axis=1)
    return np.reshape(flat[numpy.arange(rows)[:, None], where], (*self.shape[:2], *output_size))


@unpool3.second
def unpool3_second(self, indices, output_size, stride, padding):
    out = numpy.zeros((*self.shape[:2], math.prod(output_size)))
    for i in numpy.ndindex(*self.shape):
        out[(*i[:2], indices[i])] = self[i]
    return out.reshape(*self.shape[:2], *output_size)


@unpool3.cases
def unpool3_cases(draw):
    """Each value goes somewhere into a window of its own, as max pooling with kernel = stride hands it over."""
    for n, c, size, stride in ((1, 1, (1, 2, 2), (2, 2, 2)), (2, 3, (2, 1, 2), (1, 3, 2)), (1, 2, (1, 1, 1), (2, 2, 3)), (2, 1, (2, 2, 1), (2, 1, 2))):
        output = tuple(a * b for a, b in zip(size, stride, strict=True))
        index = numpy.zeros((n, c, *size), dtype=numpy.int64)
        for i in numpy.ndindex(*index.shape):
            at = [k * s + int(draw.integers(0, s, 1)[0]) for k, s in zip(i[2:], stride, strict=True)]
            index[i] = numpy.ravel_multi_index(at, output)
        yield Case(f"s{'x'.join(map(str, index.shape))}", self=draw.normal(*index.shape), indices=index, output_size=output, stride=stride, padding=(0, 0, 0), source="pytorch#132041",
                   note="unique indices: with duplicates the last or the first wins")
    for value in (-1, 8):
        yield Case(f"index_{'negative' if value < 0 else 'beyond'}", self=draw.normal(1, 1, 1, 1, 1), indices=numpy.full((1, 1, 1, 1, 1), value), output_size=(2, 2, 2), stride=(2, 2, 2),
                   padding=(0, 0, 0), expect="error", only=["cpu"], source="pytorch#89409",
                   note="the device asserts asynchronously")


# Fractional max pooling (Graham 2014): windows of fixed size at pseudo-random starts -----------------------------------------------------


def fractional_starts(size, out, kernel, sample):
    """ATen's sequence: floor((i + s) a) - floor(s a), a = (in - kernel) / (out - 1); the last window ends with the input."""
    if out == 1:
        return [size - kernel]
    step, s = Fraction(size - kernel, out - 1), Fraction(float(sample))
    for i in range(out - 1):
        if abs((i + s) * step - round((i + s) * step)) < Fraction(1, 10**4) and step.denominator != 1:
            raise ValueError("rounding decides where a window starts: draw other samples")
    return [math.floor((i + s) * step) - math.floor(s * step) for i in range(out - 1)] + [size - kernel]


def fractional(n):
    # The gradient of overlapping windows is a sum, with atomicAdd on CUDA. Samples are (N, C, n): the first column belongs to the last axis in 2-D, to the
    # first one in 3-D (FractionalMaxPool2d.cpp, FractionalMaxPool3d.cpp).
    operator = Operator(f"aten::fractional_max_pool{n}d", tolerance=exact(), backward_tolerance=conditioned(), plain=True, scale="multilinear", differentiable=("self",),
                        modes=("layouts", "deterministic", "threads"), nondeterministic=("cuda.backward",))

    def rows_of(sizes, kernel, outs, samples):
        samples = samples[::-1] if n == 2 else samples
        return [[list(range(a, a + k)) for a in fractional_starts(size, out, k, s)] for size, out, k, s in zip(sizes, outs, kernel, samples, strict=True)]

    @operator.reference
    def reference(self, kernel_size, output_size, random_samples):
        plain = np.value(self)
        plain = plain if plain.dtype == numpy.float64 else np.floats(plain)
        samples = np.value(random_samples)
        samples = samples if samples.dtype == numpy.float64 else np.floats(samples)
        index = numpy.zeros((*self.shape[:2], *output_size), dtype=numpy.int64)
        for i in numpy.ndindex(*self.shape[:2]):
            index[i] = best(plain[i][None, None], rows_of(self.shape[2:], kernel_size, output_size, samples[i]))[0, 0]
        return gather(self, index), index

    @operator.second
    def second(self, kernel_size, output_size, random_samples):
        values, index = numpy.zeros((*self.shape[:2], *output_size)), numpy.zeros((*self.shape[:2], *output_size), dtype=numpy.int64)
        numbers = numpy.arange(math.prod(self.shape[2:])).reshape(self.shape[2:])
        for i in numpy.ndindex(*values.shape):
            s = random_samples[i[:2]][::-1] if n == 2 else random_samples[i[:2]]
            box = []
            for size, out, k, at, sample in zip(self.shape[2:], output_size, kernel_size, i[2:], s, strict=True):
                step = (size - k) / (out - 1) if out > 1 else 0.0
                start = size - k if at == out - 1 else int((at + sample) * step) - int(sample * step)
                box.append(slice(start, start + k))
            window = self[i[:2]][tuple(box)]
            values[i] = window.max()
            hit = numpy.isnan(window) if numpy.isnan(window).any() else window == window.max()
            index[i] = numbers[tuple(box)][hit][0]
        return values, index

    @operator.cases
    def cases(draw):
        sizes = {2: (((7, 6), (2, 3), (3, 2)), ((8, 5), (2, 2), (4, 3)), ((6, 6), (3, 3), (3, 3)), ((5, 4), (1, 2), (1, 1)), ((4, 4), (2, 2), (3, 3))),
                 3: (((5, 5, 4), (2, 2, 2), (2, 3, 2)), ((5, 4, 5), (1, 2, 3), (3, 2, 2)), ((4, 4, 4), (2, 2, 2), (2, 2, 2)), ((4, 3, 3), (2, 1, 2), (1, 2, 1)))}[n]
        for size, kernel, out in sizes:
            yield Case(f"s{'x'.join(map(str, size))}_k{''.join(map(str, kernel))}_to_{''.join(map(str, out))}", self=draw.distinct(2, 2, *size), kernel_size=kernel, output_size=out,
                       random_samples=draw.uniform(0.0625, 0.9375, 2, 2, n))
        yield Case("ties", self=draw.integers(0, 3, 1, 2, *(5,) * n).astype(float), kernel_size=(2,) * n, output_size=(3,) * n, random_samples=draw.uniform(0.0625, 0.9375, 1, 2, n), smooth=False,
                   source="pytorch#7670", note="the first of the largest gets the gradient")
        if n == 2:
            yield Case("special", self=numpy.broadcast_to(SPECIAL, (1, 2, 6, 6)).copy(), kernel_size=(2, 2), output_size=(3, 3), random_samples=numpy.full((1, 2, 2), 0.25), special=True,
                       source="pytorch#7670", note="NaN wins, a window of -inf gives the index of its first element")

    return operator


operators += [unpool3, fractional(2), fractional(3), adaptive_pool(3), pool("max_pool1d_with_indices", 1, True), pool("max_pool3d_with_indices", 3, True)]
operators += [pool("max_pool1d", 1, False), pool("max_pool2d", 2, False), pool("max_pool3d", 3, False), pool("max_pool2d_with_indices", 2, True),
              adaptive_pool(1), adaptive_pool(2), unpool]
