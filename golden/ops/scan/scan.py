"""Running sums, products, extrema and differences along one axis."""

import numpy

from golden import Case, Operator, conditioned, exact
from golden import numpy_ad as np

MODES = ("layouts", "deterministic", "threads")
operators = []


def rows(x, axis):
    return [x[(slice(None),) * (axis % x.ndim) + (slice(k, k + 1),)] for k in range(x.shape[axis])]


def scan(x, axis, step, first=lambda r: r):
    """Concatenate step(previous, row), from the first row on."""
    parts = []
    for row in rows(x, axis):
        parts.append(step(parts[-1], row) if parts else first(row))
    return np.concatenate(parts, axis=axis)


def shapes():
    return (((1,), 0), ((5,), 0), ((3, 4), 1), ((17, 2), 0), ((2, 3, 5), -1), ((2, 33), 1), ((2, 3, 4), 0))


def label(shape, dim):
    return f"s{'x'.join(map(str, shape))}_d{dim % len(shape)}"


def add(schema, reference, second, cases, **options):
    operator = Operator(f"aten::{schema}", **{"tolerance": conditioned(), "modes": MODES, "nondeterministic": ()} | options)
    operator.reference(reference)
    operator.second(second)
    operator.cases(cases)
    operators.append(operator)


def cumsum_cases(draw):
    for shape, dim in shapes():
        yield Case(label(shape, dim), self=draw.normal(*shape), dim=dim)
    yield Case("offset", self=draw.integers(-8, 9, 2, 33) + 1e6, dim=1)
    for name, factor in (("huge", 2.0**66), ("tiny", 2.0**-66)):
        yield Case(name, self=draw.normal(2, 17) * factor, dim=1)
    yield Case("long", self=draw.normal(1, 5000, stored=False), dim=1, backward=False, source="pytorch#23392")


# CUDA's cumsum is not deterministic by the list in torch.use_deterministic_algorithms.
add("cumsum", lambda self, dim: scan(self, dim, lambda a, b: a + b), lambda self, dim: numpy.cumsum(self, axis=dim), cumsum_cases, scale="multilinear",
    nondeterministic=("cuda.forward", "cuda.backward"))


def cumprod_cases(draw):
    for shape, dim in shapes():
        yield Case(label(shape, dim), self=draw.uniform(0.5, 1.5, *shape), dim=dim)
    for n, values in enumerate(([2.0, 0.0, 3.0, 4.0], [0.0, 2.0, 3.0], [2.0, 3.0, 0.0], [2.0, 0.0, 0.0, 3.0])):
        yield Case(f"zeros_{n}", self=numpy.array(values), dim=0, source="pytorch#82644", trivial="zeros behind the first 0")


add("cumprod", lambda self, dim: scan(self, dim, lambda a, b: a * b), lambda self, dim: numpy.cumprod(self, axis=dim), cumprod_cases, scale="multilinear",
    nondeterministic=("cuda.backward",))


def logcumsumexp_cases(draw):
    for shape, dim in shapes():
        yield Case(label(shape, dim), self=draw.normal(*shape), dim=dim)
    yield Case("far_apart", self=numpy.array([-1000.0, 0.0, 1000.0, 999.0]), dim=0)
    yield Case("offset", self=draw.integers(-3, 4, 17) + 1000.0, dim=0)


add("logcumsumexp", lambda self, dim: np.log(scan(np.exp(self), dim, lambda a, b: a + b)), lambda self, dim: numpy.logaddexp.accumulate(self, axis=dim), logcumsumexp_cases)


def running(better):
    """Values and indices of the best so far; of equal ones the last (ATen: >=), NaN stays."""
    def reference(self, dim):
        plain = np.value(self)
        plain = plain if plain.dtype != object else np.floats(plain)

        def places(row):
            out = [0]
            for k in range(1, len(row)):
                out.append(k if numpy.isnan(row[k]) or (not numpy.isnan(row[out[-1]]) and better(row[k], row[out[-1]])) else out[-1])
            return numpy.array(out)

        index = numpy.apply_along_axis(places, dim, plain).astype(numpy.int64)
        return np.take_along_axis(self, index, dim % self.ndim), index

    return reference


