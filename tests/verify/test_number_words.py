"""Numbers in words, and words that are none."""

from __future__ import annotations

import pytest

from nemo_gym.verify.number_words import read_number_words


@pytest.mark.parametrize(
    ("words", "number"),
    [
        ("zero", "0"),
        ("seventeen", "17"),
        ("twenty-three", "23"),
        ("ninety nine", "99"),
        ("a hundred", "100"),
        ("three hundred", "300"),
        ("two hundred and fifty", "250"),
        ("one thousand", "1000"),
        ("two thousand five hundred", "2500"),
        ("a million", "1000000"),
        ("two million three hundred and five", "2000305"),
        ("one hundred twenty-three thousand, four hundred and fifty-six", "123456"),
        ("nine trillion", "9000000000000"),
        ("one half", r"\frac{1}{2}"),
        ("a third", r"\frac{1}{3}"),
        ("two-thirds", r"\frac{2}{3}"),
        ("three quarters", r"\frac{3}{4}"),
        ("five eighths", r"\frac{5}{8}"),
    ],
)
def test_words_are_read_as_the_number_that_they_name(words: str, number: str) -> None:
    assert read_number_words(words) == number


@pytest.mark.parametrize(
    "words",
    ["", "thousand", "hundred", "half", "five twenty", "twenty thirteen", "two thousand million", "one of them",
     "twenty-zero", "five or six", "first", "zero million", "million million", "half one", "that one", "thousand one"],
)  # fmt: skip
def test_other_words_are_no_number(words: str) -> None:
    assert read_number_words(words) is None
