"""Gradients of factors whose signs are free, the matrix helpers, and that the second formulas of these families are live."""

from __future__ import annotations

import itertools
import json

import numpy
import pytest
from safetensors.numpy import load

from golden import Case, Operator, Out, conditioned
from golden import numpy_ad as np
from golden.__main__ import definitions
from golden.ball import balls, precision
from golden.draw import Draw
from golden.evaluate import Refused, as_tuple
from golden.ops.linalg._matrix import cholesky_factor, elimination, inv, swaps
from golden.ops.linalg.linalg import eigenvalues, projectors, turned, two_vectors
from golden.ops.reduction.norms import filled, p_norm
from golden.write import render

MATRIX = numpy.array([[2.0, 1.0, 0.5], [4.0, -1.0, 0.25], [1.0, 8.0, 3.0]])


def unit(self):
    return self / np.sqrt(np.sum(self * self, axis=0))[None]


def free_columns(freedom, factors=unit) -> Operator:
    """Unit columns of either sign, judged by a residual."""
    operator = Operator("aten::test", tolerance=conditioned())
    operator.reference(lambda self: Out(shape=self.shape, residual=[{"name": "Q", "orthonormal": "out:0", "bound": 30}]))
    operator.second(lambda self: None)
    operator.factors(factors)
    operator.freedom(freedom)
    operator.cases(lambda draw: iter([Case("c", self=MATRIX[:, :2])]))
    return operator


def test_every_choice_of_signs_has_its_gradient() -> None:
    text, data, _ = render(free_columns(turned(-1)), "test")
    gradient, arrays = json.loads(text)["cases"][0]["gradients"]["self"], load(data)
    assert gradient["whole"] and len(gradient["members"]) == 4
    first, second = (arrays[gradient["members"][k]["tensor"]] for k in (0, 1))
    assert numpy.array_equal(first[:, 0], second[:, 0]) and numpy.array_equal(first[:, 1], -second[:, 1]) and first.any()
    assert {m["gauge"] for m in gradient["members"]} == {"conditioned"} and all("scale" in m for m in gradient["members"])


def test_the_given_gradient_comes_first() -> None:
    with pytest.raises(Refused, match="first answer"):
        render(free_columns(lambda upstream: [[-u for u in upstream]]), "test")


def test_a_wrong_gradient_of_factors_is_refused() -> None:
    operator = free_columns(turned(-1))
    operator.vjp(lambda upstream, self: {"self": upstream[0]})
    operator.backward_scale(lambda gradients, upstream, self: {"self": numpy.ones(self.shape)})
    with pytest.raises(Refused, match="central differences"):
        render(operator, "test")


def test_elimination_takes_the_largest_pivot() -> None:
    order, lower, upper = elimination(balls(MATRIX))
    assert numpy.allclose(np.floats(np.matmul(lower, upper)), MATRIX[order]) and order.tolist() == [1, 2, 0]
    assert numpy.abs(np.floats(lower)).max() <= 1 and numpy.array_equal(np.floats(upper), numpy.triu(np.floats(upper)))
    assert swaps(order).tolist() == [2, 3, 3]
    assert elimination(balls(MATRIX), pivot=False)[0].tolist() == [0, 1, 2]


def test_pivots_are_exchanges() -> None:
    for order in itertools.permutations(range(4)):
        rows = list(range(4))
        for k, p in enumerate(swaps(order)):
            rows[k], rows[p - 1] = rows[p - 1], rows[k]
        assert tuple(rows) == order


def test_factors_multiply_back() -> None:
    with precision(192):
        a = balls(MATRIX @ MATRIX.T)
        factor = cholesky_factor(a)
        assert numpy.allclose(np.floats(factor @ factor.T), np.floats(a)) and numpy.array_equal(np.floats(factor), numpy.tril(np.floats(factor)))
        assert numpy.allclose(np.floats(inv(a) @ a), numpy.eye(3))
        values, vectors = two_vectors(a[:2, :2])
        assert numpy.allclose(np.floats(a[:2, :2] @ vectors), np.floats(vectors * values[None]))
        parts = projectors(a, eigenvalues(a))
        assert numpy.allclose(np.floats(parts.sum(axis=-3)), numpy.eye(3)) and numpy.allclose(np.floats(parts[0] @ parts[0]), np.floats(parts[0]))


