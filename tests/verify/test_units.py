from fractions import Fraction

import pytest

from nemo_gym.verify.units import (
    NO_UNIT,
    are_comparable,
    changes_quantity,
    find_unit,
    may_start_thing,
    names_thing,
    read_counted,
    read_unit,
)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("km/h", "kilometers per hour"),
        ("m^2", "square meters"),
        ("apples", "apple"),
        ("$", "dollars"),
        ("mins", "minute"),
        ("red apples", "Red Apples"),
        ("ohms", "Ω"),
        ("degrees Celsius", "°C"),
        ("per cent", "%"),
        ("acre", "acres"),
    ],
)
def test_one_unit_has_several_names(one: str, other: str) -> None:
    assert read_unit(one) == read_unit(other)


@pytest.mark.parametrize(("one", "other"), [("km", "s"), ("m", "m^2"), ("apples", "pears"), ("$", "€")])
def test_units_of_other_dimensions_are_not_comparable(one: str, other: str) -> None:
    left, right = read_unit(one), read_unit(other)
    assert left is not None
    assert right is not None
    assert not are_comparable(left, right)
    assert are_comparable(left, NO_UNIT)


def test_factors_are_exact() -> None:
    unit = read_unit("km/h")
    assert unit is not None
    assert unit.factor == Fraction(5, 18)


@pytest.mark.parametrize(
    "text", ["xy", "or 4", "over 7", "m x", "times", "^2", "km " * 100, "5", "square", "km of"]
)
def test_other_words_are_no_unit(text: str) -> None:
    assert read_unit(text) is None


@pytest.mark.parametrize(
    ("text", "factor", "unit"),
    [
        ("millions", 10**6, ""),
        ("dozens of eggs", 12, "eggs"),
        ("hundred thousand km", 10**5, "km"),
        ("lakh", 10**5, ""),
    ],
)
def test_a_multiplier_counts_in_the_singular_and_the_plural(text: str, factor: int, unit: str) -> None:
    assert read_counted(text, Fraction(5)) == (factor, read_unit(unit))


def test_a_counted_thing_is_in_the_plural_unless_the_number_is_at_most_one() -> None:
    assert read_counted("apple", Fraction(1))[1] == read_unit("apples")
    assert read_counted("apple", Fraction(5))[1] is None


def test_only_names_of_measures_are_found() -> None:
    assert find_unit("kilometers") == read_unit("km")
    assert find_unit("apples") is None


# --- Words after a number ---------------------------------------------------------------------------------------------


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


@pytest.mark.parametrize("phrase", ["möglichkeiten", "яблок", "quả táo", "通り"])
def test_words_of_other_scripts_name_a_counted_thing(phrase: str) -> None:
    assert names_thing(phrase.split(), is_single=False)


@pytest.mark.parametrize(
    "phrase", ["миллионов", "тысяч", "万", "億円", "만", "مليون", "triệu", "процентов", "π"]
)
def test_words_of_other_scripts_that_change_the_number_name_none(phrase: str) -> None:
    assert not names_thing(phrase.split(), is_single=False)
