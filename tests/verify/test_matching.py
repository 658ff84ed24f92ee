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
    [("x^2", "$x^{2}$", True), ("x²", "x^2", True), ("2x", "2 x", True), ("x^2", "x^2+1", False)],
)
def test_formulas_are_compared_by_their_spelling(one: str, other: str, is_same: bool) -> None:
    assert is_same_formula(one, other) is is_same
