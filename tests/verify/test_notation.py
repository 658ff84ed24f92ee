"""One spelling of a mathematical text."""

from __future__ import annotations

import pytest

from nemo_gym.verify.notation import is_same_spelling, normalize_spelling, write_scripts


@pytest.mark.parametrize(
    "texts",
    [
        ("2*pi", r"2\cdot\pi", r"2 \times \pi"),
        ("2π", r"2\pi", "2 pi"),
        ("x²", "x**2", "x^2", "x^{2}"),
        ("x¹⁰", "x^{10}", "x^10"),
        ("√3", "sqrt(3)", r"\sqrt 3", r"\sqrt{3}"),
        ("½", r"\dfrac12", r"\frac{1}{2}"),
        ("∞", r"\infty", "infinity"),
        ("x <= 3", "x ≤ 3", r"x \leq 3"),
    ],
)
def test_ways_to_write_one_text_have_one_spelling(texts: tuple[str, ...]) -> None:
    assert len({"".join(normalize_spelling(text).split()) for text in texts}) == 1


def test_a_full_width_letter_is_a_plain_one() -> None:
    assert normalize_spelling("Ａ") == "A"


def test_a_mixed_number_is_no_quotient() -> None:
    assert normalize_spelling("2⅛") != normalize_spelling("21⁄8")


def test_a_run_of_raised_digits_is_one_exponent() -> None:
    assert write_scripts("x¹⁰₂") == "x^{10}_{2}"
    assert normalize_spelling(r"\sqrt{2}^{4}") == r"\sqrt{2}^{4}"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("x^0.5", "x^{0.5}"),
        (r"2\binom{5}{2}", r"2\cdot \binom{5}{2}"),
        ("(2)(3)", r"(2)\cdot (3)"),
        (r"\left[\begin{array}{cc}1&2\end{array}\right]", r"\begin{pmatrix}1&2\end{pmatrix}"),
        (r"\begin{bmatrix}1\\[4pt]2\\\end{bmatrix}", r"\begin{pmatrix}1\\ 2\end{pmatrix}"),
        (r"\mathrm{sin}(x)", r"\sin (x)"),
    ],
)
def test_a_formula_has_the_marks_that_its_parser_needs(text: str, expected: str) -> None:
    assert normalize_spelling(text) == expected


@pytest.mark.parametrize(
    ("one", "other", "expected"),
    [
        ("3 1/2", "31/2", False),
        ("1 2", "12", False),
        ("a b", "ab", False),
        ("x + 1", "x+1", True),
        ("(1, 2)", "(1,2)", True),
        ("two  words", "two words", True),
    ],
)
def test_white_space_counts_where_it_separates(one: str, other: str, expected: bool) -> None:
    assert is_same_spelling(one, other) is expected
