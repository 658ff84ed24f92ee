from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nemo_gym.verify.numbers import Quantity, is_same_quantity, read_quantity
from nemo_gym.verify.units import NO_UNIT, read_unit


@pytest.mark.parametrize(
    ("text", "value", "unit"),
    [
        ("18", 18, ""),
        ("-18", -18, ""),
        ("\u221218", -18, ""),
        ("+5", 5, ""),
        ("5.", 5, ""),
        (".5", Fraction(1, 2), ""),
        ("1,234.50", Fraction(2469, 2), ""),
        ("70{,}000", 70000, ""),
        ("70\\,000", 70000, ""),
        ("-3/4", Fraction(-3, 4), ""),
        ("2 1/2", Fraction(5, 2), ""),
        ("2½", Fraction(5, 2), ""),
        ("\\frac{3}{4}", Fraction(3, 4), ""),
        ("-2\\dfrac12", Fraction(-5, 2), ""),
        ("1.5 \\times 10^{3}", 1500, ""),
        ("1e5", 100000, ""),
        ("$18", 18, "dollar"),
        ("\\$18", 18, "dollar"),
        ("-$5", -5, "dollar"),
        ("$-5", -5, "dollar"),
        ("18 dollars", 18, "dollar"),
        ("$5 million", 5_000_000, "dollar"),
        ("-1.8 billion", -1_800_000_000, ""),
        ("3 dozen eggs", 36, "eggs"),
        ("12.5\\%", Fraction(25, 2), "%"),
        ("50 percent", 50, "%"),
        ("5\\text{ km}", 5, "km"),
        ("60 km/h", 60, "km per h"),
        ("5 m", 5, "m"),
        ("0.1\\overline{6}", Fraction(1, 6), ""),
        ("1 000", 1000, ""),
        ("5 millions of dollars", 5_000_000, "dollar"),
        ("1.5 crores", 15_000_000, ""),
        ("2 hours 30 minutes", 150, "minutes"),
        ("5\\text{ ft }6\\text{ in}", 66, "in"),
        ("1 day, 2 hours and 3 minutes", 1563, "minutes"),
        ("20^\\circ\\text{C}", 20, "°C"),
        ("5\\frac{\\text{m}}{\\text{s}^2}", 5, "m/s^2"),
        ("{\\color{red}42}", 42, ""),
        ("90^\\circ", 90, "degree"),
        ("$3$", 3, ""),
        ("\\(3\\)", 3, ""),
    ],
)
def test_numbers_are_read_exactly(text: str, value: Fraction, unit: str) -> None:
    assert read_quantity(text) == Quantity(Fraction(value), read_unit(unit) or NO_UNIT)


@pytest.mark.parametrize(
    "text",
    ["", "x", "3x", "3 x", "3 xy", "2 pi", "3 or 4", "3, 4", "1,23", "--5", "1/0", "3 squared", "5 not 6", "7 half",
     "1e999999", "9" * 500, "$5 euros", "4 = 4", "12:30", "1.2.3", "1 2", "5!", "10²", "10②", "①0", "②③", "⒈5",
     "03/04", "2 hours 30", "2 hours 3 hours", "2 hours 30 apples", "-2 hours 30 minutes", "5 wrong", "5 apple"],
)  # fmt: skip
def test_a_text_that_is_not_one_number_gives_none(text: str) -> None:
    assert read_quantity(text) is None


@pytest.mark.parametrize(
    ("expected", "answer", "is_same"),
    [
        ("70000", "70,000", True),
        ("18", "18.00", True),
        ("18", "$18", True),
        ("18 km", "18 miles", False),
        ("18 km", "18000 m", True),
        ("18 m", "18 s", False),
        ("18 m", "18 m^2", False),
        ("£5", "5 pounds", True),
        ("1/3", "0.333333", True),
        ("1/3", "0.333", False),
        ("1000000", "1000001", False),
        ("0.0000001", "0.0000002", False),
        ("0.0000001", "0", False),
        ("0", "0.0000001", False),
        ("50%", "0.5", True),
        ("0.5", "50%", True),
        ("50", "50%", True),
        ("5", "50%", False),
        ("5", "-5", False),
        ("0.0", "1/100000000", False),
        ("1.0", "9999999/10000000", False),
        ("1000000/3", "333333.33333", True),
        ("1234567.88", "1234567.89", False),
        ("1/3", "333333/1000000", False),
        ("1/3 km", "333.333333 m", True),
        ("150 min", "2 hours 30 minutes", True),
    ],
)
def test_quantities_are_compared_exactly_except_for_rounded_decimals(
    expected: str, answer: str, is_same: bool
) -> None:
    wanted, given_answer = read_quantity(expected), read_quantity(answer)
    assert wanted is not None
    assert given_answer is not None
    assert is_same_quantity(wanted, given_answer) is is_same


@given(st.integers(-(10**12), 10**12), st.integers(0, 99))
def test_every_way_to_write_an_amount_reads_the_same(whole: int, cents: int) -> None:
    sign = "-" if whole < 0 else ""
    value = Fraction(f"{sign}{abs(whole)}.{cents:02}")
    for text in (
        f"{sign}{abs(whole)}.{cents:02}",
        f"{sign}{abs(whole):,}.{cents:02}",
        f"{sign}${abs(whole):,}.{cents:02}",
    ):
        quantity = read_quantity(text)
        assert quantity is not None
        assert quantity.value == value
