"""Other overloads of the reductions: `unbiased` for a correction, several dims, a dtype, a scalar or another tensor for an argument."""

import numpy

from golden import Case, Out, conditioned, exact
from golden import numpy_ad as np
from golden.ops.reduction.histograms import CPU, EDGES, by_numpy, count, points
from golden.ops.reduction.norms import norm_second, p_norm, variance
from golden.ops.reduction.quantiles import isin
from golden.table import Table

table = Table(tolerance=conditioned(), modes=("layouts", "threads"))
add, operators = table.add, table.operators
EXACT = {"tolerance": exact(), "plain": True, "scale": "multilinear"}
FLAGS = EXACT | {"differentiable": ()}


def shaped(draw, dims):
    for shape, dim in (((2, 5), [1]), ((17, 2), [0]), ((2, 2, 3), [0, 2])):
        yield f"s{'x'.join(map(str, shape))}_d{'_'.join(str(d % len(shape)) for d in dim)}", draw.normal(*shape), {"dim": dim} if dims else {}


def moments(finish, plain):
    """(of all elements, along dims), each as (reference, second formula, cases); `finish(variance, mean)`, `plain(axis, ddof, keepdims)`."""
    def whole(self, unbiased=True):
        row = np.reshape(self, (1, -1))
        return tuple(Out(v, shape=()) for v in finish(*variance(row, (1,), int(unbiased), False)))

    def along(self, dim, unbiased=True, keepdim=False):
        return finish(*variance(self, dim, int(unbiased), keepdim))

    def cases(dims):
        def make(draw):
            for label, x, more in shaped(draw, dims):
                for unbiased in (True, False) if x.ndim == 3 else (x.shape[0] != 2,):
                    yield Case(f"{label}_unbiased{int(unbiased)}", args={"self": x, "unbiased": unbiased, **more, **({"keepdim": unbiased} if dims else {})})
            yield Case("offset_1000", args={"self": draw.integers(-8, 9, 3, 9) + 1000.0, **({"dim": [1]} if dims else {})}, source="pytorch#2470")

        return make

    return ((whole, lambda self, unbiased=True: plain(self, None, int(unbiased), False), cases(False)),
            (along, lambda self, dim, unbiased=True, keepdim=False: plain(self, tuple(dim), int(unbiased), keepdim), cases(True)))


for name, finish, plain in (
    ("var", lambda v, m: (v,), lambda s, a, c, k: numpy.var(s, axis=a, ddof=c, keepdims=k)),
    ("std", lambda v, m: (np.sqrt(v),), lambda s, a, c, k: numpy.std(s, axis=a, ddof=c, keepdims=k)),
    ("var_mean", lambda v, m: (v, m), lambda s, a, c, k: (numpy.var(s, axis=a, ddof=c, keepdims=k), numpy.mean(s, axis=a, keepdims=k))),
    ("std_mean", lambda v, m: (np.sqrt(v), m), lambda s, a, c, k: (numpy.std(s, axis=a, ddof=c, keepdims=k), numpy.mean(s, axis=a, keepdims=k))),
):
    for schema, three in zip((name, f"{name}.dim"), moments(finish, plain), strict=True):
        add(schema, *three)


def sparse_cases(draw, *more):
    for shape, dim in (((3, 5), [1]), ((2, 3, 4), [0, 2]), ((17, 2), [0]), ((2, 2, 33), [-1, 0])):
        for keepdim in more or (None,):
            label = f"s{'x'.join(map(str, shape))}_d{'_'.join(str(d % len(shape)) for d in dim)}"
            yield Case(label if keepdim is None else f"{label}_k{int(keepdim)}", args={"self": draw.integers(0, 3, *shape) * draw.normal(*shape), "dim": dim} | ({} if keepdim is None else {"keepdim": keepdim}))


