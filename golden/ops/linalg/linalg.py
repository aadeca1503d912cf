"""Solvers and determinants by Arb's enclosures, decompositions by LAPACK's residual ratios (LAPACK Users' Guide, testing; bounds 30)."""

import itertools

import numpy

from golden import Case, Out, conditioned
from golden import numpy_ad as np
from golden.ops.linalg._matrix import each, eigenvalues, inverse, singular_values, solve, transpose
from golden.table import Table

MODES = ("layouts", "deterministic", "threads")
# Gaussian elimination with partial pivoting: growth below 2^(n-1), and n^2 roundings an element; n is at most 5 in the conditioned cases (docs/numerics.md#linalg).
SOLVE = conditioned(float32=64, float64=64, why="docs/numerics.md#linalg")
THRESHOLD = 30
table = Table(tolerance=SOLVE, modes=MODES)
add, operators = table.add, table.operators


def square(draw, *shape):
    """Well conditioned: normal numbers plus 3 on the diagonal."""
    return draw.normal(*shape) + 3 * numpy.eye(shape[-1])


SIZES = ((1, 1), (2, 2), (3, 3), (5, 5), (2, 3, 3), (33, 2, 2))


def name(shape):
    return "s" + "x".join(map(str, shape))


# Solvers -----------------------------------------------------------------------------------------------------------------------------------

inv = add("linalg_inv", lambda A: inverse(A), lambda A: numpy.linalg.inv(A), lambda draw: [Case(name(s), A=square(draw, *s)) for s in SIZES]
          + [Case("graded", A=numpy.array([[1.0, 1024.0], [2.0**-10, 3.0]])), Case("singular", A=numpy.zeros((2, 2)), expect="error")])


@inv.vjp
def inv_vjp(upstream, A):
    """-A^-T G A^-T."""
    t = transpose(inverse(A))
    return {"A": -numpy.matmul(numpy.matmul(t, upstream[0]), t)}


@inv.scale
def inv_scale(outputs, A):
    x = numpy.abs(outputs[0])
    return x @ numpy.abs(A) @ x + x


@inv.backward_scale
def inv_backward_scale(gradients, upstream, A):
    x = numpy.abs(numpy.linalg.inv(A))
    bound, t = x @ numpy.abs(A) @ x + x, transpose
    g = numpy.abs(upstream[0])
    return {"A": t(bound) @ g @ t(x) + t(x) @ g @ t(bound)}


solver = add("linalg_solve", lambda A, B, left=True: solve(A, B) if left else transpose(solve(transpose(A), transpose(B))),
             lambda A, B, left=True: numpy.linalg.solve(A, B) if left else transpose(numpy.linalg.solve(transpose(A), transpose(B))),
             lambda draw: [Case(f"{name(s)}_r{k}", A=square(draw, *s), B=draw.normal(*s[:-1], k)) for s in SIZES for k in (1, 3) if s[0] != 33 or k == 1]
             + [Case("from_the_right", A=square(draw, 3, 3), B=draw.normal(2, 3), left=False), Case("singular", A=numpy.zeros((2, 2)), B=numpy.ones((2, 1)), expect="error")])


@solver.vjp
def solve_vjp(upstream, A, B, left=True):
    """dB = A^-T G, dA = -dB X^T; from the right dB = G A^-T, dA = -X^T dB."""
    g = upstream[0]
    if left:
        back = solve(transpose(A), g)
        return {"B": back, "A": -numpy.matmul(back, transpose(solve(A, B)))}
    back = transpose(solve(A, transpose(g)))
    return {"B": back, "A": -numpy.matmul(transpose(transpose(solve(transpose(A), transpose(B)))), back)}


def skeel(A, X, B):
    """|A^-1| (|A| |X| + |B|): componentwise condition (Skeel 1979)."""
    return numpy.abs(numpy.linalg.inv(A)) @ (numpy.abs(A) @ numpy.abs(X) + numpy.abs(B))


@solver.scale
def solve_scale(outputs, A, B, left=True):
    return skeel(A, outputs[0], B) if left else transpose(skeel(transpose(A), transpose(outputs[0]), transpose(B)))


