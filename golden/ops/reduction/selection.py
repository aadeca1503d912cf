"""Reductions that select or count: extrema and their indices, medians, any, all. The first of equal elements; a NaN wins; an even median is the lower one."""

import numpy

from golden import Case, Out, exact
from golden import numpy_ad as np
from golden.table import Table

MODES = ("layouts", "threads")
table = Table(tolerance=exact(), modes=MODES, plain=True, scale="multilinear")
add, operators = table.add, table.operators
SPECIAL = numpy.array([[1.0, numpy.nan, 3.0, -1.0], [numpy.inf, 2.0, -numpy.inf, 0.5], [5.0, 5.0, -5.0, 5.0], [-2.0, 1.0, 1.0, -2.0]])


def along(x, dim, keepdim, choose):
    """`choose(row)`: position in each row along `dim`; (values, indices), differentiable by gathering."""
    plain = np.floats(x)
    dim = dim % x.ndim
    index = numpy.apply_along_axis(choose, dim, plain).astype(numpy.int64)
    values = np.take_along_axis(x, numpy.expand_dims(index, dim), dim)
    if keepdim:
        return values, numpy.expand_dims(index, dim)
    return np.reshape(values, index.shape), index


def first(better):
    def choose(row):
        best = 0
        for k in range(1, len(row)):
            if numpy.isnan(row[best]):
                break
            if numpy.isnan(row[k]) or better(row[k], row[best]):
                best = k
        return best

    return choose


largest, smallest = first(lambda a, b: a > b), first(lambda a, b: a < b)


