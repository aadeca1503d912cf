"""Solvers and determinants by Arb's enclosures, decompositions by LAPACK's residual ratios (LAPACK Users' Guide, testing; bounds 30)."""

import itertools

import numpy

from golden import Case, Out, conditioned
from golden import numpy_ad as np
from golden.ops.linalg._matrix import cholesky_factor, each, eigenvalues, elimination, inverse, singular_values, solve, transpose
from golden.ops.linalg._matrix import flipped as transpose_ad
from golden.ops.linalg._nan import aside, demand_nan, nothing_but_nan
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


def with_nan(n):
    """A batch: a sound matrix, then one for each place of a NaN on the diagonal."""
    sound = numpy.diag(numpy.arange(2.0, n + 2)) + 0.5 * numpy.ones((n, n))
    bad = [sound + numpy.diag(numpy.where(numpy.arange(n) == k, numpy.nan, 0.0)) for k in range(n)]
    return numpy.stack([sound, *bad])


NAN = {"special": True, "source": "pytorch#173638", "note": "a NaN in the matrix must come out as one, not as a finite number"}
DETS = ((1, 1), (2, 2), (3, 3), (4, 4), (3, 2, 2))


def single(reference):
    """References see a batch of one where there is none, since a 0-d array of balls is no array."""
    return lambda A: Out(reference(np.reshape(A, (1, *A.shape))), shape=()) if A.ndim == 2 else reference(A)


determinant = add("linalg_det", single(det), lambda A: numpy.linalg.det(A), lambda draw: [Case(name(s), A=square(draw, *s)) for s in DETS]
    + [Case(f"nan_{n}x{n}", A=with_nan(n), **NAN) for n in (2, 3, 4)] + [Case("zero_row", A=numpy.array([[1.0, 2.0], [0.0, 0.0]]), backward=False, trivial="a row of zeros: the determinant is 0"), Case("nearly_singular", A=numpy.array([[1.0, 2.0], [2.0, 4.0 + 2.0**-10]]))])
log_determinant = add("logdet", lambda self: single(lambda A: np.log(det(A)))(self), lambda self: numpy.log(numpy.linalg.det(self)), lambda draw: [Case(name(s), self=numpy.eye(s[-1]) * 6 + draw.normal(*s)) for s in DETS]
    + [Case(f"nan_{n}x{n}", self=with_nan(n), **NAN) for n in (2, 3, 4)] + [Case("structurally_singular", self=numpy.array([[1.0, 0.0], [0.0, 0.0]]), special=True, source="pytorch#154312", trivial="log 0 is -inf")])


def slogdet(A):
    d = det(np.reshape(A, (1, *A.shape)) if A.ndim == 2 else A)
    sign = numpy.sign(np.floats(d))
    shape = () if A.ndim == 2 else d.shape
    if numpy.isnan(sign).any():
        return Out(unchecked="the sign of a NaN"), Out(np.balls(numpy.log(numpy.abs(np.floats(d)))), shape=shape)
    return Out(np.balls(sign), shape=shape, constant=True), Out(np.log(d * sign), shape=shape)


sign_and_log = add("linalg_slogdet", slogdet, lambda A: tuple(numpy.linalg.slogdet(A)),
    lambda draw: [Case(name(s), A=square(draw, *s) * (-1 if s[-1] == 3 else 1)) for s in DETS] + [Case(f"nan_{n}x{n}", A=with_nan(n), **NAN, backward=False) for n in (2, 3, 4)])

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


def residual(schema, reference, count, cases, slopes=None):
    """`slopes(draw)`: the cases that have a gradient, of the operator's `factors`; the others are forward only."""
    def forward_and_slopes(draw):
        for case in cases(draw):
            case.backward = False
            yield case
        yield from slopes(draw) if slopes else ()

    return add(schema, reference, none(count), forward_and_slopes, tolerance=conditioned(why="residual ratios"), backward_tolerance=SOLVE, **{} if slopes else {"differentiable": ()})