@solver.backward_scale
def solve_backward_scale(gradients, upstream, A, B, left=True):
    if not left:
        turned = solve_backward_scale({}, [transpose(upstream[0])], transpose(A), transpose(B))
        return {"A": transpose(turned["A"]), "B": transpose(turned["B"])}
    x, back = numpy.linalg.solve(A, B), numpy.linalg.solve(transpose(A), upstream[0])
    sx, sb = skeel(A, x, B), skeel(transpose(A), back, upstream[0])
    return {"B": sb, "A": sb @ transpose(numpy.abs(x)) + numpy.abs(back) @ transpose(sx)}


def triangle(A, upper, unitriangular):
    kept = (numpy.triu if upper else numpy.tril)(numpy.ones(A.shape[-2:]), 0 if not unitriangular else (1 if upper else -1))
    out = A * kept
    return out + numpy.eye(A.shape[-1]) if unitriangular else out


def triangular_reference(self, B, upper, left=True, unitriangular=False):
    a = triangle(np.value(self), upper, unitriangular)
    return solve(a, B) if left else transpose(solve(transpose(a), transpose(B)))


def triangular_second(self, B, upper, left=True, unitriangular=False):
    """Substitution, row by row."""
    a, b = triangle(self, upper, unitriangular), B
    if not left:
        return transpose(triangular_second(transpose(self), transpose(B), not upper, True, unitriangular))
    x = numpy.zeros(b.shape)
    order = range(a.shape[-1])
    for i in reversed(order) if upper else order:
        x[..., i, :] = (b[..., i, :] - numpy.einsum("...k,...kr->...r", a[..., i, :], x)) / a[..., i, i, None]
    return x


tri = add("linalg_solve_triangular", triangular_reference, triangular_second,
          lambda draw: [Case(f"n{n}_up{int(u)}_left{int(left)}_unit{int(unit)}", self=square(draw, n, n), B=draw.normal(n, 2) if left else draw.normal(2, n), upper=u, left=left, unitriangular=unit)
                        for n in (1, 4) for u in (False, True) for left in (True, False) for unit in (False, True) if n > 1 or not unit])


@tri.vjp
def tri_vjp(upstream, self, B, upper, left=True, unitriangular=False):
    """As solve's; the matrix's gradient is kept to its triangle."""
    a = triangle(self, upper, unitriangular)
    turned = {"A": None}
    if left:
        back = solve(transpose(a), upstream[0])
        turned["A"] = -numpy.matmul(back, transpose(solve(a, B)))
    else:
        back = transpose(solve(a, transpose(upstream[0])))
        turned["A"] = -numpy.matmul(transpose(transpose(solve(transpose(a), transpose(B)))), back)
    kept = (numpy.triu if upper else numpy.tril)(numpy.ones(self.shape[-2:]), 0 if not unitriangular else (1 if upper else -1))
    return {"self": turned["A"] * kept, "B": back}


@tri.scale
def tri_scale(outputs, self, B, upper, left=True, unitriangular=False):
    return solve_scale(outputs, triangle(self, upper, unitriangular), B, left)


@tri.backward_scale
def tri_backward_scale(gradients, upstream, self, B, upper, left=True, unitriangular=False):
    both = solve_backward_scale({}, upstream, triangle(self, upper, unitriangular), B, left)
    return {"self": both["A"], "B": both["B"]}


# Determinants: Leibniz's sum over permutations, n up to 4 ------------------------------------------------------------------------------------


def det(A):
    n, total = A.shape[-1], 0
    for p in itertools.permutations(range(n)):
        sign = (-1) ** sum(p[i] > p[j] for i in range(n) for j in range(i + 1, n))
        term = sign
        for i in range(n):
            term = term * A[..., i, p[i]]
        total = total + term
    return total


DETS = ((1, 1), (2, 2), (3, 3), (4, 4), (3, 2, 2))


