import pytest
from hypothesis import given
from hypothesis import strategies as st

from nemo_gym.verify.matching import is_same_text, normalize


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
    ],
)
def test_texts_are_compared_without_case_width_and_punctuation(left: str, right: str, is_same: bool) -> None:
    assert is_same_text(left, right) is is_same


@given(st.text())
def test_normalization_is_idempotent(text: str) -> None:
    once = normalize(text)
    assert normalize(once) == once
