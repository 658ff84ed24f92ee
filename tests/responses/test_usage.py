from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from openai.types.responses import ResponseUsage

from nemo_gym.responses._usage import (
    convert_usage_to_chat,
    convert_usage_to_responses,
    read_completion_tokens,
    usage_detail,
)


def test_details_are_carried() -> None:
    usage = {
        "prompt_tokens": 11,
        "completion_tokens": 3,
        "total_tokens": 14,
        "prompt_tokens_details": {"cached_tokens": 8},
        "completion_tokens_details": {"reasoning_tokens": 2},
    }
    assert convert_usage_to_responses(usage) == {
        "input_tokens": 11,
        "input_tokens_details": {"cached_tokens": 8, "cache_write_tokens": 0},
        "output_tokens": 3,
        "output_tokens_details": {"reasoning_tokens": 2},
        "total_tokens": 14,
    }


@pytest.mark.parametrize(
    "usage", [None, {}, {"prompt_tokens": 3}, {"total_tokens": 3}, {"prompt_tokens": None}]
)
def test_what_is_not_known_is_not_made_up(usage: Any) -> None:
    assert convert_usage_to_responses(usage) is None


@pytest.mark.parametrize("missing", ["prompt_tokens", "completion_tokens", "total_tokens"])
def test_one_missing_count_follows_from_the_others(missing: str) -> None:
    usage: dict[str, Any] = {"prompt_tokens": 11, "completion_tokens": 3, "total_tokens": 14, missing: None}
    counted = convert_usage_to_responses(usage)
    assert counted is not None
    assert (counted["input_tokens"], counted["output_tokens"], counted["total_tokens"]) == (11, 3, 14)


def test_null_details_are_zero_and_sglang_counts_reasoning_beside_the_totals() -> None:
    usage = {"prompt_tokens": 1, "completion_tokens": 2, "total_tokens": 3, "prompt_tokens_details": None}
    counted = convert_usage_to_responses({**usage, "reasoning_tokens": 2})
    assert counted is not None
    assert counted["input_tokens_details"]["cached_tokens"] == 0
    assert counted["output_tokens_details"]["reasoning_tokens"] == 2


counts = st.integers(0, 10**6)


@given(counts, counts, counts, counts)
def test_counts_survive_there_and_back(prompt: int, completion: int, cached: int, reasoning: int) -> None:
    usage = {
        "input_tokens": prompt,
        "input_tokens_details": {"cached_tokens": cached, "cache_write_tokens": 0},
        "output_tokens": completion,
        "output_tokens_details": {"reasoning_tokens": reasoning},
        "total_tokens": prompt + completion,
    }
    ResponseUsage.model_validate(usage)
    assert convert_usage_to_responses(convert_usage_to_chat(usage)) == usage


def test_completion_tokens_are_a_count_or_unknown() -> None:
    assert [read_completion_tokens(usage) for usage in (None, {}, {"completion_tokens": 3})] == [
        None,
        None,
        3,
    ]


def test_a_detail_may_stand_beside_the_totals_under_another_name() -> None:
    names = ("prompt_tokens_details", "cached_tokens", "cached_input_tokens")
    assert usage_detail({"prompt_tokens_details": {"cached_tokens": 4}, "cached_tokens": 5}, *names) == 4
    assert usage_detail({"prompt_tokens_details": None, "cached_tokens": 5}, *names) == 5
    assert usage_detail({"cached_input_tokens": 0}, *names) == 0
    assert usage_detail({"prompt_tokens": 3}, *names) is None
