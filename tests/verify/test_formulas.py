"""Equality of formulas, decided by their values before sympy simplifies anything."""

from __future__ import annotations

import pytest

from nemo_gym.verify._formulas import is_same_formula


@pytest.mark.parametrize(
    ("expected", "answer"),
    [
        (r"\frac{1}{2}", "0.5"),
        (r"\sqrt{8}", r"2\sqrt{2}"),
        ("x^2 + 2x + 1", "(x+1)^2"),
        ("(1, 2)", "(1,2)"),
        ("3 + 4i", "4i + 3"),
        (r"\{1, 2\}", r"\{2, 1\}"),
    ],
)
def test_equal_formulas(expected: str, answer: str) -> None:
    assert is_same_formula(expected, answer)


@pytest.mark.parametrize(
    ("expected", "answer"),
    [
        (r"\frac{1}{2}", "0.51"),
        ("x^2", "x^3"),
        ("3 + 4i", "3 - 4i"),
        (r"\pi", "3.14"),
        ("2", r"\frac{"),
        (r"(2+\sqrt3)^{2016}", "2^{2016}"),
    ],
)
def test_different_and_unreadable_formulas(expected: str, answer: str) -> None:
    assert not is_same_formula(expected, answer)
