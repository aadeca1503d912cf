"""Places of what is not zero, writes by stride, and masked reads that never look outside."""

import numpy

from golden import Case, conditioned, exact
from golden import numpy_ad as np
from golden.ops.indexing.indexing import written
from golden.table import Table

table = Table(tolerance=exact(), backward_tolerance=conditioned(), modes=("layouts", "deterministic", "threads"), plain=True, scale="multilinear")
add, operators = table.add, table.operators
SHAPES = ((7,), (3, 4), (2, 3, 4), (257,))


def label(shape):
    return "s" + "x".join(map(str, shape))


def found(self):
    return numpy.array([i for i in numpy.ndindex(*self.shape) if self[i] != 0 or numpy.isnan(self[i])]).reshape(-1, self.ndim)


def sparse(draw, shape):
    return draw.integers(0, 2, *shape) * draw.normal(*shape)


add("argwhere", lambda self: numpy.argwhere(self != 0), found, lambda draw: [Case(label(s), self=sparse(draw, s)) for s in SHAPES]
    + [Case("special", self=numpy.array([0.0, -0.0, numpy.nan, numpy.inf, 1.0]))], differentiable=())


def fixed(places, size, fill_value):
    """The first `size` rows; what lacks is filled."""
    rows = places[:size]
    return numpy.concatenate([rows, numpy.full((size - len(rows), places.shape[1]), fill_value, dtype=numpy.int64)])


add("nonzero_static", lambda self, size, fill_value=-1: fixed(numpy.argwhere(self != 0), size, fill_value), lambda self, size, fill_value=-1: fixed(found(self), size, fill_value),
    lambda draw: [Case(f"{label(s)}_size{n}_fill{str(f).replace('-', 'm')}", self=sparse(draw, s), size=n, fill_value=f) for s in SHAPES for n, f in ((2, -1), (300, -1), (300, 7))], differentiable=())


def by_stride(size, stride, storage_offset):
    """The flat place of each element of the view."""
    return storage_offset + sum(k * s for k, s in zip(numpy.indices(size), stride, strict=True))


def strided_scatter(self, src, size, stride, storage_offset=0):
    def place(number, source):
        number.reshape(-1)[by_stride(size, stride, storage_offset)] = source

    return written(self, src, place)


def strided_scatter_second(self, src, size, stride, storage_offset=0):
    out = self.copy()
    for i in numpy.ndindex(*size):
        out.reshape(-1)[storage_offset + sum(k * s for k, s in zip(i, stride, strict=True))] = src[i]
    return out


add("as_strided_scatter", strided_scatter, strided_scatter_second,
    lambda draw: [Case(f"c{k}", self=draw.normal(*s), src=draw.normal(*size), size=size, stride=stride, storage_offset=o)
                  for k, (s, size, stride, o) in enumerate((((12,), (2, 3), (6, 2), 1), ((3, 4), (3,), (5,), 0), ((4, 5), (2, 2), (10, 3), 1), ((33,), (8,), (4,), 0)))], modes=("deterministic", "threads"))


def masked(self, mask, indices, fill):
    """self[indices] where the mask is true; else the fill, whatever the index."""
    safe = tuple(numpy.where(mask, i, 0) for i in indices)
    return np.where(mask, self[safe], fill + 0 * np.value(self[safe]))


def masked_second(self, mask, indices, fill):
    return numpy.array([self[tuple(int(i.flat[k]) for i in indices)] if m else fill for k, m in enumerate(mask.flat)], dtype=float).reshape(mask.shape)


def masked_cases(draw):
    for shape, count in (((5,), (9,)), ((4, 6), (3, 5)), ((2, 3, 4), (17,))):
        inside = [draw.integers(0, n, *count) for n in shape]
        mask = (numpy.arange(int(numpy.prod(count))) % 3 != 1).reshape(count)
        yield Case(label(shape), self=draw.normal(*shape), mask=mask, indices=inside, fill=1.5)
        yield Case(f"{label(shape)}_outside", self=draw.normal(*shape), mask=mask, indices=[numpy.where(mask, i, 1000) for i in inside], fill=-2.0, note="an index that the mask hides is not looked at")


add("_unsafe_masked_index", masked, masked_second, masked_cases, nondeterministic=("cuda.backward",))


def accumulated(self, mask, indices, values):
    """self plus the values, each at its index, where the mask is true."""
    flat = numpy.ravel_multi_index(tuple(numpy.where(mask, i, 0) for i in indices), self.shape).ravel()
    pick = (numpy.arange(self.size)[:, None] == flat[None]) * mask.reshape(1, -1) * 1.0
    return np.reshape(np.reshape(self, (-1,)) + np.matmul(np.balls(pick), np.reshape(values, (-1, 1)))[:, 0], self.shape)


def accumulated_second(self, mask, indices, values):
    out = self.copy()
    for k in numpy.ndindex(*mask.shape):
        if mask[k]:
            out[tuple(int(i[k]) for i in indices)] += values[k]
    return out


def accumulated_cases(draw):
    for case in masked_cases(draw):
        case.args["values"] = draw.normal(*case.args["mask"].shape)
        del case.args["fill"]
        yield case


add("_unsafe_masked_index_put_accumulate", accumulated, accumulated_second, accumulated_cases, tolerance=conditioned(), plain=False, nondeterministic=("cuda.forward",))
