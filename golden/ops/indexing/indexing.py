"""Reading and writing by index. Writes with duplicates are tested only where the answer is defined: sums, or unique indices."""

import numpy

from golden import Case, conditioned, exact
from golden import numpy_ad as np
from golden.table import Table

MODES = ("layouts", "deterministic", "threads")
ATOMICS = ("cuda.forward", "cuda.backward")  # atomicAdd, by the list in torch.use_deterministic_algorithms
table = Table(backward_tolerance=conditioned(), modes=MODES, scale="multilinear")
operators = table.operators


def add(schema, reference, second, cases, sums=False, **options):
    """`sums`: values are added up, so the gauge is conditioned; otherwise exact."""
    return table.add(schema, reference, second, cases, conditioned() if sums else exact(), **{"plain": not sums} | options)


def dim_cases(draw, make):
    """`make(shape, dim, index)`: arguments; index is 1-D with repeats."""
    for shape, dim in (((5,), 0), ((4, 3), 0), ((3, 6), 1), ((2, 3, 4), -1), ((2, 33), 1)):
        for count in (1, 7):
            yield Case(f"s{'x'.join(map(str, shape))}_d{dim % len(shape)}_n{count}", args=make(shape, dim, draw.integers(0, shape[dim], count)))
    for label, value in (("beyond_the_end", 99), ("negative", -9)):
        yield Case(label, args=make((5,), 0, numpy.array([0, value])), expect="error", source="pytorch#571")


def rows(x, dim):
    dim = dim % x.ndim
    return [x[(slice(None),) * dim + (slice(k, k + 1),)] for k in range(x.shape[dim])]


# Reading ---------------------------------------------------------------------------------------------------------------------------------

add("index_select", lambda self, dim, index: self[(slice(None),) * (dim % self.ndim) + (index,)], lambda self, dim, index: numpy.moveaxis(numpy.array([numpy.moveaxis(self, dim, 0)[i] for i in index]), 0, dim),
    lambda draw: dim_cases(draw, lambda s, d, i: {"self": draw.normal(*s), "dim": d, "index": i}), nondeterministic=("cuda.backward",))


def along_cases(draw, name, extra):
    for shape, dim, count in (((5,), 0, 7), ((4, 3), 0, 2), ((3, 6), 1, 9), ((2, 3, 4), -1, 4), ((2, 33), 1, 17)):
        size = tuple(count if a == dim % len(shape) else n for a, n in enumerate(shape))
        yield Case(f"s{'x'.join(map(str, shape))}_d{dim % len(shape)}", args={"self": draw.normal(*shape), "dim": dim, name: draw.integers(0, shape[dim], *size), **extra})


def bad_index(draw, name):
    for label, value in (("beyond_the_end", 99), ("negative", -9)):
        yield Case(label, args={"self": draw.normal(5), "dim": 0, name: numpy.array([0, value])}, expect="error", source="pytorch#169779")


def loop_gather(self, dim, index):
    out = numpy.empty(index.shape)
    for i in numpy.ndindex(*index.shape):
        out[i] = self[(*i[: dim % self.ndim], index[i], *i[dim % self.ndim + 1 :])]
    return out


add("gather", lambda self, dim, index: np.take_along_axis(self, index, dim % self.ndim), loop_gather, lambda draw: [*along_cases(draw, "index", {}), *bad_index(draw, "index")], nondeterministic=("cuda.backward",))
add("take_along_dim", lambda self, indices, dim: np.take_along_axis(self, indices, dim % self.ndim), lambda self, indices, dim: loop_gather(self, dim, indices),
    lambda draw: [*along_cases(draw, "indices", {}), *bad_index(draw, "indices")], nondeterministic=("cuda.backward",))
add("take", lambda self, index: np.reshape(self, (-1,))[index], lambda self, index: numpy.array([self.flat[i] for i in index.flat]).reshape(index.shape),
    lambda draw: [Case("vector", self=draw.normal(7), index=draw.integers(0, 7, 9)), Case("matrix", self=draw.normal(3, 4), index=draw.integers(0, 12, 2, 5)),
                  Case("negative_wraps", self=draw.normal(3, 4), index=numpy.array([-1, -12, 3]), source="pytorch#172019"), Case("beyond_the_end", self=draw.normal(3), index=numpy.array([5]), expect="error")],
    nondeterministic=("cuda.backward",))


