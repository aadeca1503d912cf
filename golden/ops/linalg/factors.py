"""Factors that are unique (Cholesky's with a positive diagonal, elimination with the largest pivot) and what is solved with factors."""

import numpy

from golden import Case, Out, conditioned
from golden import numpy_ad as np
from golden.ops.linalg._matrix import batched, cholesky_factor, elimination, flipped, half, inv, swaps, transpose
from golden.ops.linalg._nan import aside, demand_nan, nothing_but_nan
from golden.table import Table

MODES = ("layouts", "deterministic", "threads")
# As for elimination: at most n^2 roundings an element and n at most 5, in units of the exact condition (the Jacobian).
table = Table(tolerance=conditioned(float32=64, float64=64, why="docs/numerics.md#linalg"), modes=MODES)
add, operators = table.add, table.operators
SIZES = ((1, 1), (2, 2), (4, 4), (2, 3, 3))


def name(shape):
    return "s" + "x".join(map(str, shape))


def info(shape):
    """LAPACK's info: 0 for each matrix."""
    return Out(numpy.zeros(max(1, int(numpy.prod(shape[:-2]))), dtype=numpy.int32), shape=shape[:-2])


def no_errors(shape):
    return numpy.zeros(shape[:-2], dtype=numpy.int32)


# Cholesky ------------------------------------------------------------------------------------------------------------------------------------


def positive(draw, *shape):
    """Symmetric, diagonally dominant, exact in float32."""
    a = draw.integers(-16, 17, *shape) / 16.0
    return a + transpose(a) + 2.5 * shape[-1] * numpy.eye(shape[-1])


def cholesky(self, upper=False):
    factor = cholesky_factor(self)
    return flipped(factor) if upper else factor


def cholesky_second(self, upper=False):
    factor = numpy.linalg.cholesky(self)
    return transpose(factor) if upper else factor


def cholesky_cases(draw):
    for shape in SIZES:
        for upper in (False, True):
            yield Case(f"{name(shape)}_up{int(upper)}", self=positive(draw, *shape), upper=upper)
    yield Case("graded", self=numpy.array([[1024.0, 1.0], [1.0, 2.0**-8]]))


add("cholesky", cholesky, cholesky_second, lambda draw: [*cholesky_cases(draw), Case("not_positive", self=numpy.array([[1.0, 2.0], [2.0, 1.0]]), expect="error", source="pytorch#121009")])


def positive_or_not(self, upper=False, check_errors=False):
    """info counts from 1 where a leading minor is not positive; L is unspecified then."""
    if self.shape == (2, 2) and float(np.floats(self)[0, 1]) == 2:
        return Out(shape=(2, 2), unchecked="unspecified where the matrix is not positive definite"), Out(numpy.array([2], dtype=numpy.int32), shape=())
    return cholesky(self, upper), info(self.shape)


def positive_or_not_second(self, upper=False, check_errors=False):
    if self.shape[-1] == 2 and self.ndim == 2 and numpy.linalg.det(self) < 0:
        return None, numpy.asarray(2)
    return cholesky_second(self, upper), no_errors(self.shape)


add("linalg_cholesky_ex", positive_or_not, positive_or_not_second, lambda draw: [*cholesky_cases(draw),
    Case("not_positive", self=numpy.array([[1.0, 2.0], [2.0, 1.0]]), backward=False, source="pytorch#121009", note="the second leading minor is negative: info is 2"),
    Case("not_positive_checked", self=numpy.array([[1.0, 2.0], [2.0, 1.0]]), check_errors=True, expect="error")])


def triangular(draw, upper, *shape):
    """A factor with a dominant diagonal; the other triangle is full too and must not be read."""
    return draw.normal(*shape) + 4 * numpy.eye(shape[-1])


def factored(factor, upper):
    """L L^T, or U^T U."""
    t = factor * half(factor.shape, upper)
    return np.matmul(flipped(t), t) if upper else np.matmul(t, flipped(t))


def cholesky_solve(self, input2, upper=False):
    return np.matmul(inv(factored(input2, upper)), self)


def cholesky_solve_second(self, input2, upper=False):
    t = input2 * half(input2.shape, upper)
    lower = transpose(t) if upper else t
    return numpy.linalg.solve(transpose(lower), numpy.linalg.solve(lower, self))


def clean(draw, upper, *shape):
    return triangular(draw, upper, *shape) * half(shape, upper)


def triangles(draw):
    for upper in (False, True):
        for shape in SIZES:
            yield f"{name(shape)}_up{int(upper)}", clean(draw, upper, *shape), upper, {}
        yield f"other_triangle_up{int(upper)}", triangular(draw, upper, 3, 3), upper, {"backward": False, "note": "the other triangle is not read"}


