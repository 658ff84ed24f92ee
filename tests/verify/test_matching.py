import pytest
from hypothesis import given
from hypothesis import strategies as st

from nemo_gym.verify.matching import is_same_formula, is_same_text, normalize, says


@pytest.mark.parametrize(
    ("left", "right", "is_same"),
    [
        ("Paris", " paris. ", True),
        ("New  York", "new york", True),
        ("ﬁne", "FINE", True),
        ("straße", "STRASSE", True),
        ("Paris", "Paris, France", False),
        ("", "", False),
        ("", "x", False),
        ("5", ".5", False),
        ("...5", "5", True),
        ("102", "10²", False),
        ("10^2", "10²", True),
        ("101", "10₁", False),
        ("21⁄2", "2½", False),
        ("102", "10②", False),
        ("x-2", "x⁻²", False),
        ("CO2", "CO₂", True),
        ("SO42-", "SO₄²⁻", True),
    ],
)
def test_texts_are_compared_without_case_width_and_punctuation(left: str, right: str, is_same: bool) -> None:
    assert is_same_text(left, right) is is_same


@given(st.text())
def test_normalization_is_idempotent(text: str) -> None:
    once = normalize(text)
    assert normalize(once) == once


@pytest.mark.parametrize(
    ("text", "phrase", "is_said"),
    [
        ("It is 42.", "42", True),
        ("$\\boxed{42}$", "42", True),
        ("59-17=42", "42", True),
        ("It was -42.", "-42", True),
        ("It is 42.5", "42", False),
        ("It is 1,042", "42", False),
        ("It is -42", "42", False),
        ("It is not 42", "42", False),
    ],
)
def test_a_number_is_said_as_a_whole(text: str, phrase: str, is_said: bool) -> None:
    assert says(text, phrase) is is_said


@pytest.mark.parametrize(
    ("one", "other", "is_same"),
    [
        ("x^2", "$x^{2}$", True),
        ("x²", "x^2", True),
        ("2x", "2 x", True),
        ("x^2", "x^2+1", False),
        (r"\frac{1}{x}", "1/x", True),
        (r"\frac{1}{x}", r"\dfrac1x", True),
        (r"\frac{\pi}{2}", "π/2", True),
        (r"\frac{a+b}{2}", "(a + b)/2", True),
        (r"\frac{1}{2}mv^2", "1/2 m v²", True),
        ("x^{1/2}", r"x^{\frac12}", True),
        (r"2\pi r", "2πr", True),
        (r"\frac{1}{2x}", "1/2x", False),
        (r"\frac{1}{x+1}", "1/x+1", False),
        (r"\frac{a}{bc}", "a/b/c", False),
        (r"\sin\frac{x}{2}", r"\sin x/2", False),
        (r"\pi r", r"\pir", False),
        ("12", "1 2", False),
        ("CO2", r"\text{CO}_2", True),
        (r"$\text{H}_2\text{O}$", r"\ce{H2O}", True),
        ("SO₄²⁻", r"\mathrm{SO_4^{2-}}", True),
        ("Fe2(SO4)3", "Fe_2(SO_4)_3", True),
        ("CO2", "CO^2", False),
        ("Co", "CO", False),
        ("A" * 5_000 + "!", "A" * 5_000, False),
    ],
)
def test_formulas_are_compared_by_their_spelling(one: str, other: str, is_same: bool) -> None:
    assert is_same_formula(one, other) is is_same