def turned(*axes):
    """The freedom of signs: the k-th column (row) of each output named by its axis changes its sign with the others' k-th; None stays."""
    def freedom(upstream):
        count = next(u.shape[a] for u, a in zip(upstream, axes, strict=True) if a is not None)
        for signs in itertools.product((1.0, -1.0), repeat=count):
            yield [u if a is None else u * (numpy.array(signs) if a == -1 else numpy.array(signs)[:, None]) for u, a in zip(upstream, axes, strict=True)]

    return freedom


def slope_cases(argument, shapes, **given):
    return lambda draw: [Case(f"gradient_{name(s)}", args={argument: draw.normal(*s) + 2 * numpy.eye(*s[-2:])} | given) for s in shapes]


orthogonal = residual("linalg_qr", qr, 2, slopes=slope_cases("A", ((1, 1), (2, 2), (4, 2), (3, 3), (2, 4))), cases=lambda draw: [Case(f"{label}_{mode}", A=a, mode=mode, source=source) for label, a, source in matrices(draw) for mode in ("reduced", "complete")])


@orthogonal.factors
def gram_schmidt(A, mode="reduced"):
    """Q and R with a positive diagonal."""
    m, n = A.shape
    columns = []
    for k in range(min(m, n)):
        v = A[:, k]
        for q in columns:
            v = v - q * np.sum(np.reshape(q * v, (1, -1)), axis=1)
        columns.append(v / np.sqrt(np.sum(np.reshape(v * v, (1, -1)), axis=1)))
    q = np.stack(columns, axis=1)
    return q, np.matmul(transpose_ad(q), A) * numpy.triu(numpy.ones((min(m, n), n)))


orthogonal.freedom(turned(-1, -2))


def svd(A, full_matrices=True):
    m, n = A.shape[-2:]
    k, batch = min(m, n), A.shape[:-2]
    rows = items(product("A - U S V^T", "in:A", ["out:0", "diag:out:1", "out:2"], "in:A"), {"name": "I - U^T U", "orthonormal": "out:0"}, {"name": "I - V V^T", "orthonormal": "out:2^H"},
                 {"name": "S", "structure": "descending", "of": "out:1"}, {"name": "S", "structure": "nonnegative", "of": "out:1"})
    return Out(shape=(*batch, m, m if full_matrices else k), residual=rows), *others((*batch, k), (*batch, n if full_matrices else k, n))


singular = residual("linalg_svd", svd, 3, slopes=slope_cases("A", ((2, 2), (4, 2), (2, 3)), full_matrices=False), cases=lambda draw: [Case(f"{label}_full{int(full)}", A=a, full_matrices=full, source=source) for label, a, source in matrices(draw) for full in (False, True)])


def two_vectors(s):
    """(ascending values, unit vectors in columns) of a symmetric 2x2 matrix by the quadratic formula."""
    half, difference, b = (s[:1, 0] + s[1:, 1]) / 2, (s[:1, 0] - s[1:, 1]) / 2, (s[:1, 1] + s[1:, 0]) / 2
    root = np.sqrt(difference * difference + b * b)
    columns = []
    for sign in (-1, 1):
        x, y = b, sign * root - difference
        size = np.sqrt(x * x + y * y)
        columns.append(np.concatenate([x / size, y / size]))
    return np.concatenate([half - root, half + root]), np.stack(columns, axis=1)


@singular.factors
def two_singular(A, full_matrices=False):
    """Of two columns (or rows) by the Gram matrix."""
    if A.shape[0] < A.shape[1]:
        u, s, v = two_singular(transpose_ad(A))
        return transpose_ad(v), s, transpose_ad(u)
    values, vectors = two_vectors(np.matmul(transpose_ad(A), A))
    s, v = np.sqrt(values[numpy.array([1, 0])]), vectors[:, numpy.array([1, 0])]
    return np.matmul(A, v) / s[None], s, transpose_ad(v)


singular.freedom(turned(-1, None, -2))


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


