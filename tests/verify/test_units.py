from fractions import Fraction

import pytest

from nemo_gym.verify.units import NO_UNIT, are_comparable, read_unit


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("km/h", "kilometers per hour"),
        ("m^2", "square meters"),
        ("apples", "apple"),
        ("$", "dollars"),
        ("mins", "minute"),
        ("red apples", "Red Apples"),
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


@pytest.mark.parametrize("text", ["xy", "or 4", "over 7", "m x", "times", "^2", "km " * 100, "5"])
def test_other_words_are_no_unit(text: str) -> None:
    assert read_unit(text) is None
