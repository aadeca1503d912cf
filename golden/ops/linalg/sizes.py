"""Norms and condition numbers of matrices, pseudo-inverses and least squares of full rank."""

import math

import numpy

from golden import Case, Out, conditioned
from golden import numpy_ad as np
from golden.ops.linalg._matrix import flipped, inv
from golden.ops.linalg._nan import aside, demand_nan, nothing_but_nan
from golden.table import Table

MODES = ("layouts", "deterministic", "threads")
# Sums and elimination in units of the exact condition; singular values err by p(n) u |A|_2 (Weyl), which is the Jacobian's size here: two rows or columns.
table = Table(tolerance=conditioned(float32=64, float64=64, why="docs/numerics.md#linalg"), modes=MODES)
add, operators = table.add, table.operators

# Norms ---------------------------------------------------------------------------------------------------------------------------------------


def largest(sums, sign):
    """The largest (smallest) along the last axis, by gathering; no ties."""
    best = (numpy.argmax if sign > 0 else numpy.argmin)(np.floats(sums), axis=-1)
    return np.take_along_axis(sums, best[..., None], sums.ndim - 1)[..., 0]


def two_values(a):
    """The singular values of matrices with two rows or two columns: roots of the quadratic of the small Gram matrix."""
    g = np.matmul(a, flipped(a)) if a.shape[-2] <= a.shape[-1] else np.matmul(flipped(a), a)
    if g.shape[-1] == 1:
        return [np.sqrt(g[..., 0, 0])]
    half, difference = (g[..., 0, 0] + g[..., 1, 1]) / 2, (g[..., 0, 0] - g[..., 1, 1]) / 2
    root = np.sqrt(difference * difference + g[..., 0, 1] * g[..., 0, 1])
    return [np.sqrt(half + root), np.sqrt(half - root)]


def matrix_norm(a, order):
    """Of the last two axes."""
    if order in (None, "fro"):
        return np.sqrt(np.sum(a * a, axis=(-2, -1)))
    if order == "nuc":
        return sum(two_values(a))
    if abs(order) == 2:
        return two_values(a)[0 if order > 0 else -1]
    return largest(np.sum(np.absolute(a), axis=-2 if abs(order) == 1 else -1), order)


def in_axes(self, order, dim, keepdim):
    first, second = (d % self.ndim for d in dim)
    out = matrix_norm(np.reshape(np.moveaxis(self, (first, second), (-2, -1)), (-1, self.shape[first], self.shape[second])), order)
    rest = [n for a, n in enumerate(self.shape) if a not in (first, second)]
    return Out(out, shape=tuple(1 if a in (first, second) else n for a, n in enumerate(self.shape)) if keepdim else tuple(rest))


def norm_cases(orders, ord_name, spelled):
    """Every order on a square, a wide, a tall and a batched matrix; the orders of singular values with two rows or columns."""
    def cases(draw):
        for order in orders:
            label = str(order).replace(".", "").replace("-", "m")
            values = order in (2, -2, "nuc")
            for shape, dim in (((2, 2), (-2, -1)), ((2, 5), (0, 1)), ((2, 3, 2), (-2, -1)), ((2, 3, 4), (0, 2)), *(() if values else (((17, 3), (-2, -1)), ((3, 3), (1, 0))))):
                yield Case(f"{label}_s{'x'.join(map(str, shape))}_d{dim[0] % len(shape)}{dim[1] % len(shape)}", args={"self": draw.normal(*shape), ord_name: order, "dim": dim})
            yield Case(f"{label}_keepdim", args={"self": draw.normal(2, 2, 3), ord_name: order, "dim": (-2, -1), "keepdim": True})
            yield Case(f"{label}_scaled_up", args={"self": draw.normal(2, 3) * 2.0**40, ord_name: order, "dim": (0, 1)})
            if values and (spelled or order == -2):  # Weyl bounds the smallest one by the largest only
                continue
            yield Case(f"{label}_magnitudes", args={"self": numpy.array([[2.0**30, 1.0], [3.0, 2.0**-20]]), ord_name: order, "dim": (0, 1)}, backward=False)

    return cases


def numpy_norm(self, order, dim, keepdim):
    return numpy.linalg.norm(self, order, tuple(dim), keepdim)


