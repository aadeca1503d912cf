"""Running sums, products, extrema and differences along one axis."""

import numpy

from golden import Case, conditioned, exact
from golden import numpy_ad as np
from golden.table import Table

MODES = ("layouts", "deterministic", "threads")
table = Table(tolerance=conditioned(), modes=MODES)
add, operators = table.add, table.operators


def rows(x, axis):
    return [x[(slice(None),) * (axis % x.ndim) + (slice(k, k + 1),)] for k in range(x.shape[axis])]


def scan(x, axis, step):
    """Concatenate step(previous, row), from the first row on."""
    parts = []
    for row in rows(x, axis):
        parts.append(step(parts[-1], row) if parts else row)
    return np.concatenate(parts, axis=axis)


def shapes():
    return (((1,), 0), ((5,), 0), ((3, 4), 1), ((17, 2), 0), ((2, 3, 5), -1), ((2, 33), 1), ((2, 3, 4), 0))


def label(shape, dim):
    return f"s{'x'.join(map(str, shape))}_d{dim % len(shape)}"


def cumsum_cases(draw):
    for shape, dim in shapes():
        yield Case(label(shape, dim), self=draw.normal(*shape), dim=dim)
    yield Case("offset", self=draw.integers(-8, 9, 2, 33) + 1e6, dim=1)
    for name, factor in (("huge", 2.0**66), ("tiny", 2.0**-66)):
        yield Case(name, self=draw.normal(2, 17) * factor, dim=1)
    yield Case(
        "special",
        self=numpy.array([[1.0, numpy.inf, 2.0, -numpy.inf, 3.0], [1.0, numpy.nan, 1.0, 2.0, 3.0]]),
        dim=1,
        special=True,
        note="inf - inf is NaN from there on",
    )
    yield Case("float64_of_float32", self=draw.normal(2, 17), dim=1, dtype="float64", dtypes=("float64",))
    for n in (127, 128, 129, 257):
        yield Case(f"block_{n}", self=draw.normal(2, n), dim=1, backward=False)
    yield Case("inner_63", self=draw.normal(9, 63), dim=0, backward=False)
    yield Case("long", self=draw.normal(1, 5000, stored=False), dim=1, backward=False, source="pytorch#23392")


# CUDA's cumsum is not deterministic by the list in torch.use_deterministic_algorithms.
add(
    "cumsum",
    lambda self, dim, dtype=None: scan(self, dim, lambda a, b: a + b),
    lambda self, dim, dtype=None: numpy.cumsum(self, axis=dim),
    cumsum_cases,
    scale="multilinear",
    nondeterministic=("cuda.forward", "cuda.backward"),
)


def cumprod_cases(draw):
    for shape, dim in shapes():
        yield Case(label(shape, dim), self=draw.uniform(0.5, 1.5, *shape), dim=dim)
    for n in (129, 257):
        yield Case(f"block_{n}", self=1 + draw.normal(2, n) / 64, dim=1, backward=False)
    yield Case(
        "zeros_inside",
        self=numpy.where(numpy.arange(12).reshape(3, 4) % 5 == 2, 0.0, draw.uniform(0.5, 2, 3, 4)),
        dim=1,
        source="pytorch#82644",
        note="no division by the zero",
    )
    for n, values in enumerate(([2.0, 0.0, 3.0, 4.0], [0.0, 2.0, 3.0], [2.0, 3.0, 0.0], [2.0, 0.0, 0.0, 3.0])):
        yield Case(f"zeros_{n}", self=numpy.array(values), dim=0, source="pytorch#82644", trivial="zeros behind the first 0")


add(
    "cumprod",
    lambda self, dim: scan(self, dim, lambda a, b: a * b),
    lambda self, dim: numpy.cumprod(self, axis=dim),
    cumprod_cases,
    scale="multilinear",
    nondeterministic=("cuda.backward",),
)


def logcumsumexp_cases(draw):
    for shape, dim in shapes():
        yield Case(label(shape, dim), self=draw.normal(*shape), dim=dim)
    yield Case("far_apart", self=numpy.array([-1000.0, 0.0, 1000.0, 999.0]), dim=0)
    yield Case(
        "infinities",
        self=numpy.array([-numpy.inf, -numpy.inf, 1.0, numpy.inf, 2.0]),
        dim=0,
        special=True,
        source="pytorch#49724",
        note="log(exp(-inf) + exp(-inf)) is -inf",
    )
    yield Case("nan", self=numpy.array([1.0, numpy.nan, 1.0]), dim=0, special=True)
    yield Case("offset", self=draw.integers(-3, 4, 17) + 1000.0, dim=0)


add(
    "logcumsumexp",
    lambda self, dim: np.log(scan(np.exp(self), dim, lambda a, b: a + b)),
    lambda self, dim: numpy.logaddexp.accumulate(self, axis=dim),
    logcumsumexp_cases,
)


