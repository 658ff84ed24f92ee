"""Answers that are no formula: words, times of day, dates and other numbers that nothing is computed from."""

from __future__ import annotations

import pytest

from resources_servers.math_with_judge.math_words import (
    Time,
    Words,
    affirms,
    is_identifier,
    read_named_value,
    read_time,
    read_words,
    write_date,
)


@pytest.mark.parametrize(
    "text",
    ["2023-01-01", "1/2/2024", "12-25-2023", "3/14/23", "555-1234", "1-800-555", "+1-800-555-1234", "(555) 123-4567",
     "03-14", "03/04", "2019-2020", "9:30-10:45", "2001-09-11T08:46", "978-3-16-148410-0"],
)  # fmt: skip
def test_a_date_a_time_or_a_number_of_a_phone_is_not_computed(text: str) -> None:
    assert is_identifier(text)


@pytest.mark.parametrize(
    "text", ["10-3", "8-3-2", "24/7", "8/2/2", "100-20-30", "2024 - 1", "-5-3", "5-10", "x-1-2"]
)
def test_a_difference_or_a_quotient_is_computed(text: str) -> None:
    assert not is_identifier(text)


@pytest.mark.parametrize(
    ("text", "minutes"), [("3:45 p.m.", 945), (r"3:45\text{ PM}", 945), ("12:30 am", 30), ("7 PM", 1140)]
)
def test_a_time_of_day_is_read(text: str, minutes: int) -> None:
    assert read_time(text) == Time(minutes)


@pytest.mark.parametrize("text", ["3:45", "13 PM", "3:60 p.m.", "5 pm^2", "3"])
def test_another_text_is_no_time_of_day(text: str) -> None:
    assert read_time(text) is None


def test_words_know_whether_they_are_typeset_as_such() -> None:
    assert read_words(r"\text{dne}") == Words("dne", is_short=True, is_typeset=True)
    assert read_words("dne") == Words("dne", is_short=True)
    assert read_words("x+y") is None


@pytest.mark.parametrize(
    ("text", "formula"),
    [
        (r"\text{five}", "5"),
        ("twenty-three", "23"),
        ("one hundred and five", "105"),
        ("all real numbers", r"\mathbb{R}"),
        (r"\text{one half}", r"\frac{1}{2}"),
        ("fifth", None),
        ("five or six", None),
        ("", None),
    ],
)
def test_words_name_a_number_or_a_set(text: str, formula: str | None) -> None:
    assert read_named_value(text) == formula


def test_a_day_is_written_behind_its_month() -> None:
    assert write_date("the 5th of march") == write_date("march 5th") == write_date("5 march") == "march 5"
    assert write_date("the 5th of them") == "the 5th of them"


def test_an_explanation_affirms_its_first_word_unless_it_qualifies_it() -> None:
    assert affirms("yes", "yes, the series converges")
    assert affirms("infinitely many", "infinitely many real solutions")
    assert not affirms("yes", "yes, but only for x = 1")
    assert not affirms("yes", "no, it diverges")
    assert not affirms("yes", "yesterday")
    assert not affirms("no", "no, yes")


def test_numbers_joined_by_to_are_a_ratio() -> None:
    assert read_named_value(r"\text{2 to 3}") == "2:3"
    assert read_named_value("from 2 to 3") is None