ORDERS, NAMES = (1, -1, math.inf, -math.inf, 2, -2), ("fro", "nuc")
for schema, orders in (("linalg_matrix_norm", ORDERS), ("linalg_matrix_norm.str_ord", NAMES), ("linalg_norm", ORDERS), ("linalg_norm.ord_str", NAMES)):
    spelled = orders is NAMES
    add(schema, lambda self, ord, dim=(-2, -1), keepdim=False: in_axes(self, ord, dim, keepdim), lambda self, ord, dim=(-2, -1), keepdim=False: numpy_norm(self, ord, dim, keepdim),
        lambda draw, o=orders, s=spelled: norm_cases(o, "ord", s)(draw))
    for order in orders:
        demand_nan(operators[-1], "self", lambda n: [nothing_but_nan(())], sizes=(3,), prefix=f"{order}_".replace("-", "m"), ord=order, dim=(-2, -1))


def cond(self, p=None):
    values = two_values(self) if p in (None, 2, -2) else None
    if values is not None:
        out = values[-1] / values[0] if p == -2 else values[0] / values[-1]
        return out
    return matrix_norm(self, p) * matrix_norm(inv(self), p)


def cond_shaped(self, p=None):
    return Out(cond(np.reshape(self, (1, *self.shape)), p), shape=()) if self.ndim == 2 else cond(self, p)


def cond_cases(orders):
    def cases(draw):
        for p in orders:
            label = str(p).replace("-", "m").lower()
            for shape in ((2, 2), (3, 2, 2), *(() if p in (None, 2, -2, "nuc") else ((3, 3), (4, 4)))):
                yield Case(f"{label}_s{'x'.join(map(str, shape))}", self=draw.normal(*shape) + 3 * numpy.eye(shape[-1]), p=p)
            yield Case(f"{label}_graded", self=numpy.array([[1.0, 0.25], [0.0, 2.0**-10]]), p=p)

    return cases


for schema, orders in (("linalg_cond", (None, 2, -2, 1, -1, math.inf, -math.inf)), ("linalg_cond.p_str", ("fro", "nuc"))):
    add(schema, cond_shaped, lambda self, p=None: numpy.linalg.cond(self, p), cond_cases(orders))

# Pseudo-inverses and least squares of full rank --------------------------------------------------------------------------------------------------


def pinv(a):
    """(A^T A)^-1 A^T, or A^T (A A^T)^-1."""
    t = flipped(a)
    return np.matmul(inv(np.matmul(t, a)), t) if a.shape[-2] >= a.shape[-1] else np.matmul(t, inv(np.matmul(a, t)))


def full_rank(draw):
    for shape in ((1, 1), (3, 3), (5, 3), (2, 4), (2, 3, 2), (7, 1)):
        yield f"s{'x'.join(map(str, shape))}", draw.normal(*shape) + 2 * numpy.eye(*shape[-2:])


def size(a):
    """Frobenius norms of the matrices of a batch, ready to be broadcast."""
    return numpy.sqrt((numpy.asarray(a) ** 2).sum((-2, -1)))[..., None, None]


def spectral(a):
    """(|A|, |A^+|) in the 2-norm, ready to be broadcast."""
    values = numpy.linalg.svd(a, compute_uv=False)
    return values.max(-1)[..., None, None], 1 / values.min(-1)[..., None, None]


# LAPACK accepts a singular value decomposition that is off by 30 max(m, n) u |A| (its testing threshold); Wedin's bound multiplies by sqrt(2); m is at most 7.
BY_VALUES = conditioned(float32=300, float64=300, why="LAPACK's threshold 30 max(m, n) u |A| for a singular value decomposition, times Wedin's sqrt(2) |A^+|^2; m <= 7")


def pinv_scale(outputs, self, **_):
    """Singular values and vectors err normwise: |(A + E)^+ - A^+| <= sqrt(2) |A^+|^2 |E| and |E| <= p(n) u |A| (Wedin 1973)."""
    norm, back = spectral(self)
    return numpy.broadcast_to(norm * back * back, outputs[0].shape) * 1.0


def pinv_backward_scale(gradients, upstream, self, **_):
    """The gradient is quadratic in A^+ (Golub and Pereyra 1973): |G| |A^+|^2 times the condition."""
    norm, back = spectral(self)
    return {"self": numpy.broadcast_to(size(upstream[0]) * norm * back**3, self.shape) * 1.0}


