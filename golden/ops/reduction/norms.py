"""Deviations, norms and sums that skip NaN; the forms without a dim."""

import math

import numpy

from golden import Case, Out, conditioned
from golden import numpy_ad as np
from golden.table import Table

MODES = ("layouts", "threads")
table = Table(tolerance=conditioned(), modes=MODES)
add, operators = table.add, table.operators


def variance(x, dim, correction, keepdim):
    axes = tuple(dim) if dim is not None else tuple(range(x.ndim))
    n = math.prod(x.shape[a] for a in axes)
    mean = np.sum(x, axis=axes, keepdims=True) / n
    d = x - mean
    var = np.sum(d * d, axis=axes, keepdims=True) / (n - correction)
    if keepdim:
        return var, mean
    rest = tuple(m for a, m in enumerate(x.shape) if a not in [b % x.ndim for b in axes])
    return np.reshape(var, rest), np.reshape(mean, rest)


def moment_cases(draw):
    for shape, dim in (((2, 5), (1,)), ((17, 2), (0,)), ((2, 3, 4), (0, 2)), ((2, 33), (-1,))):
        for correction, keepdim in ((1, False), (0, True), (2, False)):
            yield Case(f"s{'x'.join(map(str, shape))}_d{'_'.join(str(d % len(shape)) for d in dim)}_c{correction}_k{int(keepdim)}", self=draw.normal(*shape), dim=dim,
                       correction=correction, keepdim=keepdim)
    for offset in (1000.0, 1e6):
        yield Case(f"offset_{int(offset)}", self=draw.integers(-8, 9, 3, 9) + offset, dim=(1,), correction=1, source="pytorch#2470")
    for name, factor in (("huge", 2.0**40), ("tiny", 2.0**-40)):
        yield Case(name, self=draw.normal(2, 9) * factor, dim=(1,), correction=1)


axes = {"std.correction": (lambda v, m: np.sqrt(v), lambda s, a, c, k: numpy.std(s, axis=a, ddof=c, keepdims=k)),
        "var_mean.correction": (lambda v, m: (v, m), lambda s, a, c, k: (numpy.var(s, axis=a, ddof=c, keepdims=k), numpy.mean(s, axis=a, keepdims=k))),
        "std_mean.correction": (lambda v, m: (np.sqrt(v), m), lambda s, a, c, k: (numpy.std(s, axis=a, ddof=c, keepdims=k), numpy.mean(s, axis=a, keepdims=k)))}
for name, (finish, numpys) in axes.items():
    add(name, lambda self, dim=None, correction=1, keepdim=False, f=finish: f(*variance(self, dim, correction, keepdim)),
        lambda self, dim=None, correction=1, keepdim=False, f=numpys: f(self, tuple(dim), correction, keepdim), moment_cases)


def filled(x, p, dim):
    """The p-norm of a tensor that is one value everywhere, given as docs/golden-format.md's `fill`: |v| n^(1/p), p in {1, 2}."""
    axes = tuple(range(len(x["shape"]))) if dim is None else tuple(dim)
    count = np.balls(float(math.prod(x["shape"][a] for a in axes)))
    rest = tuple(n for a, n in enumerate(x["shape"]) if a not in axes)
    one = np.balls(abs(x["fill"])) * (np.sqrt(count) if p == 2 else count)
    return Out(np.broadcast_to(one, rest or (1,)), shape=rest)


def filled_second(x, p, dim):
    out = filled(x, p, dim)
    kept = x["shape"][0] if len(x["shape"]) == 1 or dim else math.prod(x["shape"])
    return numpy.full(out.shape, math.hypot(*[abs(x["fill"]) * math.sqrt(kept / 4)] * 4) if p == 2 else math.fsum([abs(x["fill"])]) * kept)


def p_norm(x, p, dim, keepdim):
    if isinstance(x, dict):
        return filled(x, p, dim)
    axes = tuple(dim)
    a = np.absolute(x)
    if p == 0:
        return np.sum(np.where(np.floats(a) > 0, 1, 0) + 0 * a, axis=axes, keepdims=keepdim)
    if p in (math.inf, -math.inf):
        plain = np.floats(a)
        best = (numpy.max if p > 0 else numpy.min)(plain, axis=axes, keepdims=True)
        hit = plain == best
        return np.sum(a * hit / hit.sum(axis=axes, keepdims=True), axis=axes, keepdims=keepdim)
    if p == 1:
        return np.sum(a, axis=axes, keepdims=keepdim)
    if p == 2:
        return np.sqrt(np.sum(a * a, axis=axes, keepdims=keepdim))
    return np.exp(np.log(np.sum(np.exp(np.log(a) * p), axis=axes, keepdims=keepdim)) / p)


