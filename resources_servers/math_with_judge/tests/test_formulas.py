"""Equality of formulas, decided by their values before sympy simplifies anything."""

from __future__ import annotations

from fractions import Fraction

import pytest

from resources_servers.math_with_judge.formulas import Decision, decide, decide_relations, is_rounded_to
from resources_servers.math_with_judge.math_answers import Unstructured


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


@pytest.mark.parametrize(
    "large", ["2^{1000}", "100!", r"\binom{2024}{1012}", r"10^{50}\sqrt{2}", "3^{2025}-1"]
)
def test_constants_of_any_size_are_compared_exactly(large: str) -> None:
    assert decide(large, f"{large}+1") is Decision.DIFFERENT
    assert decide(large, f"1+{large}-1") is Decision.EQUAL


@pytest.mark.parametrize(
    ("one", "other", "expected"),
    [
        ("0.333333", r"\frac{1}{3}", Decision.EQUAL),
        ("1.414214", r"\sqrt{2}", Decision.EQUAL),
        ("1.41421", r"\sqrt{2}", Decision.DIFFERENT),
        ("0.0", r"\frac{\pi}{10^{8}}", Decision.DIFFERENT),
        ("1.0", r"1-2^{-40}", Decision.DIFFERENT),
        ("1048576.5", "2^{20}", Decision.DIFFERENT),
        ("0.1+0.2-0.3", "0", Decision.EQUAL),
        ("x+0.0000001", "x", Decision.DIFFERENT),
        ("0.333333x", r"\frac{x}{3}", Decision.EQUAL),
        ("0.0000001x", "0", Decision.DIFFERENT),
    ],
)
def test_a_decimal_is_exact_or_a_rounded_value(one: str, other: str, expected: Decision) -> None:
    assert decide(one, other) is expected
    assert decide(other, one) is expected


@pytest.mark.parametrize("zero", [r"\sin(\pi)", r"\sqrt{2}+\sqrt{3}-\sqrt{5+2\sqrt{6}}", r"\ln(e)-1"])
def test_a_constant_that_is_zero_equals_zero(zero: str) -> None:
    assert decide(zero, "0") is Decision.EQUAL
    assert decide(zero, "10^{-30}") is not Decision.EQUAL


def test_a_value_that_is_not_defined_equals_nothing() -> None:
    assert decide(r"\frac{1}{\sin(\pi)}", "0") is not Decision.EQUAL
    assert decide("9^{9^{9^{9}}}", "9^{9^{9^{9}}}+1") is Decision.UNDECIDED


def test_equations_are_compared_by_the_difference_of_their_sides() -> None:
    assert decide_relations("=", ("x+y", "3"), ("2x+2y", "6")) is Decision.EQUAL
    assert decide_relations("=", ("x+y", "3"), ("x-y", "3")) is Decision.DIFFERENT


@pytest.mark.parametrize("text", [r"\frac{", "1 2", "f'(x)", "101_{2}"])
def test_an_unreadable_formula_raises(text: str) -> None:
    with pytest.raises(Unstructured):
        decide("2", text)


@pytest.mark.parametrize(
    ("exact", "rounded", "places", "agrees"),
    [
        (r"\frac{1}{3}", Fraction("0.333"), 3, True),
        (r"\frac{2}{3}", Fraction("0.66"), 2, True),
        (r"\frac{2}{3}", Fraction("0.67"), 2, True),
        (r"-\sqrt{2}", Fraction("-1.41"), 2, True),
        (r"\frac{1}{3}", Fraction("0.34"), 2, False),
        (r"\sqrt{2}", Fraction("-1.41"), 2, False),
        ("x", Fraction(1), 0, False),
    ],
)
def test_a_decimal_may_be_a_value_rounded_or_cut(
    exact: str, rounded: Fraction, places: int, agrees: bool
) -> None:
    assert is_rounded_to(exact, rounded, places) is agrees


@pytest.mark.parametrize("text", ["(2n)!!", "n!!", "5!!"])
def test_a_double_factorial_is_not_computed_as_a_factorial_of_a_factorial(text: str) -> None:
    with pytest.raises(Unstructured):
        decide(text, text.replace("!!", "!"))
