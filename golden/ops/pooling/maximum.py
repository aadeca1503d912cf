"""Max pooling: the value, and the flat index of the first largest element of each window (a NaN wins); its gradient goes there."""

import itertools

import numpy

from golden import Case, Operator, exact, conditioned
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


def by_slices(x, kernel, rows):
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
        values = np.value(self)
        index = best(values if values.dtype == numpy.float64 else np.floats(values), rows)
        return (gather(self, index), index) if with_index else gather(self, index)

    @operator.second
    def second(self, kernel_size, stride=(), padding=(0,), dilation=(1,), ceil_mode=False):
        rows = positions(self.shape[2:], kernel_size, stride, padding if len(padding) == n else padding * n, dilation if len(dilation) == n else dilation * n, ceil_mode)
        values = by_slices(self, kernel_size, rows)
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
        values = np.value(self)
        index = best(values if values.dtype == numpy.float64 else np.floats(values), rows_of(self, output_size))
        return gather(self, index), index

    @operator.second
    def second(self, output_size):
        values = by_slices(self, None, rows_of(self, output_size))
        flat = self.reshape(*self.shape[:2], -1)
        return values, numpy.array([int(numpy.flatnonzero(flat[i[:2]] == values[i])[0]) for i in numpy.ndindex(*values.shape)]).reshape(values.shape)

    @operator.cases
    def cases(draw):
        size = {1: (11,), 2: (7, 6)}[n]
        for out in (1, 2, 3, 5):
            yield Case(f"to_{out}", self=draw.distinct(2, 3, *size), output_size=(out,) * n)

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


operators += [pool("max_pool1d", 1, False), pool("max_pool2d", 2, False), pool("max_pool3d", 3, False), pool("max_pool2d_with_indices", 2, True),
              adaptive_pool(1), adaptive_pool(2), unpool]