def norm_second(x, p, dim, keepdim):
    """Scaled by the largest element, so that no power leaves the range."""
    if isinstance(x, dict):
        return filled_second(x, p, dim)
    axes = tuple(dim)
    a = numpy.abs(x)
    if p in (0, math.inf, -math.inf):
        return {0: (a > 0).sum(axis=axes, keepdims=keepdim).astype(float), math.inf: a.max(axis=axes, keepdims=keepdim), -math.inf: a.min(axis=axes, keepdims=keepdim)}[p]
    top = a.max(axis=axes, keepdims=True)
    top = numpy.where(top == 0, 1, top)
    out = top * ((a / top) ** p).sum(axis=axes, keepdims=True) ** (1 / p)
    return out if keepdim else out.reshape(numpy.sum(x, axis=axes).shape)


def norm_cases(power):
    def cases(draw):
        for p in (0, 1, 2, 3, 0.5, -1, math.inf, -math.inf):
            name = str(p).replace(".", "").replace("-", "m")
            away = draw.uniform(0.25, 2, 3, 5) * (draw.integers(0, 2, 3, 5) * 2 - 1)
            more = {"backward": False} if p == 0 else {}
            yield Case(f"p{name}", self=away, **{power: p}, dim=(1,), **more)
        yield Case("two_axes_keepdim", self=draw.normal(2, 3, 4), **{power: 2}, dim=(0, 2), keepdim=True)
        yield Case("n129", self=draw.normal(2, 129), **{power: 2}, dim=(1,), backward=False)
        for name, values in (("huge", [[2.0**66, 1.0, 1.0]]), ("tiny", [[2.0**-100, 2.0**-100, 2.0**-101]])):
            yield Case(f"{name}_p2", self=numpy.array(values), **{power: 2}, dim=(1,), source="pytorch#193006", note="the squares leave float32's range, the norm does not")
        yield Case("p100", self=numpy.array([[3.0, 2.0]]), **{power: 100}, dim=(1,), source="pytorch#184036", dtypes=("float32",))
        for name, value, shape, dim in (("thousandths_2_25", float(numpy.float32(1e-3)), [2**25], (0,)), ("ones_outer", 1.0, [20_000_000, 2], (0,))):
            yield Case(name, self={"fill": value, "shape": shape}, **{power: 2}, dim=dim, dtypes=("float32",), modes=[], source="pytorch#65815", note="more than 2^24 equal elements: a running float32 sum of their squares stands still")
        yield Case("zero_row", self=numpy.array([[0.0, 0.0], [3.0, 4.0]]), **{power: 2}, dim=(1,), backward=False)

    return cases


add("linalg_vector_norm", lambda self, ord=2, dim=None, keepdim=False: p_norm(self, ord, dim, keepdim), lambda self, ord=2, dim=None, keepdim=False: norm_second(self, ord, dim, keepdim), norm_cases("ord"))
add("norm.ScalarOpt_dim", lambda self, p, dim, keepdim=False: p_norm(self, p, dim, keepdim), lambda self, p, dim, keepdim=False: norm_second(self, p, dim, keepdim), norm_cases("p"))
add("dist", lambda self, other, p=2: Out(p_norm(np.reshape(self - other, (1, -1)), p, (1,), False), shape=()), lambda self, other, p=2: norm_second((self - other).reshape(-1), p, (0,), False),
    lambda draw: [Case(f"p{p}_{n}", self=draw.normal(n), other=draw.normal(n), p=p) for p in (1, 2, 3) for n in (1, 7, 33)])

for name, divide in (("nansum", False), ("nanmean", True)):
    def reference(self, dim, keepdim=False, divide=divide):
        """NaN elements count as absent."""
        total = np.sum(self, axis=tuple(dim), keepdims=keepdim)
        return total / math.prod(self.shape[d] for d in dim) if divide else total

    add(f"{name}", reference, lambda self, dim, keepdim=False, n=name: getattr(numpy, n)(self, axis=tuple(dim), keepdims=keepdim),
        lambda draw: [Case(f"s{'x'.join(map(str, s))}_d{d[0]}", self=draw.normal(*s), dim=d) for s, d in (((3, 5), (1,)), ((17, 2), (0,)), ((2, 33), (1,)), ((2, 3, 4), (0, 2)))], scale="multilinear")

for name, finish, numpys in (("sum", lambda x: np.total(x), numpy.sum), ("mean", lambda x: np.total(x) / x.size, numpy.mean), ("prod", lambda x: np.product(np.reshape(x, (1, -1)), 1), numpy.prod)):
    def cases(draw, name=name):
        for n in (1, 7, 16, 33, 129):
            yield Case(f"n{n}", self=draw.uniform(0.5, 2, n) if name == "prod" else draw.normal(n))
        yield Case("s3x4", self=draw.normal(3, 4))
        if name == "prod":
            for label, values in (("one_zero", [0.0, 2.0, 3.0]), ("two_zeros", [0.0, 0.0, 3.0])):
                yield Case(label, self=numpy.array(values), trivial="a factor is 0; the gradient of one zero is the others' product", source="pytorch#82644")
        else:
            yield Case("long", self=draw.normal(100000, stored=False), backward=False, source="pytorch#19164", note="100,000 elements: a running float32 sum would err by thousands of u")

    add(name, lambda self, f=finish: Out(f(self), shape=()), lambda self, f=numpys: f(self), cases, scale="multilinear")
