"""Scores are read as Inspect's metrics read them, but a text that is no number is none."""

from __future__ import annotations

import math

import pytest

from nemo_gym.sources.foreign.host.score_values import read_number


@pytest.mark.parametrize(
    ("value", "number"),
    [
        *(("C", 1.0), ("P", 0.5), ("I", 0.0), ("N", 0.0), ("yes", 1.0), ("False", 0.0), (True, 1.0)),
        *((3, 3.0), (-0.5, -0.5), ("0.25", 0.25), ("c", None), ("many", None), ("", None)),
        *((None, None), ([1], None), ({"a": 1}, None)),
    ],
)
def test_a_value_is_a_number_or_none(value: object, number: float | None) -> None:
    assert read_number(value) == number


def test_a_score_that_is_no_number_stays_one() -> None:
    found = read_number("nan")
    assert found is not None
    assert math.isnan(found)