def index_cases(draw):
    yield Case("rows", self=draw.normal(5, 3), indices=[draw.integers(0, 5, 7)])
    yield Case("pairs", self=draw.normal(5, 6), indices=[draw.integers(0, 5, 7), draw.integers(0, 6, 7)])
    yield Case("broadcast", self=draw.normal(5, 6), indices=[draw.integers(0, 5, 3, 1), draw.integers(0, 6, 4)])
    yield Case("second_axis", self=draw.normal(3, 6), indices=[None, draw.integers(0, 6, 4)])
    yield Case("mask", self=draw.normal(3, 4), indices=[numpy.arange(12).reshape(3, 4) % 3 == 1])
    yield Case("negative", self=draw.normal(5), indices=[numpy.array([-1, -5, 2])])
    yield Case("beyond_the_end", self=draw.normal(5), indices=[numpy.array([5])], expect="error", source="pytorch#571")


def by_indices(x, indices):
    return x[tuple(slice(None) if i is None else i for i in indices)]


def index_second(self, indices):
    if indices[0] is None:
        return numpy.take(self, indices[1], axis=1)
    if indices[0].dtype == bool:
        return numpy.array([v for v, m in zip(self.flat, indices[0].flat, strict=True) if m])
    grids = numpy.broadcast_arrays(*indices)
    return numpy.array([self[tuple(int(g.flat[k]) for g in grids)] for k in range(grids[0].size)]).reshape((*grids[0].shape, *self.shape[len(grids) :]))


add("index.Tensor", lambda self, indices: by_indices(self, indices), index_second, index_cases, nondeterministic=("cuda.backward",))
add("masked_select", lambda self, mask: self[numpy.broadcast_to(mask, self.shape)], lambda self, mask: numpy.array([v for v, m in zip(self.flat, numpy.broadcast_to(mask, self.shape).flat, strict=True) if m]),
    lambda draw: [Case(f"s{'x'.join(map(str, s))}", self=draw.normal(*s), mask=draw.integers(0, 2, *s).astype(bool) | (numpy.arange(int(numpy.prod(s))).reshape(s) == 0)) for s in ((1,), (7,), (3, 4), (2, 33))]
    + [Case("broadcast", self=draw.normal(3, 4), mask=numpy.array([True, False, False, True]))])


def embedding(weight, indices, padding_idx=-1, scale_grad_by_freq=False):
    return weight[indices]


def summed_by_index(rows, indices, count, padding_idx, scale_grad_by_freq):
    """(count, width): the rows summed by their index; none for padding_idx; over the index's frequency where that scales."""
    flat = indices.reshape(-1)
    pick = (numpy.arange(count)[:, None] == flat[None]) & (flat != padding_idx)[None]
    summed = np.matmul(np.balls(pick * 1.0), np.reshape(rows, (flat.size, -1)))
    return summed / numpy.maximum(numpy.bincount(flat, minlength=count), 1)[:, None] if scale_grad_by_freq else summed


def embedding_vjp(upstream, weight, indices, padding_idx=-1, scale_grad_by_freq=False):
    return {"weight": summed_by_index(upstream[0], indices, weight.shape[0], padding_idx, scale_grad_by_freq)}


def embedding_cases(draw):
    for shape in ((1,), (7,), (2, 5)):
        yield Case(f"s{'x'.join(map(str, shape))}", weight=draw.normal(6, 3), indices=draw.integers(0, 6, *shape))
    for freq in (False, True):
        yield Case(f"padding_freq{int(freq)}", weight=draw.normal(5, 2), indices=draw.integers(0, 5, 3, 4), padding_idx=2, scale_grad_by_freq=freq, smooth=False)
    yield Case("width_1", weight=draw.normal(4, 1), indices=draw.integers(0, 4, 33))
    for n in (768, 769):
        yield Case(f"padding_{n}", weight=numpy.ones((2, 1)), indices=numpy.zeros(n, dtype=numpy.int64), padding_idx=0, smooth=False, source="pytorch#28716",
                   note="the padding row has no gradient")
    yield Case("beyond_the_end", weight=draw.normal(4, 2), indices=numpy.array([4]), expect="error", source="pytorch#571")