def single(reference):
    """References see a batch of one where there is none, since a 0-d array of balls is no array."""
    return lambda A: Out(reference(np.reshape(A, (1, *A.shape))), shape=()) if A.ndim == 2 else reference(A)


add("linalg_det", single(det), lambda A: numpy.linalg.det(A), lambda draw: [Case(name(s), A=square(draw, *s)) for s in DETS]
    + [Case("zero_row", A=numpy.array([[1.0, 2.0], [0.0, 0.0]]), backward=False, trivial="a row of zeros: the determinant is 0"), Case("nearly_singular", A=numpy.array([[1.0, 2.0], [2.0, 4.0 + 2.0**-10]]))])
add("logdet", lambda self: single(lambda A: np.log(det(A)))(self), lambda self: numpy.log(numpy.linalg.det(self)), lambda draw: [Case(name(s), self=numpy.eye(s[-1]) * 6 + draw.normal(*s)) for s in DETS]
    + [Case("structurally_singular", self=numpy.array([[1.0, 0.0], [0.0, 0.0]]), special=True, source="pytorch#154312", trivial="log 0 is -inf")])


def slogdet(A):
    d = det(np.reshape(A, (1, *A.shape)) if A.ndim == 2 else A)
    sign = numpy.sign(np.floats(d))
    shape = () if A.ndim == 2 else d.shape
    return Out(np.balls(sign), shape=shape, constant=True), Out(np.log(d * sign), shape=shape)


add("linalg_slogdet", slogdet, lambda A: tuple(numpy.linalg.slogdet(A)), lambda draw: [Case(name(s), A=square(draw, *s) * (-1 if s[-1] == 3 else 1)) for s in DETS])

# Decompositions: residuals --------------------------------------------------------------------------------------------------------------------


def matrices(draw):
    for shape in ((1, 1), (3, 3), (5, 3), (3, 5), (17, 4), (2, 4, 3), (33, 3, 2), (32, 32)):
        yield name(shape), draw.normal(*shape), None
    yield "ill_conditioned", draw.normal(5, 5) * 2.0 ** (-5 * numpy.arange(5)), None
    yield "rank_1", numpy.outer(draw.integers(1, 9, 4), draw.integers(1, 9, 3)).astype(float), None
    yield "small_3x3", numpy.array([[50.0, -20.0, 30.0], [10.0, 60.0, -40.0], [-25.0, 15.0, 35.0]]), "pytorch#82473"


def items(*rows):
    return [{**row, "bound": THRESHOLD} for row in rows]


def product(label, left, right, over):
    return {"name": label, "left": [left], "right": right, "over": [over]}


def others(*shapes):
    return tuple(Out(shape=s, unchecked="judged by output 0's residuals") for s in shapes)


def qr(A, mode="reduced"):
    m, n = A.shape[-2:]
    k = min(m, n) if mode == "reduced" else m
    batch = A.shape[:-2]
    rows = items(product("A - QR", "in:A", ["out:0", "out:1"], "in:A"), {"name": "I - Q^T Q", "orthonormal": "out:0"}, {"name": "R", "structure": "upper", "of": "out:1"})
    return Out(shape=(*batch, m, k), residual=rows), *others((*batch, k, n))


def none(count):
    """No value to compare: the residuals judge."""
    return lambda **_: (None,) * count


def residual(schema, reference, count, cases):
    operator = add(schema, reference, none(count), cases, tolerance=conditioned(why="residual ratios"), differentiable=())
    return operator


residual("linalg_qr", qr, 2, lambda draw: [Case(f"{label}_{mode}", A=a, mode=mode, source=source) for label, a, source in matrices(draw) for mode in ("reduced", "complete")])


def svd(A, full_matrices=True):
    m, n = A.shape[-2:]
    k, batch = min(m, n), A.shape[:-2]
    rows = items(product("A - U S V^T", "in:A", ["out:0", "diag:out:1", "out:2"], "in:A"), {"name": "I - U^T U", "orthonormal": "out:0"}, {"name": "I - V V^T", "orthonormal": "out:2^H"},
                 {"name": "S", "structure": "descending", "of": "out:1"}, {"name": "S", "structure": "nonnegative", "of": "out:1"})
    return Out(shape=(*batch, m, m if full_matrices else k), residual=rows), *others((*batch, k), (*batch, n if full_matrices else k, n))