symmetric_pairs = residual("linalg_eigh", eigh, 2, slopes=lambda draw: [Case(f"gradient_{label}_{uplo.lower()}", self=a, UPLO=uplo) for label, a in symmetric(draw) if label == "s2x2" for uplo in ("L", "U")], cases=lambda draw: [Case(f"{label}_{uplo.lower()}", self=a, UPLO=uplo) for label, a in symmetric(draw) for uplo in ("L", "U")])
symmetric_pairs.factors(lambda self, UPLO="L": two_vectors(self))
symmetric_pairs.freedom(turned(None, -1))


def cholesky(self, upper=False):
    batch, n = self.shape[:-2], self.shape[-1]
    factors = ["out:0^H", "out:0"] if upper else ["out:0", "out:0^H"]
    rows = items(product("A - L L^T", "in:self", factors, "in:self"), {"name": "L", "structure": "upper" if upper else "lower", "of": "out:0"})
    return Out(shape=(*batch, n, n), residual=rows)


def positive(draw):
    for label, a in symmetric(draw):
        yield label, numpy.matmul(a, transpose(a)) * 0.0625 + 2 * numpy.eye(a.shape[-1])


positive_factor = residual("linalg_cholesky", cholesky, 1, slopes=lambda draw: [Case(f"gradient_{label}_up{int(upper)}", self=numpy.float32(a).astype(float), upper=upper) for label, a in positive(draw) if a.size < 28 for upper in (False, True)],
                           cases=lambda draw: [Case(f"{label}_up{int(upper)}", self=numpy.float32(a).astype(float), upper=upper) for label, a in positive(draw) for upper in (False, True)]
         + [Case("not_positive", self=numpy.array([[1.0, 2.0], [2.0, 1.0]]), expect="error", source="pytorch#121009")])
positive_factor.factors(lambda self, upper=False: transpose_ad(cholesky_factor(self)) if upper else cholesky_factor(self))


def lu(A, pivot=True):
    batch, (m, n) = A.shape[:-2], A.shape[-2:]
    k = min(m, n)
    rows = items(product("A - P L U", "in:A", ["out:0", "out:1", "out:2"], "in:A"), {"name": "P", "structure": "permutation", "of": "out:0"}, {"name": "L", "structure": "unit_lower", "of": "out:1"},
                 {"name": "U", "structure": "upper", "of": "out:2"})
    return Out(shape=(*batch, m, m), residual=rows), *others((*batch, m, k), (*batch, k, n))


unit_lower = residual("linalg_lu", lu, 3, slopes=slope_cases("A", ((1, 1), (3, 3), (4, 2), (2, 4))), cases=lambda draw: [Case(label, A=a, source=source) for label, a, source in matrices(draw)])


@unit_lower.factors
def lu_factors(A, pivot=True):
    order, lower, upper = elimination(A, pivot)
    return Out(np.balls(numpy.eye(A.shape[0])[:, order]), constant=True), lower, upper



# Values that are unique: singular values, eigenvalues ----------------------------------------------------------------------------------------------

VALUES = conditioned(float32=64, float64=64, why="docs/numerics.md#linalg: Weyl, |error| <= p(n) u |A|_2, n <= 5")


def projectors(a, values):
    """P_i = prod over j != i of (A - w_j) / (w_i - w_j), the projector on the i-th eigenvector: (…, i, n, n)."""
    n = a.shape[-1]
    eye, out = np.balls(numpy.eye(n)), []
    for i in range(n):
        product = eye
        for j in range(n):
            if j != i:
                product = numpy.matmul(product, (a - values[..., j, None, None] * eye) / (values[..., i, None, None] - values[..., j, None, None]))
        out.append(product)
    return numpy.stack(numpy.broadcast_arrays(*out), axis=-3)


def gaps(values, smallest=None):
    """sum over j != i of 1 / |w_i - w_j|: how far a perturbation turns the i-th vector."""
    n = values.shape[-1]
    distance = numpy.abs(values[..., :, None] - values[..., None, :]) + numpy.where(numpy.eye(n) > 0, numpy.inf, 0)
    return (1 / distance).sum(-1) + (0 if smallest is None else 1 / smallest)