add("embedding", embedding, lambda weight, indices, padding_idx=-1, scale_grad_by_freq=False: numpy.array([weight[i] for i in indices.flat]).reshape((*indices.shape, -1)), embedding_cases,
    nondeterministic=("cuda.backward",), zero_gradient="every index is the padding's")
operators[-1].vjp(embedding_vjp)

# Writing ---------------------------------------------------------------------------------------------------------------------------------


def scattered(self, dim, index, src, accumulate):
    """One element at a time, on the plain structure: which source elements land on each place."""
    dim = dim % self.ndim
    places = {}
    for i in numpy.ndindex(*index.shape):
        places.setdefault((*i[:dim], int(index[i]), *i[dim + 1 :]), []).append(i)
    out = []
    for i in numpy.ndindex(*self.shape):
        hits = [src[j] for j in places.get(i, [])]
        value = self[i] if accumulate or not hits else 0
        for h in hits if accumulate else hits[-1:]:
            value = value + h
        out.append(value)
    return out


def scatter_reference(accumulate):
    def reference(self, dim, index, src):
        """Matrix of 0 and 1 from the source's elements to the places."""
        dim, source, places = dim % self.ndim, [], []
        size = int(numpy.prod(self.shape))
        for i in numpy.ndindex(*index.shape):
            source.append(int(numpy.ravel_multi_index(i, src.shape)))
            places.append(int(numpy.ravel_multi_index((*i[:dim], int(index[i]), *i[dim + 1 :]), self.shape)))
        flat = np.reshape(self, (-1,))
        if not accumulate:
            order = numpy.arange(size)
            both = np.concatenate([flat, np.reshape(src, (-1,))])
            order[places] = size + numpy.array(source)
            return np.reshape(both[order], self.shape)
        pick = numpy.zeros((size, src.size))
        numpy.add.at(pick, (places, source), 1.0)
        return np.reshape(flat + np.matmul(np.balls(pick), np.reshape(src, (-1, 1)))[:, 0], self.shape)

    return reference


def scatter_second(accumulate):
    return lambda self, dim, index, src: numpy.array(scattered(self, dim, index, src, accumulate)).reshape(self.shape)