residual("linalg_svd", svd, 3, lambda draw: [Case(f"{label}_full{int(full)}", A=a, full_matrices=full, source=source) for label, a, source in matrices(draw) for full in (False, True)])


def eigh(self, UPLO="L"):
    n, batch = self.shape[-1], self.shape[:-2]
    rows = items({"name": "A V - V W", "left": ["in:self", "out:1"], "right": ["out:1", "diag:out:0"], "over": ["in:self"]}, {"name": "I - V^T V", "orthonormal": "out:1"},
                 {"name": "W", "structure": "ascending", "of": "out:0"})
    return Out(shape=(*batch, n), residual=rows), *others((*batch, n, n))


def symmetric(draw):
    for shape in ((1, 1), (2, 2), (5, 5), (3, 3, 3), (33, 2, 2), (32, 32)):
        a = draw.integers(-64, 65, *shape) / 16.0
        yield name(shape), a + transpose(a)
    yield "low_rank", numpy.outer(numpy.arange(1.0, 7), numpy.arange(1.0, 7))


residual("linalg_eigh", eigh, 2, lambda draw: [Case(f"{label}_{uplo.lower()}", self=a, UPLO=uplo) for label, a in symmetric(draw) for uplo in ("L", "U")])


def cholesky(self, upper=False):
    batch, n = self.shape[:-2], self.shape[-1]
    factors = ["out:0^H", "out:0"] if upper else ["out:0", "out:0^H"]
    rows = items(product("A - L L^T", "in:self", factors, "in:self"), {"name": "L", "structure": "upper" if upper else "lower", "of": "out:0"})
    return Out(shape=(*batch, n, n), residual=rows)


def positive(draw):
    for label, a in symmetric(draw):
        yield label, numpy.matmul(a, transpose(a)) * 0.0625 + 2 * numpy.eye(a.shape[-1])


residual("linalg_cholesky", cholesky, 1, lambda draw: [Case(f"{label}_up{int(upper)}", self=numpy.float32(a).astype(float), upper=upper) for label, a in positive(draw) for upper in (False, True)]
         + [Case("not_positive", self=numpy.array([[1.0, 2.0], [2.0, 1.0]]), expect="error", source="pytorch#121009")])


def lu(A, pivot=True):
    batch, (m, n) = A.shape[:-2], A.shape[-2:]
    k = min(m, n)
    rows = items(product("A - P L U", "in:A", ["out:0", "out:1", "out:2"], "in:A"), {"name": "P", "structure": "permutation", "of": "out:0"}, {"name": "L", "structure": "unit_lower", "of": "out:1"},
                 {"name": "U", "structure": "upper", "of": "out:2"})
    return Out(shape=(*batch, m, m), residual=rows), *others((*batch, m, k), (*batch, k, n))


residual("linalg_lu", lu, 3, lambda draw: [Case(label, A=a, source=source) for label, a, source in matrices(draw)])

# Values that are unique: singular values, eigenvalues ----------------------------------------------------------------------------------------------

VALUES = conditioned(float32=64, float64=64, why="docs/numerics.md#linalg: Weyl, |error| <= p(n) u |A|_2, n <= 5")
svdvals = add("linalg_svdvals", lambda A: singular_values(A), lambda A: numpy.linalg.svd(A, compute_uv=False),
              lambda draw: [Case(label, A=a, source=source) for label, a, source in matrices(draw) if a.size < 60 and label != "rank_1"] + [Case("graded", A=numpy.diag([1.0, 0.5, 2.0**-12]))], tolerance=VALUES, differentiable=())
