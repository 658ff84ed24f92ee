"""Fields of requests: those that one API lacks, and the limits of the answer."""

from __future__ import annotations

from typing import Any

import pytest

from nemo_gym.failures import InputError
from nemo_gym.responses._request_fields import (
    CARRIED_FIELDS,
    CHAT_LIMITS,
    CHAT_ONLY,
    RESPONSES_ONLY,
    carry_fields,
    put_limit,
)
from nemo_gym.responses.problems import ConversionProblems


def is_refused(name: str, value: Any) -> bool:
    problems = ConversionProblems()
    carry_fields({name: value}, {}, frozenset(), CHAT_ONLY, problems)
    return bool(problems)


@pytest.mark.parametrize(("name", "value"), [("n", 1), ("modalities", ["text"]), ("functions", [])])
def test_a_value_without_effect_is_accepted(name: str, value: Any) -> None:
    assert not is_refused(name, value)


@pytest.mark.parametrize(("name", "value"), [("n", 2), ("n", True), ("audio", {}), ("unheard_of", 1)])
def test_other_values_and_unknown_fields_are_problems(name: str, value: Any) -> None:
    assert is_refused(name, value)


def test_no_field_is_both_carried_and_refused() -> None:
    assert not CARRIED_FIELDS & (CHAT_ONLY.keys() | RESPONSES_ONLY.keys())


@pytest.mark.parametrize(
    ("params", "limit"),
    [({}, None), ({"max_tokens": None}, None), ({"max_tokens": 5}, 5), (dict.fromkeys(CHAT_LIMITS, 5), 5)],
)
def test_the_limit_of_the_answer(params: dict[str, Any], limit: int | None) -> None:
    problems, converted = ConversionProblems(), dict[str, Any]()
    put_limit(params, CHAT_LIMITS, converted, "max_output_tokens", problems)
    assert converted.get("max_output_tokens") == limit
    assert not problems


@pytest.mark.parametrize(
    "params", [{"max_tokens": "5"}, {"max_tokens": True}, {"max_tokens": 5, "max_completion_tokens": 6}]
)
def test_limits_that_disagree_or_are_no_integers_are_problems(params: dict[str, Any]) -> None:
    problems = ConversionProblems()
    put_limit(params, CHAT_LIMITS, {}, "max_output_tokens", problems)
    with pytest.raises(InputError, match="max_tokens"):
        problems.raise_if_any("chat")
