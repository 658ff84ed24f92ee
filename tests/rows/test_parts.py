"""Members of rows of any gym are read, and odd ones do no harm."""

from __future__ import annotations

from typing import Any

import pytest

from nemo_gym.failures import InputError
from nemo_gym.rows.parts import (
    count_tokens,
    is_reserved,
    read_agent,
    read_agent_or_unknown,
    read_failed_servers,
    read_failure_reason,
    read_output,
    read_params,
    read_response,
    read_reverification,
    read_task_data,
    read_task_origin,
    read_task_source,
    read_usage,
    read_verifier_metadata,
    require_agent,
)
from nemo_gym.rows.timing import read_seconds

ROW: dict[str, Any] = {
    "_ng_task_index": 3,
    "responses_create_params": {"input": "q"},
    "agent_ref": {"type": "responses_api_agents", "name": "mine"},
    "task_source": "env",
    "skills_ref": {"hash": "x"},
    "level": 2,
    "response": {"output": [{"type": "message"}], "usage": {"output_tokens": 3}},
    "_ng_timing": {"total": 1.5},
}


def test_members_are_read() -> None:
    assert read_params(ROW) == {"input": "q"}
    assert (read_agent(ROW), read_task_source(ROW), read_seconds(ROW)) == ("mine", "env", 1.5)
    assert read_output(ROW) == read_response(ROW)["output"]
    assert read_usage(ROW) == {"output_tokens": 3}


@pytest.mark.parametrize(
    ("usage", "tokens"),
    [
        ({"input_tokens": 5, "output_tokens": 3, "total_tokens": 8}, 8),
        ({"input_tokens": 5, "output_tokens": 3}, 8),
        ({"output_tokens": 3}, 3),
        ({"input_tokens": 0, "output_tokens": 0, "total_tokens": 0}, None),
        ({"total_tokens": "8"}, None),
        ({"total_tokens": float("nan"), "input_tokens": 2}, 2),
        ({}, None),
        (None, None),
    ],
)
def test_tokens_are_counted_as_the_engine_did(usage: Any, tokens: int | None) -> None:
    assert count_tokens({"response": {"usage": usage}}) == tokens


def test_the_data_of_a_task_is_what_its_environment_reads() -> None:
    task = {key: value for key, value in ROW.items() if key != "response"}
    assert read_task_data(task) == {"level": 2}
    assert list(filter(is_reserved, ROW)) == ["_ng_task_index", "_ng_timing"]


@pytest.mark.parametrize(
    "odd", [None, 1, "text", [], [1], {"output": [1], "name": 5, "usage": [], "total": "x"}]
)
def test_odd_members_are_like_missing_ones(odd: object) -> None:
    row = dict.fromkeys(ROW, odd)
    assert read_output(row) == []
    assert read_usage(row) == {}
    assert (read_agent(row), read_agent_or_unknown(row), read_seconds(row)) == (None, "unknown", None)
    assert read_params(row) == read_response(row) == (odd if isinstance(odd, dict) else {})


def test_metadata_of_the_verifier_that_is_no_object_counts_as_none() -> None:
    assert read_verifier_metadata({"verifier_metadata": {"unit_tests": []}}) == {"unit_tests": []}
    assert read_verifier_metadata({"verifier_metadata": "none"}) == {}


def test_a_row_without_an_agent_is_refused_where_one_is_needed() -> None:
    assert require_agent(ROW) == "mine"
    with pytest.raises(InputError, match="no `agent_ref` with the `name` of an agent") as refused:
        require_agent({"agent_ref": {"type": "responses_api_agents"}})
    assert refused.value.failure.param == "agent_ref"


def test_the_servers_on_the_way_of_a_failure_are_listed_from_its_cause() -> None:
    assert read_failed_servers({"_ng_failure": {"peer": "env", "hops": ["agent", "head"]}}) == [
        "env",
        "agent",
        "head",
    ]
    assert read_failed_servers({"_ng_failure": {"peer": None, "hops": "odd"}}) == []
    assert read_failed_servers(ROW) is None


def test_marks_of_the_verdict_are_read() -> None:
    assert (read_failure_reason({"failure_reason": 3}), read_failure_reason(ROW)) == ("3", None)
    mark = {"reward_before": 0.0}
    assert read_reverification({"_ng_reverified": mark}) == mark
    assert read_reverification({"_ng_reverified": True}) is None


def test_the_origin_of_a_task_folder_is_what_its_row_states_as_text() -> None:
    folder = {"license": "MIT", "split": None, "steps": 2, "dataset": "org/set"}
    row = {"folder_digest": "d", "task_folder": folder}
    assert read_task_origin(row) == {"digest": "d", "license": "MIT", "dataset": "org/set"}
    assert read_task_origin({"task_folder": "a"}) == {}
    assert read_task_origin(ROW) == {}