svdvals.scale(lambda outputs, A: numpy.broadcast_to(outputs[0].max(-1, keepdims=True), outputs[0].shape) * 1.0)
eigvalsh = add("linalg_eigvalsh", lambda self, UPLO="L": eigenvalues(self), lambda self, UPLO="L": numpy.linalg.eigvalsh(self),
               lambda draw: [Case(label, self=a) for label, a in symmetric(draw) if a.size < 60 and label != "low_rank"], tolerance=VALUES, differentiable=())
eigvalsh.scale(lambda outputs, self, **_: numpy.broadcast_to(numpy.abs(outputs[0]).max(-1, keepdims=True), outputs[0].shape) * 1.0)

# Products -------------------------------------------------------------------------------------------------------------------------------------


def power(A, n):
    out = A
    for _ in range(n - 1):
        out = np.matmul(out, A)
    return out


add("linalg_matrix_power", lambda self, n: power(self, n), lambda self, n: numpy.linalg.matrix_power(self, n), lambda draw: [Case(f"{name(s)}_n{n}", self=draw.normal(*s), n=n) for s in ((1, 1), (3, 3), (2, 2, 2)) for n in (1, 2, 3, 5)],
    tolerance=conditioned(tf32=32800), scale="multilinear", modes=("layouts", "math", "threads"))


def cross(self, other, dim=-1):
    a, b = (np.moveaxis(x, dim, 0) for x in (self, other))
    return np.moveaxis(np.stack([a[1] * b[2] - a[2] * b[1], a[2] * b[0] - a[0] * b[2], a[0] * b[1] - a[1] * b[0]]), 0, dim)


for schema in ("linalg_cross",):
    add(schema, cross, lambda self, other, dim=-1: numpy.cross(self, other, axis=dim), lambda draw: [Case(f"{name(s)}_d{d % len(s)}", self=draw.normal(*s), other=draw.normal(*s), dim=d) for s, d in (((1, 3), -1), ((2, 3), 1), ((3, 5), 0), ((17, 3), -1))],
        tolerance=conditioned(), scale="jacobian")
add("linalg_vecdot", lambda x, y, dim=-1: np.sum(x * y, axis=dim), lambda x, y, dim=-1: numpy.einsum("...k,...k->...", numpy.moveaxis(x, dim, -1), numpy.moveaxis(y, dim, -1)),
    lambda draw: [Case(f"{name(s)}_d{d % len(s)}", x=draw.normal(*s), y=draw.normal(*s), dim=d) for s, d in (((3, 5), 1), ((17, 2), 0), ((2, 33), -1))], tolerance=conditioned(tf32=32800), scale="multilinear", modes=("layouts", "math", "threads"))
add("trace", lambda self: Out(np.total(self[numpy.arange(min(self.shape)), numpy.arange(min(self.shape))]), shape=()), lambda self: numpy.trace(self),
    lambda draw: [Case(name(s), self=draw.normal(*s)) for s in ((1, 1), (3, 3), (5, 3), (3, 17), (33, 33))], tolerance=conditioned(), scale="multilinear")


def matrix_exp(self):
    return each(lambda m: m.exp(), np.value(self))


expm = add("linalg_matrix_exp", matrix_exp, lambda self: series(self), lambda draw: [Case(f"{name(s)}_{k}", self=draw.normal(*s) * f) for s in ((1, 1), (2, 2), (4, 4), (2, 3, 3)) for k, f in (("small", 0.125), ("one", 0.5))], differentiable=())


def series(a):
    """Taylor's series after scaling by 2^-10, squared ten times."""
    x = a / 1024
    term = numpy.broadcast_to(numpy.eye(a.shape[-1]), a.shape).copy()
    total = term.copy()
    for k in range(1, 20):
        term = term @ x / k
        total = total + term
    for _ in range(10):
        total = total @ total
    return total


@expm.scale
def expm_scale(outputs, self):
    """|exp(|A|) (1 + |A|)|_1, one a matrix: the backward error of the scaled Taylor polynomial is normwise (Al-Mohy and Higham 2009)."""
    a = numpy.abs(self)
    return numpy.broadcast_to((series(a) @ (numpy.eye(a.shape[-1]) + a)).sum(-2).max(-1)[..., None, None], a.shape) * 1.0
