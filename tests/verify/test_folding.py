"""Compatibility forms are folded, and no number becomes another."""

from __future__ import annotations

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nemo_gym.verify.folding import fold_compatibility


@pytest.mark.parametrize(
    ("text", "folded"),
    [
        ("ﬁne Ａ１０ 𝟏𝟎", "fine A10 10"),
        ("e\u0301", "é"),
        ("CO₂", "CO2"),
        ("SO₄²⁻", "SO42−"),
        ("Ca²⁺", "Ca2+"),
        ("Fe₂(SO₄)₃", "Fe2(SO4)3"),
        ("1ˢᵗ", "1st"),
        ("5 m²", "5 m2"),
        ("①", "1"),
        ("½", "1⁄2"),
        ("10²", "10^2"),
        ("10²³", "10^23"),
        ("10⁻²", "10^−2"),
        ("x⁻²", "x^−2"),
        ("2x10²", "2x10^2"),
        ("(10)²", "(10)^2"),
        ("101₂", "101_2"),
        ("x₁²", "x1^2"),
        ("2½", "2 1⁄2"),
        ("2⅛", "2 1⁄8"),
        ("½½", "1⁄2 1⁄2"),
        ("10②", "10 2"),
        ("①0", "1 0"),
        ("②③", "2 3"),
        ("⒈5", "1. 5"),
        ("m²3", "m2 3"),
        ("5㎡2", "5m2 2"),
    ],
)
def test_a_digit_of_another_form_joins_no_number(text: str, folded: str) -> None:
    assert fold_compatibility(text) == folded


@given(st.text(st.characters(codec="utf-8", exclude_categories=["No"]), max_size=20))
def test_a_text_without_digits_of_other_forms_is_its_nfkc_form(text: str) -> None:
    kept = "".join(char for char in text if not unicodedata.decomposition(char).startswith("<"))
    assert fold_compatibility(kept) == unicodedata.normalize("NFKC", kept)