def test_a_nan_stays_in_its_matrix() -> None:
    operator = next(o for _, o in definitions(["linalg_det"]) if o.name == "linalg_det")
    arrays = load(render(operator, "test")[1])
    for n in (2, 3, 4):
        golden = arrays[f"nan_{n}x{n}.out0"]
        assert numpy.isfinite(golden[0]) and numpy.isnan(golden[1:]).all() and golden.size == n + 1


def test_the_norm_of_one_value_everywhere() -> None:
    for p in (1, 2):
        for shape, dim in (((5,), (0,)), ((5, 2), (0,)), ((3, 2), (0, 1))):
            whole = p_norm(balls(numpy.full(shape, 0.25)), p, dim, False)
            short = filled({"fill": 0.25, "shape": list(shape)}, p, dim)
            assert numpy.allclose(np.floats(whole), np.floats(short.value).reshape(short.shape), rtol=1e-15)


NEW = ("cholesky_*", "linalg_cholesky_ex", "linalg_lu_*", "lu_*", "triangular_solve", "linalg_*norm*", "linalg_cond*", "linalg_pinv*", "linalg_lstsq", "linalg_householder_product", "ormqr", "linalg_tensor*",
       "linalg_vander", "linalg_matrix_rank*", "linalg_eigvalsh", "linalg_svdvals", "matrix_exp", "embedding_bag*", "index_reduce", "embedding_renorm_", "*quantile*", "nanmedian*", "corrcoef", "histogram*", "isin*",
       "fft_*2", "fft_*n", "stft*", "istft", "einsum", "bilinear", "chain_matmul", "linalg_multi_dot", "mode", "unique_dim", "_softmax", "_log_softmax", "geqrf", "linalg_ldl*", "sum_to_size", "segment_reduce", "_to_copy", "to_dtype",
       "broadcast_tensors", "_chunk_cat", "grid_sampler", "argwhere", "nonzero_static", "as_strided*", "_unsafe_masked*", "native_*_backward", "upsample_bilinear2d_backward", "max_pool2d_with_indices_backward",
       "convolution_backward", "ones_like", "full_like", "new_ones", "new_full", "pad", "*_as", "*_copy", "_histogramdd*", "grid_sampler_*", "_native_multi_head_attention", "_transformer_encoder_layer_fwd", "_transform_bias_rescale_qkv", "*alpha_dropout")


@pytest.mark.parametrize("operator", [pytest.param(o, id=o.name) for _, o in definitions(list(NEW))])
def test_a_slip_in_a_definition_is_refused(operator: Operator, monkeypatch: pytest.MonkeyPatch) -> None:
    """The second formula errs in one element by a thousandth: nothing may be written."""
    case = next(c for c in operator.case_function(Draw(operator.name)) if not c.special and c.fields.get("expect") != "error")
    case.backward = False
    given = operator.second_function

    def slipped(**args):
        answers = list(as_tuple(given(**args)))
        k = next(k for k, a in enumerate(answers) if a is not None)
        wrong = numpy.array(answers[k])
        wrong.reshape(-1)[0] = ~wrong.reshape(-1)[0] if wrong.dtype == bool else wrong.reshape(-1)[0] + (1 if wrong.dtype.kind == "i" else 1e-3 * (1 + abs(wrong.reshape(-1)[0])))
        answers[k] = wrong
        return tuple(answers)

    monkeypatch.setattr(operator, "second_function", slipped)
    monkeypatch.setattr(operator, "case_function", lambda draw: iter([case]))
    with pytest.raises(Refused, match="second formula"):
        render(operator, "test")