for schema, given in (("linalg_pinv", {"rcond": 2.0**-13}), ("linalg_pinv.atol_rtol_float", {}), ("pinverse", {"rcond": 2.0**-13})):
    add(schema, lambda self, **_: pinv(self), lambda self, **_: numpy.linalg.pinv(self), lambda draw, given=given: [Case(label, self=a, **given) for label, a in full_rank(draw)], tolerance=BY_VALUES)
    operators[-1].scale(pinv_scale)
    operators[-1].backward_scale(pinv_backward_scale)
    demand_nan(operators[-1], "self", lambda n: [nothing_but_nan((n, n))], **given)


def lstsq(self, b, rcond=None, driver=None):
    """The residuals are sums of squares, and empty where the system is not overdetermined; the rank and the singular values are not every driver's."""
    x = np.matmul(pinv(self), b)
    rest = np.matmul(self, x) - b
    over = self.shape[-2] > self.shape[-1]
    residuals = Out(np.sum(rest * rest, axis=-2)) if over else Out(shape=(0,), unchecked="empty: the system is not overdetermined")
    return x, residuals, Out(unchecked="empty with the driver gels"), Out(unchecked="empty with the driver gels")


def lstsq_second(self, b, rcond=None, driver=None):
    solved = [numpy.linalg.lstsq(self[i], b[i], rcond=None) for i in numpy.ndindex(*self.shape[:-2])]
    over = self.shape[-2] > self.shape[-1]
    shape = self.shape[:-2]
    return numpy.stack([s[0] for s in solved]).reshape(*shape, self.shape[-1], -1), numpy.stack([s[1] for s in solved]).reshape(*shape, -1) if over else None, None, None


least = add("linalg_lstsq", lstsq, lstsq_second, lambda draw: [Case(f"{label}_r{r}", self=a, b=draw.normal(*a.shape[:-1], r), driver="gels") for label, a in full_rank(draw) for r in (1, 2)]
    + [Case("consistent", self=numpy.array([[1.0, 1.0], [1.0, 2.0], [1.0, 3.0]]), b=numpy.array([[1.0], [2.0], [2.0]]), driver="gels", note="the textbook's line: 2/3 + x/2")])


def solved(self, b):
    """(|A|, |A^+|, |x|, |r|, |A| |x| + |b|): what the perturbation bounds of least squares are made of (Higham, Accuracy and Stability, 20.1)."""
    norm, back = spectral(self)
    x = numpy.linalg.pinv(self) @ b
    return norm, back, size(x), size(b - self @ x), norm * size(x) + size(b)


@least.scale
def lstsq_scale(outputs, self, b, **_):
    """Of x: |A^+| (|A| |x| + |b|) + |A^+|^2 |A| |r|; of the sums of squares: |r| times the condition times (|A| |x| + |b|)."""
    norm, back, _, rest, terms = solved(self, b)
    x = numpy.broadcast_to(back * terms + back**2 * norm * rest, outputs[0].shape) * 1.0
    return x, None if outputs[1] is None else numpy.broadcast_to((rest**2 + 2 * rest * norm * back * terms)[..., 0], outputs[1].shape) * 1.0, None, None


@least.backward_scale
def lstsq_backward_scale(gradients, upstream, self, b, **_):
    """With G and g upstream of x and of the sums: dB is A^+T G and 2 g r, dA is -A^+T G x^T, (A^T A)^-1 G r^T and 2 g r x^T, each times the condition."""
    norm, back, x, rest, terms = solved(self, b)
    g = size(upstream[0])
    h = 0 if upstream[1] is None else 2 * numpy.abs(upstream[1]).max(-1)[..., None, None] * terms
    condition = norm * back
    to_b, to_a = (g * back + h) * condition, (2 * g * back * x + g * back**2 * rest + h * x) * condition
    return {"b": numpy.broadcast_to(to_b, b.shape) * 1.0, "self": numpy.broadcast_to(to_a, self.shape) * 1.0}


demand_nan(least, "self", lambda n: [nothing_but_nan((n, 1)), aside(), aside(), aside()], driver="gels", b=lambda draw, n: draw.normal(n, 1))
