"""One spelling of a mathematical text."""

from __future__ import annotations

import pytest

from nemo_gym.verify._notation import is_same_spelling, raised, spelled


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
    assert len({"".join(spelled(text).split()) for text in texts}) == 1


def test_a_full_width_letter_is_a_plain_one() -> None:
    assert raised("Ａ") == "A"
    assert raised("₂") == "_{2}"


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