def running_second(accumulate):
    def second(self, dim):
        values = accumulate(self, axis=dim)
        n = numpy.arange(self.shape[dim]).reshape([-1 if a == dim % self.ndim else 1 for a in range(self.ndim)])
        hit = numpy.where((self == values) | numpy.isnan(self), n, -1)
        return values, numpy.maximum.accumulate(hit, axis=dim)

    return second


def running_cases(draw):
    for shape, dim in shapes():
        yield Case(label(shape, dim), self=draw.distinct(*shape) + 0.03125, dim=dim)
    yield Case("ties", self=draw.integers(1, 4, 3, 17) * 1.0, dim=1, smooth=False, note="of equal elements the last one's index")
    yield Case("special", self=numpy.array([[1.0, -numpy.inf, numpy.inf, 2.0], [1.0, numpy.nan, 3.0, 0.5]]), dim=1, special=True)


for name, better, accumulate in (("cummax", lambda a, b: a >= b, numpy.maximum.accumulate), ("cummin", lambda a, b: a <= b, numpy.minimum.accumulate)):
    add(name, running(better), running_second(accumulate), running_cases, tolerance=exact(), backward_tolerance=conditioned(), plain=True, scale="multilinear",
        nondeterministic=("cuda.backward",))


def diff(self, n=1, dim=-1, prepend=None, append=None):
    x = np.concatenate([t for t in (prepend, self, append) if t is not None], axis=dim)
    for _ in range(n):
        parts = rows(x, dim)
        x = np.concatenate([b - a for a, b in zip(parts, parts[1:], strict=False)], axis=dim)
    return x


def diff_cases(draw):
    for n in (1, 2):
        for shape, dim in (((5,), 0), ((3, 4), 1), ((17, 2), 0)):
            yield Case(f"n{n}_{label(shape, dim)}", self=draw.normal(*shape), n=n, dim=dim)
    yield Case("both_ends", self=draw.normal(2, 3), prepend=draw.normal(2, 1), append=draw.normal(2, 2), dim=1)


add("diff", diff, lambda self, n=1, dim=-1, prepend=None, append=None: numpy.diff(self, n, dim, **{k: v for k, v in (("prepend", prepend), ("append", append)) if v is not None}), diff_cases,
    modes=("layouts", "threads"))


def pairs(y, dim):
    parts = rows(y, dim)
    return np.concatenate([a + b for a, b in zip(parts, parts[1:], strict=False)], axis=dim)


def trapezoid_cases(draw):
    for shape, dim in (((5,), -1), ((3, 4), 1), ((17, 2), 0), ((2, 3, 5), 1)):
        for dx in (1, 0.25):
            yield Case(f"{label(shape, dim)}_dx{int(dx * 4)}", y=draw.normal(*shape), dx=dx, dim=dim)


add("trapezoid.dx", lambda y, dx=1, dim=-1: np.reshape(np.sum(pairs(y, dim), axis=dim, keepdims=True) * (dx / 2), tuple(n for a, n in enumerate(y.shape) if a != dim % y.ndim)),
    lambda y, dx=1, dim=-1: numpy.trapezoid(y, dx=dx, axis=dim), lambda draw: [c for c in trapezoid_cases(draw) if c.args["y"].ndim > 1], modes=("layouts", "threads"), scale="multilinear")
add("cumulative_trapezoid.dx", lambda y, dx=1, dim=-1: scan(pairs(y, dim), dim, lambda a, b: a + b) * (dx / 2),
    lambda y, dx=1, dim=-1: numpy.stack([numpy.trapezoid(numpy.moveaxis(y, dim, 0)[: k + 2], dx=dx, axis=0) for k in range(y.shape[dim] - 1)], axis=dim), trapezoid_cases, modes=("layouts", "threads"),
    scale="multilinear")
