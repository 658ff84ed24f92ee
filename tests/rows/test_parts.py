"""Members of rows of any gym are read, and odd ones do no harm."""

from __future__ import annotations

from typing import Any

import pytest

from nemo_gym.rows.parts import (
    is_reserved,
    read_agent,
    read_agent_or_unknown,
    read_output,
    read_params,
    read_response,
    read_seconds,
    read_task_data,
    read_task_source,
    read_usage,
    read_verifier_metadata,
)

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