add("cholesky_solve", cholesky_solve, cholesky_solve_second, lambda draw: [Case(f"{label}_r{r}", self=draw.normal(*t.shape[:-1], r), input2=t, upper=upper, **more) for r in (1, 2) for label, t, upper, more in triangles(draw) if r == 1 or t.ndim == 2])
add("cholesky_inverse", lambda self, upper=False: inv(factored(self, upper)), lambda self, upper=False: cholesky_solve_second(numpy.eye(self.shape[-1]), self, upper),
    lambda draw: [Case(label, self=t, upper=upper, **more) for label, t, upper, more in triangles(draw)])

# Elimination -----------------------------------------------------------------------------------------------------------------------------------


def packed(a, pivot=True):
    """(LU, pivots) of one matrix: L without its ones below, U on and above the diagonal."""
    m, n = a.shape
    order, lower, upper = elimination(a, pivot)
    count = min(m, n)
    left = lower * half((m, count), False, True)
    left = np.concatenate([left, np.balls(numpy.zeros((m, n - count)))], axis=1) if n > count else left
    upper = np.concatenate([upper, np.balls(numpy.zeros((m - count, n)))], axis=0) if m > count else upper
    return left + upper, swaps(order)[:count]


def lu_factor(A, pivot=True):
    lu = batched(lambda m: packed(m, pivot)[0], A)
    pivots = [packed(np.balls(np.floats(A)[i]), pivot)[1] for i in numpy.ndindex(*A.shape[:-2])]
    return lu, Out(numpy.stack(pivots), shape=(*A.shape[:-2], pivots[0].size))


def crout(A, pivot=True):
    """The second formula: column by column (Crout-Doolittle), on one matrix in float64."""
    a, order = A.copy(), list(range(A.shape[0]))
    for j in range(A.shape[1]):
        for i in range(A.shape[0]):
            a[i, j] -= sum(a[i, k] * a[k, j] for k in range(min(i, j)))
        if j < min(A.shape):
            best = j + int(numpy.argmax(numpy.abs(a[j:, j]))) if pivot else j
            a[[j, best]] = a[[best, j]]
            order[j], order[best] = order[best], order[j]
            a[j + 1 :, j] /= a[j, j]
    return a, swaps(order)[: min(A.shape)]


def lu_factor_second(A, pivot=True):
    parts = [crout(A[i], pivot) for i in numpy.ndindex(*A.shape[:-2])]
    return tuple(numpy.stack(p).reshape(*A.shape[:-2], *p[0].shape) for p in zip(*parts, strict=True))


def lu_cases(draw, square_only=False):
    for shape in (*SIZES, *(() if square_only else ((4, 2), (2, 4)))):
        yield Case(name(shape), A=draw.normal(*shape))
    yield Case("small_pivot", A=numpy.array([[2.0**-20, 1.0], [1.0, 1.0]]), note="without exchanging rows the answer is lost")
    if not square_only:
        yield Case("no_pivot", A=draw.normal(3, 3) + 4 * numpy.eye(3), pivot=False, only=("cuda",), note="a CPU has no elimination without pivots")


add("linalg_lu_factor", lu_factor, lu_factor_second, lu_cases)
add("linalg_lu_factor_ex", lambda A, pivot=True: (*lu_factor(A, pivot), info(A.shape)), lambda A, pivot=True: (*lu_factor_second(A, pivot), no_errors(A.shape)), lu_cases)


def permutation(pivots, size):
    """P with A = P L U."""
    order = list(range(size))
    for k, p in enumerate(pivots):
        order[k], order[p - 1] = order[p - 1], order[k]
    return numpy.eye(size)[:, order]


def permutations(pivots, size):
    return numpy.stack([permutation(pivots[i], size) for i in numpy.ndindex(*pivots.shape[:-1])]).reshape(*pivots.shape[:-1], size, size)


def lu_solve(LU, pivots, B, left=True, adjoint=False):
    n = LU.shape[-1]
    a = np.matmul(np.balls(permutations(pivots, n)), np.matmul(LU * half(LU.shape, False, True) + numpy.eye(n), LU * half(LU.shape, True)))
    a = flipped(a) if adjoint else a
    return np.matmul(inv(a), B) if left else np.matmul(B, inv(a))


def lu_solve_second(LU, pivots, B, left=True, adjoint=False):
    n = LU.shape[-1]
    a = permutations(pivots, n) @ (numpy.tril(LU, -1) + numpy.eye(n)) @ numpy.triu(LU)
    a = transpose(a) if adjoint else a
    return numpy.linalg.solve(a, B) if left else transpose(numpy.linalg.solve(transpose(a), transpose(B)))