def scatter_cases(unique):
    def cases(draw):
        for shape, dim, count in (((5,), 0, 3), ((4, 3), 0, 2), ((3, 6), 1, 5), ((2, 3, 4), -1, 3), ((2, 33), 1, 17)):
            size = tuple(count if a == dim % len(shape) else n for a, n in enumerate(shape))
            if unique:
                order = numpy.stack([draw.permutation(shape[dim])[:count] for _ in range(int(numpy.prod(size)) // count)])
                index = numpy.moveaxis(order.reshape(*(n for a, n in enumerate(size) if a != dim % len(shape)), count), -1, dim % len(shape)).copy()
            else:
                index = draw.integers(0, shape[dim], *size)
            yield Case(f"s{'x'.join(map(str, shape))}_d{dim % len(shape)}", self=draw.normal(*shape), dim=dim, index=index, src=draw.normal(*size))
        yield Case("beyond_the_end", self=draw.normal(5), dim=0, index=numpy.array([7]), src=draw.normal(1), expect="error", source="pytorch#571")

    return cases


add("scatter.src", scatter_reference(False), scatter_second(False), scatter_cases(True))
add("scatter_add", scatter_reference(True), scatter_second(True), scatter_cases(False), sums=True, nondeterministic=("cuda.forward",))
add("scatter.value", lambda self, dim, index, value: scatter_reference(False)(self, dim, index, np.value(self).reshape(-1)[:1].repeat(index.size).reshape(index.shape) * 0 + value),
    lambda self, dim, index, value: scatter_second(False)(self, dim, index, numpy.full(index.shape, value)),
    lambda draw: [Case(f"d{d}", self=draw.normal(4, 5), dim=d, index=draw.integers(0, 4, 3, 4), value=2.5) for d in (0, 1)])


def spread(index, shape, dim):
    """A 1-D index along `dim` as scatter's full index."""
    sizes = [index.size if a == dim % len(shape) else n for a, n in enumerate(shape)]
    return numpy.broadcast_to(index.reshape([-1 if a == dim % len(shape) else 1 for a in range(len(shape))]), sizes)


def source_cases(unique, **extra):
    def cases(draw):
        def make(shape, dim, index):
            count = min(index.size, shape[dim]) if unique else index.size
            index = draw.permutation(shape[dim])[:count] if unique and index.max(initial=0) < 50 and index.min(initial=0) >= 0 else index[:count] if unique else index
            size = [index.size if a == dim % len(shape) else n for a, n in enumerate(shape)]
            return {"self": draw.normal(*shape), "dim": dim, "index": index, "source": draw.normal(*size), **extra}

        yield from dim_cases(draw, make)

    return cases


add("index_add", lambda self, dim, index, source, alpha=1: scatter_reference(True)(self, dim, spread(index, self.shape, dim), source * alpha),
    lambda self, dim, index, source, alpha=1: scatter_second(True)(self, dim, spread(index, self.shape, dim), source * alpha), source_cases(False, alpha=2), sums=True, nondeterministic=("cuda.forward",))
add("index_copy", lambda self, dim, index, source: scatter_reference(False)(self, dim, spread(index, self.shape, dim), source),
    lambda self, dim, index, source: scatter_second(False)(self, dim, spread(index, self.shape, dim), source), source_cases(True), zero_gradient="every element is written")
add("index_fill.int_Scalar", lambda self, dim, index, value: np.where(numpy.broadcast_to(numpy.isin(numpy.arange(self.shape[dim]), index % self.shape[dim]).reshape([-1 if a == dim % self.ndim else 1 for a in range(self.ndim)]), self.shape), value + 0 * np.value(self), self),
    lambda self, dim, index, value: numpy.moveaxis(numpy.array([numpy.full(r.shape, value) if k in index else r for k, r in enumerate(numpy.moveaxis(self, dim, 0))]), 0, dim),
    lambda draw: dim_cases(draw, lambda s, d, i: {"self": draw.normal(*s), "dim": d, "index": i, "value": 1.5}),
    zero_gradient="every element is filled")


def put_cases(draw, accumulate):
    label = "sum" if accumulate else "unique"
    yield Case(f"{label}_vector", self=draw.normal(9), indices=[draw.integers(0, 9, 5) if accumulate else draw.permutation(9)[:5]], values=draw.normal(5), accumulate=accumulate)
    pairs = draw.permutation(20)[:6]
    yield Case(f"{label}_pairs", self=draw.normal(4, 5), indices=[draw.integers(0, 4, 6), draw.integers(0, 5, 6)] if accumulate else [pairs // 5, pairs % 5], values=draw.normal(6), accumulate=accumulate)
    yield Case(f"{label}_rows", self=draw.normal(4, 3), indices=[numpy.array([1, 3, 1]) if accumulate else numpy.array([2, 0, 3])], values=draw.normal(3, 3), accumulate=accumulate)
    yield Case(f"{label}_broadcast", self=draw.normal(6), indices=[numpy.array([0, 2, 0, 0]) if accumulate else numpy.array([0, 2, 4, 5])], values=draw.normal(1), accumulate=accumulate)


def put_matrix(self, indices, values, accumulate):
    """Matrix from the values' elements (broadcast to the indexed shape) to the places."""
    numbers = by_indices(numpy.arange(self.size).reshape(self.shape), indices)
    source = numpy.broadcast_to(numpy.arange(values.size).reshape(values.shape), numbers.shape)
    pick = numpy.zeros((self.size, values.size))
    numpy.add.at(pick, (numbers.ravel(), source.ravel()), 1.0)
    return pick


def index_put(self, indices, values, accumulate=False):
    pick = put_matrix(self, indices, values, accumulate)
    keep = 1.0 if accumulate else (pick.sum(1) == 0) * 1.0
    return np.reshape(np.reshape(self, (-1,)) * keep + np.matmul(np.balls(pick), np.reshape(values, (-1, 1)))[:, 0], self.shape)


def index_put_second(self, indices, values, accumulate=False):
    out = self.copy()
    place = tuple(indices)
    if accumulate:
        numpy.add.at(out, place, values)
    else:
        out[place] = values
    return out


add("index_put", index_put, index_put_second, lambda draw: [*put_cases(draw, False), *put_cases(draw, True), Case("beyond_the_end", self=draw.normal(3), indices=[numpy.array([3])], values=draw.normal(1), expect="error")],
    sums=True, nondeterministic=("cuda.forward",))
add("put", lambda self, index, source, accumulate=False: np.reshape(index_put(np.reshape(self, (-1,)), [index.reshape(-1)], np.reshape(source, (-1,)), accumulate), self.shape),
    lambda self, index, source, accumulate=False: index_put_second(self.reshape(-1), [index.reshape(-1)], source.reshape(-1), accumulate).reshape(self.shape),
    lambda draw: [Case(f"accumulate{int(a)}", self=draw.normal(3, 4), args={"index": draw.integers(0, 12, 5) if a else draw.permutation(12)[:5], "source": draw.normal(5), "accumulate": a}) for a in (False, True)],
    sums=True, nondeterministic=("cuda.forward",))


def reduce_reference(self, dim, index, src, reduce, include_self=True):
    """Each place reduces the elements that land on it, with its own where include_self; a place that none lands on keeps its own."""
    dim, places = dim % self.ndim, {}
    for i in numpy.ndindex(*index.shape):
        places.setdefault((*i[:dim], int(index[i]), *i[dim + 1 :]), []).append(i)
    out = []
    for i in numpy.ndindex(*self.shape):
        items = [self[i]] if include_self or i not in places else []
        items += [src[j] for j in places.get(i, [])]
        items = [np.reshape(v, (1,)) for v in items]
        if reduce in ("amax", "amin"):
            plain = [np.floats(v)[0] for v in items]
            best = [k for k, v in enumerate(plain) if v == (max if reduce == "amax" else min)(plain)]
            value = sum(items[k] for k in best) / len(best)  # equal elements share the gradient
        else:
            value = items[0]
            for v in items[1:]:
                value = value * v if reduce == "prod" else value + v
            value = value / len(items) if reduce == "mean" else value
        out.append(value)
    return np.reshape(np.concatenate(out), self.shape)


def reduce_second(self, dim, index, src, reduce, include_self=True):
    function = {"sum": numpy.add, "prod": numpy.multiply, "amax": numpy.maximum, "amin": numpy.minimum, "mean": numpy.add}[reduce]
    rest = {"sum": 0.0, "prod": 1.0, "amax": -numpy.inf, "amin": numpy.inf, "mean": 0.0}[reduce]
    out, hits = self.copy(), numpy.zeros(self.shape)
    grid = list(numpy.indices(index.shape))
    grid[dim % self.ndim] = index
    numpy.add.at(hits, tuple(grid), 1)
    if not include_self:
        out = numpy.where(hits > 0, rest, out)
    function.at(out, tuple(grid), src[tuple(slice(0, n) for n in index.shape)])
    return out / numpy.where(hits > 0, hits + include_self, 1) if reduce == "mean" else out


def reduce_cases(draw):
    for reduce in ("sum", "prod", "mean", "amax", "amin"):
        for include in (True, False):
            yield Case(f"{reduce}_self{int(include)}", self=draw.distinct(3, 4) + 0.03125, dim=1, index=draw.integers(0, 4, 3, 5), src=draw.distinct(3, 5) + 0.046875, reduce=reduce, include_self=include)
            tie = {"self": numpy.array([5.0, 4.0]), "index": numpy.array([0, 0, 1]), "src": numpy.array([5.0, 5.0, 4.0]) if reduce[0] == "a" else numpy.array([0.0, 3.0, 2.0])}
            yield Case(f"{reduce}_tie_self{int(include)}", **tie, dim=0, reduce=reduce, include_self=include, smooth=False, source="pytorch#76523", note="equal extrema share the gradient; a zero factor's gradient is the others' product")
    yield Case("two_zeros", self=numpy.array([2.0, 1.0]), dim=0, index=numpy.array([0, 0, 1]), src=numpy.array([0.0, 0.0, 3.0]), reduce="prod", source="pytorch#76523")


add("scatter_reduce.two", reduce_reference, reduce_second, reduce_cases, sums=True, scale="jacobian", nondeterministic=ATOMICS, zero_gradient="every place is overwritten")
add("masked_fill.Scalar", lambda self, mask, value: np.where(numpy.broadcast_to(mask, self.shape), value + 0 * np.value(self), self), lambda self, mask, value: numpy.array([value if m else v for v, m in zip(self.flat, numpy.broadcast_to(mask, self.shape).flat, strict=True)]).reshape(self.shape),
    lambda draw: [Case(f"s{'x'.join(map(str, s))}", self=draw.normal(*s), mask=(numpy.arange(int(numpy.prod(s))) % 3 == 1).reshape(s), value=-1.5) for s in ((1,), (7,), (3, 4), (2, 33))]
    + [Case("broadcast", self=draw.normal(3, 4), mask=numpy.array([True, False, False, True]), value=0.0)])


def masked_scatter_second(self, mask, source):
    out, values = self.copy(), iter(source.flat)
    for i in numpy.ndindex(*self.shape):
        if mask[i]:
            out[i] = next(values)
    return out


def masked_scatter(self, mask, source):
    order = numpy.where(mask.reshape(-1), numpy.cumsum(mask.reshape(-1)) - 1 + self.size, numpy.arange(self.size))
    return np.reshape(np.concatenate([np.reshape(self, (-1,)), np.reshape(source, (-1,))])[order], self.shape)


add("masked_scatter", masked_scatter, masked_scatter_second, lambda draw: [Case(f"s{'x'.join(map(str, s))}", self=draw.normal(*s), mask=(numpy.arange(int(numpy.prod(s))) % 3 == 1).reshape(s), args={"source": draw.normal(*s)}) for s in ((7,), (3, 4), (2, 33))])


def written(self, src, place):
    """src's elements where `place` puts them, self's elsewhere: by number."""
    number = numpy.arange(self.size).reshape(self.shape)
    place(number, numpy.arange(src.size).reshape(src.shape) + self.size)
    return np.concatenate([np.reshape(self, (-1,)), np.reshape(src, (-1,))])[number]


def put_slice(dim, start, end, step):
    def place(a, b):
        a[(slice(None),) * dim + (slice(start, end, step),)] = b

    return place


add("slice_scatter", lambda self, src, dim, start, end, step: written(self, src, put_slice(dim, start, end, step)),
    lambda self, src, dim, start, end, step: numpy.moveaxis(numpy.array([numpy.moveaxis(src, dim, 0)[list(range(self.shape[dim])[start:end:step]).index(k)] if k in range(self.shape[dim])[start:end:step] else r for k, r in enumerate(numpy.moveaxis(self, dim, 0))]), 0, dim),
    lambda draw: [Case("vector", self=draw.normal(7), src=draw.normal(3), dim=0, start=1, end=6, step=2), Case("columns", self=draw.normal(3, 5), src=draw.normal(3, 2), dim=1, start=2, end=4, step=1)])
add("select_scatter", lambda self, src, dim, index: written(self, src, lambda a, b: a.__setitem__((slice(None),) * dim + (index,), b)),
    lambda self, src, dim, index: numpy.moveaxis(numpy.array([src if k == index % self.shape[dim] else r for k, r in enumerate(numpy.moveaxis(self, dim, 0))]), 0, dim),
    lambda draw: [Case("row", self=draw.normal(3, 4), src=draw.normal(4), dim=0, index=1), Case("last_column", self=draw.normal(3, 4), src=draw.normal(3), dim=1, index=-1)])


def diagonal_place(offset):
    def place(a, b):
        k = numpy.arange(b.size)
        a[k - min(offset, 0), k + max(offset, 0)] = b

    return place


add("diagonal_scatter", lambda self, src, offset=0: written(self, src, diagonal_place(offset)),
    lambda self, src, offset=0: numpy.array([[src[min(i, j)] if j - i == offset else self[i, j] for j in range(self.shape[1])] for i in range(self.shape[0])]),
    lambda draw: [Case("square", self=draw.normal(3, 3), src=draw.normal(3)), Case("above", self=draw.normal(3, 4), src=draw.normal(3), offset=1), Case("below", self=draw.normal(4, 3), src=draw.normal(2), offset=-2)])

# Finding ---------------------------------------------------------------------------------------------------------------------------------

add("nonzero", lambda self: numpy.argwhere(self != 0), lambda self: numpy.array([i for i in numpy.ndindex(*self.shape) if self[i] != 0 or numpy.isnan(self[i])]).reshape(-1, self.ndim),
    lambda draw: [Case(f"s{'x'.join(map(str, s))}", self=draw.integers(0, 2, *s) * draw.normal(*s)) for s in ((7,), (3, 4), (2, 3, 4), (257,))] + [Case("special", self=numpy.array([0.0, -0.0, numpy.nan, numpy.inf, 1.0]))], differentiable=())


def search(right):
    return lambda edges, values: numpy.array([sum(1 for e in edges if (e <= v if right else e < v)) for v in values.flat]).reshape(values.shape)


def search_cases(draw, edges, values):
    for right in (False, True):
        for n in (1, 7, 33):
            yield Case(f"n{n}_right{int(right)}", args={edges: numpy.sort(draw.distinct(n)), values: draw.normal(3, 5), "right": right})
        yield Case(f"ties_right{int(right)}", args={edges: numpy.array([0.0, 1.0, 1.0, 2.0]), values: numpy.array([1.0, 0.0, 2.0, 3.0, -1.0]), "right": right})


add("searchsorted.Tensor", lambda sorted_sequence, self, right=False: search(right)(sorted_sequence, self), lambda sorted_sequence, self, right=False: numpy.searchsorted(sorted_sequence, self, side="right" if right else "left"),
    lambda draw: search_cases(draw, "sorted_sequence", "self"), differentiable=())
add("bucketize.Tensor", lambda self, boundaries, right=False: search(right)(boundaries, self), lambda self, boundaries, right=False: numpy.searchsorted(boundaries, self, side="right" if right else "left"),
    lambda draw: search_cases(draw, "boundaries", "self"), differentiable=())


def bincount(self, weights=None, minlength=0):
    size = max(int(self.max()) + 1, minlength)
    pick = (numpy.arange(size)[:, None] == self[None]) * 1.0
    return numpy.asarray(pick.sum(1), dtype=numpy.int64) if weights is None else np.matmul(np.balls(pick), np.reshape(weights, (-1, 1)))[:, 0]


add("bincount", bincount, lambda self, weights=None, minlength=0: numpy.bincount(self, weights, minlength),
    lambda draw: [Case(f"n{n}_w{int(w)}", self=draw.integers(0, 5, n), weights=draw.uniform(0.5, 2, n) if w else None, minlength=7) for n in (1, 17, 257) for w in (False, True)],
    sums=True, differentiable=(), nondeterministic=("cuda.forward",), modes=("deterministic", "threads"))
add("histc", lambda self, bins, min, max: numpy.array([float(((self >= min + k * (max - min) / bins) & ((self < min + (k + 1) * (max - min) / bins) | ((k == bins - 1) & (self == max)))).sum()) for k in range(bins)]),
    lambda self, bins, min, max: numpy.histogram(self, bins, (min, max))[0].astype(float),
    lambda draw: [Case(f"n{n}_bins{b}", self=draw.distinct(n, step=4.0 / 2 ** (n - 1).bit_length()) + 2.0**-9, bins=b, min=-2, max=2) for n in (7, 129, 1000) for b in (1, 4, 8)], differentiable=(), nondeterministic=("cuda.forward",))