def middle(row):
    """Position of the lower median; of the first NaN where there is one."""
    nan = numpy.flatnonzero(numpy.isnan(row))
    return nan[0] if nan.size else numpy.argsort(row, kind="stable")[(len(row) - 1) // 2]


def shapes():
    for shape, dim in (((1,), 0), ((5,), 0), ((3, 4), 1), ((17, 3), 0), ((2, 3, 5), 1), ((2, 33), -1), ((2, 129), 1)):
        yield f"s{'x'.join(map(str, shape))}_d{dim % len(shape)}", shape, dim


def with_dim(special=True, ties=True):
    def cases(draw):
        for name, shape, dim in shapes():
            yield Case(name, self=draw.distinct(*shape) + 0.03125, dim=dim)
        yield Case("keepdim", self=draw.distinct(3, 4) + 0.03125, dim=0, keepdim=True)
        if special:
            yield Case("special", self=SPECIAL, dim=1, special=True, source="pytorch#38018", note="NaN wins; of equal elements the first")
        if ties:
            yield Case("ties", self=draw.integers(1, 4, 4, 9) * 1.0, dim=1, backward=False, source="pytorch#32863", note="of equal elements the first")

    return cases


def nan_first(x, dim, keepdim, choose):
    index = numpy.expand_dims(choose(x, axis=dim), dim)
    nan = numpy.isnan(x)
    index = numpy.where(nan.any(dim, keepdims=True), numpy.argmax(nan, axis=dim, keepdims=True), index)
    values = numpy.take_along_axis(x, index, dim)
    return (values, index) if keepdim else (values.squeeze(dim), index.squeeze(dim))


for name, choose, finder in (("max", largest, numpy.argmax), ("min", smallest, numpy.argmin)):
    add(f"{name}.dim", lambda self, dim, keepdim=False, c=choose: along(self, dim, keepdim, c), lambda self, dim, keepdim=False, f=finder: nan_first(self, dim, keepdim, f), with_dim())
    add(f"arg{name}", lambda self, dim=None, keepdim=False, c=choose: Out(along(np.reshape(self, (-1,)), 0, True, c)[1], shape=()) if dim is None else along(self, dim, keepdim, c)[1],
        lambda self, dim=None, keepdim=False, f=finder: nan_first(self.reshape(-1), 0, False, f)[1] if dim is None else nan_first(self, dim, keepdim, f)[1],
        lambda draw: [*with_dim()(draw), *(Case(f"all_{n}", self=draw.distinct(n)) for n in (1, 7, 67)),
                      Case("large_dim0", self=draw.distinct(257, 3), dim=0, source="pytorch#32863")], differentiable=())
    add(name, lambda self, c=choose: Out(along(np.reshape(self, (-1,)), 0, True, c)[0], shape=()), lambda self, n=name: getattr(numpy, n)(self),
        lambda draw: [*(Case(f"s{'x'.join(map(str, s))}", self=draw.distinct(*s) + 0.03125) for s in ((1,), (7,), (3, 4), (5, 33))),
                      Case("special", self=numpy.array([1.0, numpy.nan, 2.0]), special=True, trivial="NaN wins")])
    add(f"a{name}", lambda self, dim=(), keepdim=False, c=choose: extreme(self, dim, keepdim, c), lambda self, dim=(), keepdim=False, n=name: getattr(numpy, n)(self, axis=tuple(dim) or None, keepdims=keepdim),
        lambda draw: [*(Case(n, self=draw.distinct(*s) + 0.03125, dim=(d,)) for n, s, d in shapes()), Case("two_axes", self=draw.distinct(2, 3, 4), dim=(0, 2)),
                      Case("special", self=SPECIAL, dim=(1,), special=True)])


def extreme(x, dim, keepdim, choose):
    axes = sorted(d % x.ndim for d in dim) or list(range(x.ndim))
    rest = [a for a in range(x.ndim) if a not in axes]
    flat = np.reshape(np.transpose(x, (*rest, *axes)), (*(x.shape[a] for a in rest), -1))
    values = along(flat, -1, False, choose)[0]
    return np.reshape(values, tuple(1 if a in axes else n for a, n in enumerate(x.shape))) if keepdim else values


add("aminmax", lambda self, dim=None, keepdim=False: (along(self, dim, keepdim, smallest)[0], along(self, dim, keepdim, largest)[0]),
    lambda self, dim=None, keepdim=False: (self.min(dim, keepdims=keepdim), self.max(dim, keepdims=keepdim)), with_dim(special=False, ties=False), differentiable=())  # ATen has no derivative for it
add("median.dim", lambda self, dim, keepdim=False: along(self, dim, keepdim, middle), lambda self, dim, keepdim=False: median_second(self, dim, keepdim), with_dim(ties=False, special=False))
add("median", lambda self: Out(along(np.reshape(self, (-1,)), 0, True, middle)[0], shape=()), lambda self: median_second(self.reshape(-1), 0, False)[0],
    lambda draw: [*(Case(f"n{n}", self=draw.distinct(n) + 0.03125) for n in (1, 4, 7, 16, 33)), Case("s3x4", self=draw.distinct(3, 4) + 0.03125),
                  Case("even", self=numpy.array([4.0, 1.0, 3.0, 2.0]), source="pytorch#1837", note="the lower of the two, not their mean"),
                  Case("nan", self=numpy.array([1.0, numpy.nan, 2.0]), special=True, trivial="a NaN wins", source="pytorch#46814")])


def middle_of_numbers(row):
    """Position of the lower median of what is a number; of the first NaN where nothing is."""
    count = int((~numpy.isnan(row)).sum())
    return numpy.argsort(row, kind="stable")[(count - 1) // 2] if count else 0


def nanmedian_second(x, dim, keepdim):
    """median_second of each row without its NaN."""
    rows = numpy.moveaxis(x, dim, -1)
    values, index = numpy.empty(rows.shape[:-1]), numpy.empty(rows.shape[:-1], dtype=numpy.int64)
    for i in numpy.ndindex(*rows.shape[:-1]):
        kept = numpy.flatnonzero(~numpy.isnan(rows[i]))
        if not kept.size:
            values[i], index[i] = numpy.nan, 0
            continue
        value, at = median_second(rows[i][kept], 0, False)
        values[i], index[i] = value, kept[at]
    return (numpy.expand_dims(values, dim), numpy.expand_dims(index, dim)) if keepdim else (values, index)


SOME_NAN = numpy.array([[1.0, numpy.nan, 3.0, -1.0, 7.0], [numpy.nan, numpy.nan, 5.0, numpy.nan, numpy.nan], [numpy.inf, 2.0, -numpy.inf, 0.5, -numpy.nan], [9.0, 5.0, -5.0, 6.0, 8.0]])
add("nanmedian.dim", lambda self, dim, keepdim=False: along(self, dim, keepdim, middle_of_numbers), lambda self, dim, keepdim=False: nanmedian_second(self, dim, keepdim), lambda draw: [*with_dim(ties=False, special=False)(draw),
    *(Case(f"nan_d{d}_keep{int(k)}", self=SOME_NAN, dim=d, keepdim=k, special=True, source="pytorch#46814", note="NaN elements count as absent, of either sign") for d in (0, 1) for k in (False, True))])
add("nanmedian", lambda self: Out(along(np.reshape(self, (-1,)), 0, True, middle_of_numbers)[0], shape=()), lambda self: nanmedian_second(self.reshape(-1), 0, False)[0],
    lambda draw: [*(Case(f"n{n}", self=draw.distinct(n) + 0.03125) for n in (1, 4, 7, 16, 33)), Case("nan", self=SOME_NAN, special=True),
                  Case("all_nan", self=numpy.array([numpy.nan, numpy.nan]), special=True, trivial="nothing is a number")])


def median_second(x, dim, keepdim):
    """The element that exactly (n - 1) // 2 others precede."""
    rows = numpy.moveaxis(x, dim, -1)
    values, index = numpy.empty(rows.shape[:-1]), numpy.empty(rows.shape[:-1], dtype=numpy.int64)
    for i in numpy.ndindex(*rows.shape[:-1]):
        row = rows[i]
        k = next((k for k, v in enumerate(row) if numpy.isnan(v)), None)
        if k is None:
            k = next(k for k, v in enumerate(row) if (row < v).sum() + (row[:k] == v).sum() == (len(row) - 1) // 2)
        values[i], index[i] = row[k], k
    return (numpy.expand_dims(values, dim), numpy.expand_dims(index, dim)) if keepdim else (values, index)


for name, fold in (("any", numpy.any), ("all", numpy.all)):
    def cases(draw):
        for label, shape, dim in shapes():
            yield Case(label, self=draw.integers(0, 2, *shape) * draw.normal(*shape), dim=dim)
        yield Case("special", self=numpy.array([[0.0, numpy.nan], [-0.0, 0.0], [numpy.inf, 1.0]]), dim=1)

    add(f"{name}.dim", lambda self, dim, keepdim=False, f=fold: f(self != 0, axis=dim, keepdims=keepdim),
        lambda self, dim, keepdim=False, n=name: getattr(numpy, "logical_" + {"any": "or", "all": "and"}[n]).reduce(self.astype(bool), axis=dim, keepdims=keepdim), cases, differentiable=())
    add(name, lambda self, f=fold: Out(numpy.array([f(self != 0)]), shape=()), lambda self, n=name: numpy.array({"any": max, "all": min}[n](bool(v) for v in self.flat)),
        lambda draw: [Case(f"n{n}", self=(numpy.arange(n) % 7 != 3) * draw.normal(n)) for n in (1, 3, 33, 1000)] + [Case("zeros", self=numpy.zeros(67)), Case("ones", self=numpy.ones(129))],
        differentiable=())
add("count_nonzero", lambda self, dim: numpy.asarray((self != 0).sum(axis=dim)), lambda self, dim: numpy.count_nonzero(self, axis=dim),
    lambda draw: [Case(n, self=draw.integers(0, 2, *s) * draw.normal(*s), dim=d) for n, s, d in shapes()], differentiable=())