@operators[-1].backward_scale
def logcumsumexp_backward_scale(gradients, upstream, self, dim):
    """ATen sums exp(log |g_j| - out_j + x_i): every term of the exponent is rounded, and costs its size times the summand."""
    x, g = numpy.moveaxis(self, dim, -1), numpy.moveaxis(upstream[0], dim, -1)
    out = numpy.logaddexp.accumulate(x, axis=-1)
    n = x.shape[-1]
    later = numpy.tril(numpy.ones((n, n), dtype=bool)).T  # [i, j]: j >= i
    power = numpy.where(later, x[..., :, None] - out[..., None, :], -numpy.inf)
    size = 2 + numpy.abs(x)[..., :, None] + numpy.abs(out)[..., None, :] + numpy.abs(numpy.log(numpy.abs(g) + 1e-300))[..., None, :]
    return {"self": numpy.moveaxis((numpy.abs(g)[..., None, :] * numpy.exp(power) * size).sum(-1), -1, dim)}


def running(better):
    """Values and indices of the best so far; of equal ones the last (ATen: >=), NaN stays."""

    def reference(self, dim):
        plain = np.floats(self)

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


for name, better, accumulate in (
    ("cummax", lambda a, b: a >= b, numpy.maximum.accumulate),
    ("cummin", lambda a, b: a <= b, numpy.minimum.accumulate),
):
    add(
        name,
        running(better),
        running_second(accumulate),
        running_cases,
        tolerance=exact(),
        backward_tolerance=conditioned(),
        plain=True,
        scale="multilinear",
        nondeterministic=("cuda.backward",),
    )


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


add(
    "diff",
    diff,
    lambda self, n=1, dim=-1, prepend=None, append=None: numpy.diff(
        self, n, dim, **{k: v for k, v in (("prepend", prepend), ("append", append)) if v is not None}
    ),
    diff_cases,
    modes=("layouts", "threads"),
)


def pairs(y, dim):
    parts = rows(y, dim)
    return np.concatenate([a + b for a, b in zip(parts, parts[1:], strict=False)], axis=dim)


def trapezoid_cases(draw):
    for shape, dim in (((5,), -1), ((3, 4), 1), ((17, 2), 0), ((2, 3, 5), 1)):
        for dx in (1, 0.25):
            yield Case(f"{label(shape, dim)}_dx{int(dx * 4)}", y=draw.normal(*shape), dx=dx, dim=dim)


add(
    "trapezoid.dx",
    lambda y, dx=1, dim=-1: np.reshape(
        np.sum(pairs(y, dim), axis=dim, keepdims=True) * (dx / 2), tuple(n for a, n in enumerate(y.shape) if a != dim % y.ndim)
    ),
    lambda y, dx=1, dim=-1: numpy.trapezoid(y, dx=dx, axis=dim),
    lambda draw: [c for c in trapezoid_cases(draw) if c.args["y"].ndim > 1],
    modes=("layouts", "threads"),
    scale="multilinear",
)
add(
    "cumulative_trapezoid.dx",
    lambda y, dx=1, dim=-1: scan(pairs(y, dim), dim, lambda a, b: a + b) * (dx / 2),
    lambda y, dx=1, dim=-1: numpy.stack(
        [numpy.trapezoid(numpy.moveaxis(y, dim, 0)[: k + 2], dx=dx, axis=0) for k in range(y.shape[dim] - 1)], axis=dim
    ),
    trapezoid_cases,
    modes=("layouts", "threads"),
    scale="multilinear",
)


def spaced(y, x, dim):
    """(x_{k+1} - x_k) (y_{k+1} + y_k) / 2; a 1-D x runs along dim."""
    shape = [1] * y.ndim
    shape[dim % y.ndim] = y.shape[dim]
    x = np.reshape(x, tuple(shape)) if x.ndim == 1 else x
    steps = rows(x, dim % y.ndim)
    width = np.concatenate([b - a for a, b in zip(steps, steps[1:], strict=False)], axis=dim % y.ndim)
    return pairs(y, dim % y.ndim) * width / 2


def without(shape, dim):
    return tuple(n for a, n in enumerate(shape) if a != dim % len(shape))


def spaced_cases(draw):
    for shape, dim in (((3, 4), 1), ((17, 2), 0), ((2, 3, 5), -2)):
        yield Case(f"{label(shape, dim)}_1d", y=draw.normal(*shape), x=draw.normal(shape[dim]), dim=dim)
        yield Case(f"{label(shape, dim)}_nd", y=draw.normal(*shape), x=draw.normal(*shape), dim=dim)


def trapezoid_x(y, x, dim=-1):
    return np.reshape(np.sum(spaced(y, x, dim), axis=dim, keepdims=True), without(y.shape, dim))


def trapezoid_x_second(y, x, dim=-1):
    return numpy.trapezoid(y, x, axis=dim)


def cumulative_second(y, x, dim=-1):
    axis = dim % y.ndim
    x = numpy.broadcast_to(x.reshape([-1 if a == axis else 1 for a in range(y.ndim)]) if x.ndim == 1 else x, y.shape)
    return numpy.stack(
        [
            numpy.trapezoid(numpy.moveaxis(y, axis, 0)[: k + 2], numpy.moveaxis(x, axis, 0)[: k + 2], axis=0)
            for k in range(y.shape[axis] - 1)
        ],
        axis=axis,
    )