def frobenius(a):
    return numpy.sqrt((a * a).sum((-2, -1)))[..., None, None]


def without_nan(values):
    """A matrix with a NaN has no eigenvalue that is a number."""
    def one(matrix):
        return numpy.full(matrix.shape[-1], numpy.nan) if numpy.isnan(matrix).any() else values(matrix)

    return lambda a: numpy.stack([one(a[i]) for i in numpy.ndindex(*a.shape[:-2])]).reshape(a.shape[:-1])


def eigenvalues_or_nan(a):
    plain = np.floats(a)
    found = [np.balls(numpy.full(a.shape[-1], numpy.nan)) if numpy.isnan(plain[i]).any() else eigenvalues(np.value(a)[i]) for i in numpy.ndindex(*a.shape[:-2])]
    return numpy.stack(found).reshape(a.shape[:-1])


svdvals = add("linalg_svdvals", lambda A: singular_values(A), lambda A: numpy.linalg.svd(A, compute_uv=False),
              lambda draw: [Case(label, A=a, source=source) for label, a, source in matrices(draw) if a.size < 60 and label != "rank_1"] + [Case("graded", A=numpy.diag([1.0, 0.5, 2.0**-12]), backward=False)], tolerance=VALUES)
svdvals.scale(lambda outputs, A: numpy.broadcast_to(outputs[0].max(-1, keepdims=True), outputs[0].shape) * 1.0)


def thin(A):
    """Singular values and what they are the square roots of: (values, gram, does it stand left?)."""
    left = A.shape[-2] < A.shape[-1]
    return singular_values(A), numpy.matmul(A, transpose(A)) if left else numpy.matmul(transpose(A), A), left


@svdvals.vjp
def svdvals_vjp(upstream, A):
    """u_i v_i^T = A P_i / s_i (or P_i A / s_i), with the projectors of the Gram matrix."""
    values, gram, left = thin(A)
    summed = numpy.sum(projectors(gram, values * values) * (upstream[0] / values)[..., None, None], axis=-3)
    return {"A": numpy.matmul(summed, A) if left else numpy.matmul(A, summed)}


@svdvals.backward_scale
def svdvals_backward_scale(gradients, upstream, A):
    """|g| (|u v^T| + |A| / gap): the vectors turn by u |A| over the distance of the values (Wedin 1972)."""
    g, values = numpy.abs(upstream[0]), numpy.linalg.svd(A, compute_uv=False)
    u, _, v = numpy.linalg.svd(A, full_matrices=False)
    own = numpy.abs(u * g[..., None, :]) @ numpy.abs(v)
    return {"A": own + 2 * frobenius(A) * (g * gaps(values, values)).sum(-1)[..., None, None]}


eigvalsh = add("linalg_eigvalsh", lambda self, UPLO="L": eigenvalues_or_nan(self), lambda self, UPLO="L": without_nan(numpy.linalg.eigvalsh)(self),
               lambda draw: [Case(label, self=a) for label, a in symmetric(draw) if a.size < 60 and label != "low_rank"] + [Case("nan_2x2", self=with_nan(2), **NAN, expect="nan_or_error", modes=["layouts"], backward=False)], tolerance=VALUES)
eigvalsh.scale(lambda outputs, self, **_: numpy.nan_to_num(numpy.broadcast_to(numpy.abs(outputs[0]).max(-1, keepdims=True), outputs[0].shape) * 1.0))


@eigvalsh.vjp
def eigvalsh_vjp(upstream, self, UPLO="L"):
    """The sum of g_i v_i v_i^T."""
    return {"self": numpy.sum(projectors(self, eigenvalues(self)) * upstream[0][..., None, None], axis=-3)}


