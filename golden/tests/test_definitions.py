"""What a definition can say beside a plain formula: zeros of C99, complex outputs, statistics, errors, and that mistakes are refused."""

from __future__ import annotations

import json
from types import SimpleNamespace

import numpy
import pytest

from golden import Case, Operator, Out, conditioned, exact, ulp
from golden import numpy_ad as np
from golden.__main__ import definitions
from golden.evaluate import Refused
from golden.ops.linalg._nan import NOTE, demand_nan, nothing_but_nan
from golden.write import render


def document(operator: Operator) -> dict:
    return json.loads(render(operator, "test")[0])


def make(reference, second, cases, **options) -> Operator:
    operator = Operator("aten::test", **{"tolerance": conditioned()} | options)
    operator.reference(reference)
    operator.second(second)
    operator.cases(lambda draw: iter(cases))
    return operator


def test_signs_of_zero_come_from_the_second_formula() -> None:
    operator = make(lambda self: np.sin(self), lambda self: numpy.sin(self), [Case("c", self=numpy.array([-0.0, 0.5, numpy.inf]), special=True)], tolerance=ulp(2, 2), scale="elementwise")
    assert document(operator)["cases"][0]["outputs"][0]["signed_zero"]


def test_a_ball_that_is_not_zero_is_not_overruled() -> None:
    operator = make(lambda self: np.sin(self) * 0, lambda self: numpy.sin(self), [Case("c", self=numpy.array([0.5]), special=True)], tolerance=ulp(2, 2), scale="elementwise")
    with pytest.raises(Refused, match="is 0, the second formula says"):
        render(operator, "test")


def test_a_plain_operator_keeps_nan_and_the_sign_of_zero() -> None:
    values = numpy.array([-0.0, numpy.nan, 1.0])
    wrong = make(lambda self: self, lambda self: self + 0.0, [Case("c", self=values, special=True)], tolerance=exact(), plain=True)
    with pytest.raises(Refused, match="second formula"):
        render(wrong, "test")
    assert document(make(lambda self: self, lambda self: self.copy(), [Case("c", self=values, special=True)], tolerance=exact(), plain=True))


def test_a_scalar_output_keeps_its_shape() -> None:
    from safetensors.numpy import load

    data = render(make(lambda self: Out(np.total(self), shape=()), lambda self: self.sum(), [Case("c", self=numpy.array([1.0, 2.0]))], scale="multilinear"), "test")[1]
    assert load(data)["c.out0"].shape == ()


def test_scales_beyond_float32_are_float64() -> None:
    from safetensors.numpy import load

    data = render(make(lambda self: self * self, lambda self: self**2, [Case("c", self=numpy.array([2.0**100]))], scale="elementwise"), "test")[1]
    assert load(data)["c.out0.scale"].dtype == numpy.float64


def test_an_error_case_has_no_golden() -> None:
    def reference(self):
        raise AssertionError("must not run")

    assert document(make(reference, reference, [Case("c", self=numpy.array([1.0]), expect="error")]))["cases"][0] == {"name": "c", "args": {"self": {"tensor": "c.self"}}, "expect": "error", "smoke": True}


def test_nan_or_refused() -> None:
    operator = make(lambda self: Out(np.total(self), shape=()), lambda self: self.sum(), [Case("c", self=numpy.array([[4.0, 1.0], [1.0, 3.0]]))], scale="multilinear")
    demand_nan(operator, "self", lambda n: [nothing_but_nan((n,), complex=True)], sizes=(3, 5), places=("beside", "all"), dtypes=("float32",))
    first, *others = document(operator)["cases"]
    assert "expect" not in first and [c["name"] for c in others] == ["nan_beside_3x3", "nan_all_3x3", "nan_beside_5x5"]
    for case in others:
        assert case["expect"] == "nan_or_error" and case["modes"] == ["layouts"] and case["dtypes"] == ["float32"] and "upstream" not in case
        assert case["outputs"] == [{"fill": "nan", "gauge": "exact", "bound": 0, "why": NOTE, "trivial": "NaN", "complex": True, "shape": [int(case["name"][-1])]}]


def test_source_must_be_a_report() -> None:
    with pytest.raises(Refused, match="args="):
        Case("c", source=numpy.array([1.0]))


def test_modes_are_known() -> None:
    with pytest.raises(Refused, match="unknown mode layuots"):
        Operator("aten::x", tolerance=exact(), modes=("layuots",))
    with pytest.raises(Refused, match="unknown mode layuots"):
        Case("c", modes=("layuots",))
    with pytest.raises(Refused, match="TF32"):
        Operator("aten::x", tolerance=conditioned(), modes=("math",))


def test_a_case_fits_the_formulas() -> None:
    with pytest.raises(Refused, match=r"does not fit .*missing a required argument: 'self'"):
        render(make(lambda self: self, lambda self: self, [Case("c", input=numpy.array([1.0]))]), "test")


def test_zeros_need_a_reason() -> None:
    zeros = [Case("c", self=numpy.array([1.0])), Case("d", self=numpy.array([2.0]))]
    with pytest.raises(Refused, match="test/c, output 0: the golden is all zeros"):
        render(make(lambda self: self * 0, lambda self: self * 0, zeros), "test")


def test_an_operator_has_one_definition(monkeypatch: pytest.MonkeyPatch) -> None:
    module = SimpleNamespace(operator=Operator("aten::x", tolerance=exact()))
    monkeypatch.setattr("golden.__main__.importlib.import_module", lambda _: module)
    with pytest.raises(Refused, match="x is defined in .* and in"):
        definitions([])


def test_a_name_stands_once() -> None:
    with pytest.raises(Refused, match="stands once"):
        render(make(lambda self: self, lambda self: self, [Case("c", self=numpy.array([1.0])), Case("c", self=numpy.array([2.0]))]), "test")


def test_every_family_has_two_operators() -> None:
    families: dict[str, int] = {}
    for family, _ in definitions([]):
        families[family] = families.get(family, 0) + 1
    assert len(families) == 21 and min(families.values()) >= 2, families


def test_what_is_left_is_drawn_by_its_share() -> None:
    from golden.ops.random.multinomial import inclusion

    p = numpy.array([0.5, 0.25, 0.25, 0.0])
    assert numpy.allclose(inclusion(p, 1), p)
    assert numpy.allclose(inclusion(p, 2), [0.5 + 2 * 0.25 * 2 / 3, 0.25 + 0.5 * 0.5 + 0.25 / 3, 0.25 + 0.5 * 0.5 + 0.25 / 3, 0])
    assert numpy.allclose(inclusion(p, 3), [1, 1, 1, 0])


def test_alpha_dropout_keeps_mean_and_variance() -> None:
    """Over x of mean 0 and variance 1, and over what falls."""
    from golden.ops.random.alpha_dropout import alpha_values

    x = numpy.array([-1.0, 1.0])
    for p in (0.25, 0.5):
        kept, dropped = (np.floats(v) for v in alpha_values(x, p))
        mean = (1 - p) * kept.mean() + p * dropped.mean()
        assert abs(mean) < 1e-15 and abs((1 - p) * (kept**2).mean() + p * (dropped**2).mean() - 1) < 1e-14
