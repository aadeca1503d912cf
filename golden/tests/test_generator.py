"""The generator's own tests: portable draws, splitting of balls, and that a wrong definition is refused."""

from __future__ import annotations

import numpy
import pytest

from golden import Case, Operator, conditioned
from golden import numpy_ad as np
from golden.ball import arb, precision, split
from golden.draw import Draw, from_spec, philox
from golden.evaluate import Refused
from golden.write import render


def test_philox_known_answers() -> None:
    """Random123's vectors."""
    words = philox((0, 0), numpy.array([0]))[0]
    assert [hex(w) for w in words] == ["0x6627e8d5", "0xe169c58d", "0xbc57ac4c", "0x9b00dbd8"]


def test_draws_are_exact_in_float32() -> None:
    draw = Draw("test")
    for array in (draw.normal(1000), draw.uniform(-3, 5, 1000)):
        assert numpy.array_equal(array.astype(numpy.float32).astype(numpy.float64), array)
    assert abs(draw.normal(4000).std() - 0.8165) < 0.05


def test_drawn_spec_gives_the_same_array() -> None:
    drawn = Draw("x").integers(-5, 9, 3, 4, stored=False)
    assert numpy.array_equal(from_spec(drawn.spec), drawn)


def test_split_keeps_what_float64_loses() -> None:
    with precision(200):
        hi, lo, radius = split(arb(1) / 3)
        rest = arb(1) / 3 - arb(hi)
    assert hi == 1 / 3
    assert abs(float(rest) / numpy.spacing(1 / 3) - lo) < 1e-6
    assert 0 < radius < 1e-50


def make(reference, second, **options):
    operator = Operator("aten::test", tolerance=conditioned(), **options)
    operator.reference(reference)
    operator.second(second)
    operator.cases(lambda draw: iter([Case("c", self=draw.normal(5))]))
    return operator


def test_a_right_definition_is_certified() -> None:
    _, data, cases = render(make(lambda self: np.exp(self), lambda self: numpy.exp(self), scale="elementwise"), "test")
    assert cases == 1 and len(data) > 100


def test_disagreeing_second_formula_is_refused() -> None:
    with pytest.raises(Refused, match="second formula"):
        render(make(lambda self: np.exp(self), lambda self: numpy.exp(self) * (1 + 1e-6)), "test")


def test_undetermined_answer_is_refused() -> None:
    with pytest.raises(Refused, match="not finite"):
        render(make(lambda self: np.log(self - self), lambda self: self * numpy.nan), "test")


def test_input_beyond_float32_is_refused() -> None:
    operator = make(lambda self: self * 2, lambda self: self * 2)
    operator.cases(lambda draw: iter([Case("c", self=numpy.array([0.1]))]))
    with pytest.raises(Refused, match="float32"):
        render(operator, "test")


def test_wrong_gradient_is_refused() -> None:
    wrong = np.lift(lambda v: v.exp(), lambda x: 2 * np.exp(x))
    with pytest.raises(Refused, match="central differences"):
        render(make(lambda self: wrong(self), lambda self: numpy.exp(self), scale="elementwise"), "test")
