"""All problems of a request are one error."""

from __future__ import annotations

import pytest

from nemo_gym.failures import InputError
from nemo_gym.responses.problems import UNKNOWN_FIELD, ConversionProblems


def test_no_problem_is_no_error() -> None:
    problems = ConversionProblems()
    problems.add_unknown({"known": 1, "nothing": None}, {"known"}, "tools[0].")
    assert not problems
    problems.raise_if_any("chat")


def test_every_problem_is_in_the_error_in_the_order_of_fields() -> None:
    problems = ConversionProblems()
    problems.add("b", "is wrong")
    problems.add_unknown({"known": 1, "extra": 0}, {"known"}, "a[1].")
    problems.add("b", "is late")
    with pytest.raises(InputError) as caught:
        problems.raise_if_any("Chat Completions")
    failure = caught.value.failure
    assert (failure.code, failure.param) == ("not_convertible", "a[1].extra, b")
    assert failure.message == (
        "This request can't be expressed in Chat Completions. "
        f"`a[1].extra`: {UNKNOWN_FIELD}; `b`: is late; `b`: is wrong."
    )
