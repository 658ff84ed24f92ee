"""Words after a number: a counted thing, or words that make another quantity of it."""

from __future__ import annotations

import pytest

from nemo_gym.verify._counted_things import changes_quantity, may_start_thing, names_thing


@pytest.mark.parametrize(
    "phrase",
    ["apples", "red apples", "wrong answers", "negative integers", "sixth graders", "possible ways", "children",
     "trailing zeros", "marbles left", "total", "in total", "of sugar", "students per class", "years old", "months",
     "deaths", "pavilions", "millionaires", "properties", "canteens", "logs"],
)  # fmt: skip
def test_a_phrase_with_a_plural_or_a_known_way_to_count_names_a_thing(phrase: str) -> None:
    assert names_thing(phrase.split(), is_single=False)


@pytest.mark.parametrize(
    "phrase",
    ["billions", "septillion", "thousandths", "sixteenths", "twelve", "seventies", "tens", "divided by two", "modulo",
     "choose", "reciprocal", "imaginary", "squared", "below zero", "apples at least", "or more", "otherwise", "versus",
     "wrong", "incorrect", "negative", "wrong answer", "maybe", "apples but", "apples x", "sum of", "oops"],
)  # fmt: skip
def test_words_that_change_a_quantity_name_no_thing(phrase: str) -> None:
    assert not names_thing(phrase.split(), is_single=False)


def test_a_noun_in_the_singular_needs_the_number_one() -> None:
    assert names_thing(["apple"], is_single=True)
    assert not names_thing(["apple"], is_single=False)
    assert not names_thing(["wrong"], is_single=True)


def test_a_phrase_starts_with_a_word_and_not_with_a_product_of_letters() -> None:
    assert may_start_thing("eggs")
    assert may_start_thing("egg")
    assert not may_start_thing("xyz")


def test_a_word_changes_a_quantity_as_a_whole() -> None:
    assert changes_quantity("twenty")
    assert not changes_quantity("twentysomethings")