for name in ("trapezoid.x", "trapz.x"):
    add(name, trapezoid_x, trapezoid_x_second, spaced_cases, modes=("layouts", "threads"))
add(
    "cumulative_trapezoid.x",
    lambda y, x, dim=-1: scan(spaced(y, x, dim), dim % y.ndim, lambda a, b: a + b),
    cumulative_second,
    spaced_cases,
    modes=("layouts", "threads"),
)
add(
    "trapz.dx",
    lambda y, dx=1.0, dim=-1: np.reshape(np.sum(pairs(y, dim % y.ndim), axis=dim, keepdims=True) * (dx / 2), without(y.shape, dim)),
    lambda y, dx=1.0, dim=-1: numpy.trapezoid(y, dx=dx, axis=dim),
    lambda draw: (
        [Case(f"s3x4_d1_dx{int(dx * 4)}", y=draw.normal(3, 4), dx=dx, dim=1) for dx in (1.0, 0.25)]
        + [Case("s17x2_d0", y=draw.normal(17, 2), dx=0.5, dim=0)]
    ),
    modes=("layouts", "threads"),
    scale="multilinear",
)


# numpy.gradient -------------------------------------------------------------------------------------------------------


def slope(f, h, axis, edge_order):
    """Central differences; at the ends one-sided ones of first or second order. `h`: a number, or the coordinates along the axis."""
    r = rows(f, axis)
    n = len(r)
    if isinstance(h, (int, float)):
        inner = [(r[k + 1] - r[k - 1]) / (2 * h) for k in range(1, n - 1)]
        if edge_order == 1:
            ends = [(r[1] - r[0]) / h, (r[-1] - r[-2]) / h]
        else:
            ends = [(-3 * r[0] + 4 * r[1] - r[2]) / (2 * h), (3 * r[-1] - 4 * r[-2] + r[-3]) / (2 * h)]
    else:
        d = [h[k + 1] - h[k] for k in range(n - 1)]
        inner = [
            (-d[k] / (d[k - 1] * (d[k] + d[k - 1]))) * r[k - 1]
            + (d[k] - d[k - 1]) / (d[k] * d[k - 1]) * r[k]
            + d[k - 1] / (d[k] * (d[k] + d[k - 1])) * r[k + 1]
            for k in range(1, n - 1)
        ]
        if edge_order == 1:
            ends = [(r[1] - r[0]) / d[0], (r[-1] - r[-2]) / d[-1]]
        else:
            a, b, c, e = d[0], d[1], d[-2], d[-1]
            ends = [
                -(2 * a + b) / (a * (a + b)) * r[0] + (a + b) / (a * b) * r[1] - a / (b * (a + b)) * r[2],
                e / (c * (c + e)) * r[-3] - (e + c) / (c * e) * r[-2] + (2 * e + c) / (e * (c + e)) * r[-1],
            ]
    return np.concatenate([ends[0], *inner, ends[1]], axis=axis)


def gradient(self, spacing=None, dim=None, edge_order=1):
    axes = [a % self.ndim for a in (range(self.ndim) if dim is None else [dim] if isinstance(dim, int) else dim)]
    steps = spacing if isinstance(spacing, list) else [1.0 if spacing is None else spacing] * len(axes)
    return tuple(slope(self, h, axis, edge_order) for h, axis in zip(steps, axes, strict=True))


def gradient_second(self, spacing=None, dim=None, edge_order=1):
    steps = spacing if isinstance(spacing, list) else [] if spacing is None else [spacing]
    out = numpy.gradient(self, *steps, axis=None if dim is None else dim if isinstance(dim, int) else tuple(dim), edge_order=edge_order)
    return tuple(out) if isinstance(out, (list, tuple)) else (out,)


def gradient_cases(spacings):
    def cases(draw):
        for k, (dim, spacing) in enumerate(spacings):
            for edge_order in (1, 2):
                axes = range(2) if dim is None else [dim] if isinstance(dim, int) else dim
                given = (
                    [numpy.sort(draw.distinct((7, 5)[a])) + draw.integers(0, 16, (7, 5)[a]) / 512 for a in axes]
                    if spacing == "coordinates"
                    else spacing
                )
                more = {**({} if given is None else {"spacing": given}), **({} if dim is None else {"dim": dim})}
                yield Case(f"k{k}_order{edge_order}", self=draw.normal(7, 5), edge_order=edge_order, **more)

    return cases


for overload, spacings in (
    ("scalarint", ((None, None), (1, 0.5), (0, 2.0), (-1, None))),
    ("scalararray", (([0, 1], 0.5), ([1], 2.0))),
    ("array", (([0, 1], None), ([1], None))),
    ("scalarrayint", ((None, [0.5, 2.0]), (1, [0.25]))),
    ("scalarrayarray", (([0, 1], [0.5, 2.0]), ([1, 0], [0.25, 1.0]))),
    ("tensorarrayint", ((None, "coordinates"), (1, "coordinates"))),
    ("tensorarray", (([0, 1], "coordinates"), ([1], "coordinates"))),
):
    add(f"gradient.{overload}", gradient, gradient_second, gradient_cases(spacings), modes=("layouts", "threads"), differentiable=("self",))