@eigvalsh.backward_scale
def eigvalsh_backward_scale(gradients, upstream, self, UPLO="L"):
    """|g| (|v v^T| + 2 |A| / gap), as the singular values'."""
    values, v = numpy.linalg.eigh(self)
    g = numpy.abs(upstream[0])
    own = numpy.abs(v * g[..., None, :]) @ numpy.abs(transpose(v))
    return {"self": own + 2 * frobenius(self) * (g * gaps(values)).sum(-1)[..., None, None]}


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


def exponential_cases(draw):
    for shape in ((1, 1), (2, 2), (4, 4), (2, 3, 3)):
        for label, factor in (("small", 0.125), ("one", 0.5)):
            yield Case(f"{name(shape)}_{label}", self=draw.normal(*shape) * factor)


def matrix_exp_vjp(upstream, self):
    """The upper right block of exp([[A^T, G], [0, A^T]]) (Mathias 1996)."""
    t = transpose(self)
    top, bottom = numpy.concatenate([t, upstream[0]], axis=-1), numpy.concatenate([np.balls(numpy.zeros(t.shape)), t], axis=-1)
    n = t.shape[-1]
    return {"self": matrix_exp(numpy.concatenate([top, bottom], axis=-2))[..., :n, n:]}


def matrix_exp_backward_scale(gradients, upstream, self):
    """As the result's, of the block matrix of absolute values."""
    t, g = numpy.abs(transpose(self)), numpy.abs(upstream[0])
    block = numpy.concatenate([numpy.concatenate([t, g], axis=-1), numpy.concatenate([0 * t, t], axis=-1)], axis=-2)
    return {"self": expm_scale(None, block)[..., : t.shape[-1], t.shape[-1] :]}


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


def expm_scale(outputs, self):
    """|exp(|A|) (1 + |A|)|_1, one a matrix: the backward error of the scaled Taylor polynomial is normwise (Al-Mohy and Higham 2009)."""
    a = numpy.abs(self)
    return numpy.broadcast_to((series(a) @ (numpy.eye(a.shape[-1]) + a)).sum(-2).max(-1)[..., None, None], a.shape) * 1.0


for schema in ("linalg_matrix_exp", "matrix_exp"):
    expm = add(schema, matrix_exp, lambda self: series(self), exponential_cases)
    expm.vjp(matrix_exp_vjp)
    expm.scale(expm_scale)
    expm.backward_scale(matrix_exp_backward_scale)

# A NaN in the matrix --------------------------------------------------------------------------------------------------------------------------

LONG = (2, 3, 5, 27)  # from 26 rows on LAPACK divides and conquers
demand_nan(singular, "A", lambda n: [nothing_but_nan(s) for s in ((n, n), (n,), (n, n))], sizes=LONG)
demand_nan(symmetric_pairs, "self", lambda n: [nothing_but_nan(s) for s in ((n,), (n, n))], sizes=LONG)
for operator, argument in ((svdvals, "A"), (eigvalsh, "self")):
    demand_nan(operator, argument, lambda n: [nothing_but_nan((n,))], sizes=LONG)
demand_nan(orthogonal, "A", lambda n: [nothing_but_nan((n, n)), aside()], places=("first", "all"))
demand_nan(inv, "A", lambda n: [nothing_but_nan((n, n))])
demand_nan(solver, "A", lambda n: [nothing_but_nan((n, 2))], B=lambda draw, n: draw.normal(n, 2))
for operator in operators:
    if operator.name in ("matrix_exp", "linalg_matrix_exp"):
        demand_nan(operator, "self", lambda n: [nothing_but_nan((n, n))])
# One matrix by itself: its LU is another routine than a batch's.
for operator, argument, answers in ((determinant, "A", [nothing_but_nan(())]), (log_determinant, "self", [nothing_but_nan(())]), (sign_and_log, "A", [aside(), nothing_but_nan(())])):
    demand_nan(operator, argument, lambda n, answers=answers: answers)
    demand_nan(operator, argument, lambda n, answers=answers: answers, sizes=(1,), places=("all",))