def factored_pairs(draw, shape):
    """A packed factor with a dominant diagonal and its row exchanges."""
    n = shape[-1]
    lu = draw.normal(*shape) * 0.5 + 2 * numpy.eye(n)
    pivots = numpy.stack([k + 1 + draw.integers(0, n - k, *shape[:-2]) for k in range(n)], axis=-1).astype(numpy.int32)
    return lu, pivots


def lu_solve_cases(draw):
    for shape in SIZES:
        lu, pivots = factored_pairs(draw, shape)
        for left in (True, False):
            for adjoint in (False, True):
                yield Case(f"{name(shape)}_left{int(left)}_adjoint{int(adjoint)}", LU=lu, pivots=pivots, B=draw.normal(*shape[:-1], 2) if left else draw.normal(*shape[:-2], 2, shape[-1]), left=left, adjoint=adjoint)


add("linalg_lu_solve", lu_solve, lu_solve_second, lu_solve_cases)
add("lu_solve", lambda self, LU_data, LU_pivots: lu_solve(LU_data, LU_pivots, self), lambda self, LU_data, LU_pivots: lu_solve_second(LU_data, LU_pivots, self),
    lambda draw: [Case(name(s), self=draw.normal(*s[:-1], 2), LU_data=f[0], LU_pivots=f[1]) for s in SIZES for f in (factored_pairs(draw, s),)])


def triangular_solve(self, A, upper=True, transpose=False, unitriangular=False):
    t = A * half(A.shape, upper, unitriangular) + (numpy.eye(A.shape[-1]) if unitriangular else 0)
    return np.matmul(inv(flipped(t) if transpose else t), self), Out(np.value(A) + 0, constant=True, gauge="exact", bound=0, why="a copy of the coefficients")


def triangular_solve_second(self, A, upper=True, transpose=False, unitriangular=False):
    t = numpy.triu(A) if upper else numpy.tril(A)
    if unitriangular:
        t = t - t * numpy.eye(A.shape[-1]) + numpy.eye(A.shape[-1])
    return numpy.linalg.solve(numpy.swapaxes(t, -1, -2) if transpose else t, self), A


add("triangular_solve", triangular_solve, triangular_solve_second,
    lambda draw: [Case(f"{name(s)}_up{int(u)}_t{int(t)}_unit{int(unit)}", self=draw.normal(*s[:-1], 2), A=triangular(draw, u, *s), upper=u, transpose=t, unitriangular=unit)
                  for s in ((1, 1), (3, 3), (2, 3, 3)) for u in (True, False) for t in (False, True) for unit in (False, True) if s[-1] > 1 or not unit])
inv_ex = add("linalg_inv_ex", lambda A: (inv(A), info(A.shape)), lambda A: (numpy.linalg.inv(A), no_errors(A.shape)), lambda draw: [Case(name(s), A=draw.normal(*s) + 3 * numpy.eye(s[-1])) for s in SIZES])
solve_ex = add("linalg_solve_ex", lambda A, B, left=True: (np.matmul(inv(A), B) if left else np.matmul(B, inv(A)), info(A.shape)),
    lambda A, B, left=True: (numpy.linalg.solve(A, B) if left else transpose(numpy.linalg.solve(transpose(A), transpose(B))), no_errors(A.shape)),
    lambda draw: [Case(f"{name(s)}_left{int(left)}", A=draw.normal(*s) + 3 * numpy.eye(s[-1]), B=draw.normal(*s[:-1], 2) if left else draw.normal(*s[:-2], 2, s[-1]), left=left) for s in SIZES for left in (True, False)])

demand_nan(inv_ex, "A", lambda n: [nothing_but_nan((n, n)), aside()])
demand_nan(solve_ex, "A", lambda n: [nothing_but_nan((n, 2)), aside()], B=lambda draw, n: draw.normal(n, 2))


def unpacked(LU_data, LU_pivots):
    m, n = LU_data.shape[-2:]
    k = min(m, n)
    lower = LU_data[..., :, :k] * half((m, k), False, True) + numpy.eye(m, k)
    return Out(permutations(LU_pivots, m), constant=True), lower, LU_data[..., :k, :] * half((k, n), True)


add("lu_unpack", unpacked, lambda LU_data, LU_pivots: (permutations(LU_pivots, LU_data.shape[-2]), numpy.tril(LU_data[..., : min(LU_data.shape[-2:])], -1) + numpy.eye(LU_data.shape[-2], min(LU_data.shape[-2:])),
                                                       numpy.triu(LU_data[..., : min(LU_data.shape[-2:]), :])),
    lambda draw: [Case(name(s), LU_data=draw.normal(*s), LU_pivots=numpy.stack([k + 1 + draw.integers(0, s[-2] - k, *s[:-2]) for k in range(min(s[-2:]))], axis=-1).astype(numpy.int32)) for s in (*SIZES, (4, 2), (2, 4))])