for name, fold, numpys in (("any", numpy.any, numpy.logical_or), ("all", numpy.all, numpy.logical_and)):
    add(f"{name}.dims", lambda self, dim, keepdim=False, f=fold: f(self != 0, axis=tuple(dim), keepdims=keepdim), lambda self, dim, keepdim=False, f=numpys: f.reduce(self.astype(bool), axis=tuple(dim), keepdims=keepdim),
        lambda draw: sparse_cases(draw, False, True), **FLAGS)
add("count_nonzero.dim_IntList", lambda self, dim: numpy.asarray((self != 0).sum(axis=tuple(dim))), lambda self, dim: numpy.count_nonzero(self, axis=tuple(dim)), sparse_cases, **FLAGS)
for name, pick, other in (("max.other", np.maximum, numpy.maximum), ("min.other", np.minimum, numpy.minimum)):
    add(name, lambda self, other, f=pick: f(self, other), lambda self, other, f=other: f(self, other),
        lambda draw: [Case(f"n{n}", self=draw.distinct(n), other=draw.distinct(n) + 0.03125) for n in (7, 33, 67)] + [Case("broadcast", self=draw.distinct(3, 1), other=draw.distinct(4) + 0.03125),
                      Case("nan", self=numpy.array([numpy.nan, 1.0, 2.0]), other=numpy.array([0.0, numpy.nan, 1.0]), special=True, note="a NaN of either wins")],
        tolerance=exact(), backward_tolerance=conditioned(), scale="jacobian")


def norm_cases(dtype, dims):
    def make(draw):
        for p in (1, 2, 3):
            for label, x, more in shaped(draw, dims):
                yield Case(f"p{p}_{label}", args={"self": numpy.abs(x) + 0.25, "p": p, **more, **({"dtype": "float64"} if dtype else {}), **({"keepdim": p == 2} if dims else {})})

    return make


def in_double(value):
    return Out(value.value if isinstance(value, Out) else value, shape=getattr(value, "shape", None) if isinstance(value, Out) else None, dtype="float64")


def whole_norm(self, p=2, dtype=None):
    out = Out(p_norm(np.reshape(self, (1, -1)), p, (1,), False), shape=())
    return in_double(out) if dtype else out


# With dtype the input is taken to float64 first: the result is held to float64's roundoff, whatever the input's dtype.
DOUBLE = {"differentiable": ()}
add("norm.Scalar", whole_norm, lambda self, p=2: norm_second(self.reshape(1, -1), p, (1,), False)[0], norm_cases(False, False))
add("norm.ScalarOpt_dtype", whole_norm, lambda self, p, dtype: norm_second(self.reshape(1, -1), p, (1,), False)[0], norm_cases(True, False), **DOUBLE)
add("norm.ScalarOpt_dim_dtype", lambda self, p, dim, keepdim=False, dtype=None: in_double(p_norm(self, p, dim, keepdim)), lambda self, p, dim, keepdim=False, dtype=None: norm_second(self, p, dim, keepdim), norm_cases(True, True), **DOUBLE)


def flat(self, bins, weight=None, density=False):
    return count(self.reshape(-1, 1), [bins], None if weight is None else weight.ravel(), density), bins


add("histogram.bins_tensor", flat, lambda self, bins, weight=None, density=False: (by_numpy(self.reshape(-1, 1), [bins], None, None if weight is None else weight.ravel(), density)[0], bins),
    lambda draw: [Case(f"e{k}_{label}", args={"self": points(draw, 16, 1)[:, 0], "bins": e, **more}, **CPU) for k, e in enumerate(EDGES)
                  for label, more in (("count", {}), ("weight", {"weight": draw.integers(1, 9, 16) * 1.0}), ("density", {"density": True}))], **FLAGS)
add("isin.Scalar_Tensor", lambda element, test_elements, assume_unique=False, invert=False: Out(isin(numpy.array([element]), test_elements, invert), shape=()),
    lambda element, test_elements, assume_unique=False, invert=False: numpy.isin(element, test_elements, invert=invert),
    lambda draw: [Case(f"e{e}_inv{int(v)}", element=e, test_elements=numpy.arange(9) % 5 * 1.0, invert=v) for e in (3, 7) for v in (False, True)], **FLAGS)
