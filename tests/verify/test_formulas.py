"""Equality of formulas, decided by their values before sympy simplifies anything."""

from __future__ import annotations

import pytest

from nemo_gym.verify._formulas import Decision, decide, decide_relations
from nemo_gym.verify._math_answers import Unstructured


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (r"\frac{1}{2}", "0.5"),
        (r"\sqrt{8}", r"2\sqrt{2}"),
        ("x^{2} + 2x + 1", "(x+1)^{2}"),
        ("3 + 4i", "4i + 3"),
    ],
)
def test_equal_formulas(one: str, other: str) -> None:
    assert decide(one, other) is Decision.EQUAL


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (r"\frac{1}{2}", "0.51"),
        ("x^{2}", "x^{3}"),
        ("3 + 4i", "3 - 4i"),
        (r"\pi", "3.14"),
        (r"(2+\sqrt{3})^{2016}", "2^{2016}"),
    ],
)
def test_different_formulas(one: str, other: str) -> None:
    assert decide(one, other) is Decision.DIFFERENT


def test_equations_are_compared_by_the_difference_of_their_sides() -> None:
    assert decide_relations("=", ("x+y", "3"), ("2x+2y", "6")) is Decision.EQUAL
    assert decide_relations("=", ("x+y", "3"), ("x-y", "3")) is Decision.DIFFERENT


@pytest.mark.parametrize("text", [r"\frac{", "1 2", "f'(x)", "101_{2}"])
def test_an_unreadable_formula_raises(text: str) -> None:
    with pytest.raises(Unstructured):
        decide("2", text)