# Householder's and Bunch's factors -------------------------------------------------------------------------------------------------------------


def householder(self):
    """LAPACK's geqrf on a tall matrix: R above, the vectors below their implied 1, and tau; R's diagonal has the sign that avoids cancellation."""
    def one(a):
        m, n = a.shape
        columns, taus = [a[:, j : j + 1] for j in range(n)], []
        for k in range(n):
            x = columns[k][k:]
            alpha = x[:1]
            sign = 1.0 if float(np.floats(alpha)[0, 0]) >= 0 else -1.0
            beta = -sign * np.sqrt(np.sum(x * x, axis=0, keepdims=True))
            tau = (beta - alpha) / beta
            below = x[1:] / (alpha - beta)
            v = np.concatenate([np.balls(numpy.ones((1, 1))), below])
            for j in range(k + 1, n):
                rest = columns[j][k:]
                columns[j] = np.concatenate([columns[j][:k], rest - v * tau * np.sum(v * rest, axis=0, keepdims=True)])
            columns[k] = np.concatenate([columns[k][:k], beta, below])
            taus.append(tau[0])
        return np.concatenate(columns, axis=1), np.concatenate(taus)

    return batched(one, self)


def householder_second(self):
    """NumPy's raw mode is LAPACK's own."""
    parts = [numpy.linalg.qr(self[i], mode="raw") for i in numpy.ndindex(*self.shape[:-2])]
    return numpy.stack([h.T for h, _ in parts]).reshape(self.shape), numpy.stack([t for _, t in parts]).reshape(*self.shape[:-2], self.shape[-1])


add("geqrf", householder, householder_second, lambda draw: [Case(name(s), self=draw.normal(*s)) for s in ((2, 1), (3, 2), (5, 3), (7, 4), (2, 4, 2))], differentiable=())


def indefinite(draw, *shape):
    """Symmetric with a dominant diagonal of either sign: Bunch and Kaufman exchange nothing and take pivots of one."""
    a = draw.integers(-8, 9, *shape) / 16.0
    return a + transpose(a) + numpy.diag(numpy.where(numpy.arange(shape[-1]) % 2, -4.0, 4.0)) * shape[-1]


def ldl(self):
    """L below its ones and D on the diagonal, of A = L D L^T."""
    def one(a):
        _, lower, upper = elimination(a, pivot=False)
        return lower * half(a.shape, False, True) + upper * numpy.eye(a.shape[-1])

    return batched(one, self)


def no_exchange(shape):
    return numpy.broadcast_to(numpy.arange(1, shape[-1] + 1), shape[:-1]).astype(numpy.int32)


def ldl_second(self):
    """Column by column: d_j = a_jj - sum l_jk^2 d_k."""
    out = numpy.zeros(self.shape)
    for i in numpy.ndindex(*self.shape[:-2]):
        a, f = self[i], out[i]
        for j in range(a.shape[0]):
            f[j, j] = a[j, j] - sum(f[j, k] ** 2 * f[k, k] for k in range(j))
            for r in range(j + 1, a.shape[0]):
                f[r, j] = (a[r, j] - sum(f[r, k] * f[j, k] * f[k, k] for k in range(j))) / f[j, j]
    return out


for schema, extra in (("linalg_ldl_factor", False), ("linalg_ldl_factor_ex", True)):
    add(schema, lambda self, extra=extra: (ldl(self), Out(no_exchange(self.shape)), *((info(self.shape),) if extra else ())),
        lambda self, extra=extra: (ldl_second(self), no_exchange(self.shape), *((no_errors(self.shape),) if extra else ())), lambda draw: [Case(name(s), self=indefinite(draw, *s)) for s in SIZES], differentiable=())


def ldl_solve(LD, pivots, B):
    lower = LD * half(LD.shape, False, True) + numpy.eye(LD.shape[-1])
    return np.matmul(inv(np.matmul(np.matmul(lower, LD * numpy.eye(LD.shape[-1])), flipped(lower))), B)


def ldl_solve_second(LD, pivots, B):
    lower = numpy.tril(LD, -1) + numpy.eye(LD.shape[-1])
    z = numpy.linalg.solve(lower, B) / numpy.einsum("...ii->...i", LD)[..., None]
    return numpy.linalg.solve(transpose(lower), z)


add("linalg_ldl_solve", ldl_solve, ldl_solve_second, lambda draw: [Case(f"{name(s)}_r{r}", LD=draw.normal(*s) * 0.5 + numpy.diag(numpy.where(numpy.arange(s[-1]) % 2, -3.0, 3.0)), pivots=no_exchange(s), B=draw.normal(*s[:-1], r))
                                                                   for s in SIZES for r in (1, 2)], differentiable=())
