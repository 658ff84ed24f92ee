"""Metrics of tool calls: how many failed, of how many, by whose fault and why."""

from __future__ import annotations

from typing import Any

import pytest

from nemo_gym.metrics import ToolTally, aggregate, read_measurements
from nemo_gym.rows.compose import note_failed_call
from nemo_gym.rows.tool_errors import FailedCall, ToolErrorKind

BOOM = FailedCall("guess", ToolErrorKind.RAISED, "ValueError: boom", "app.py:48")
INVALID = FailedCall("guess", ToolErrorKind.INVALID_JSON, "no JSON")
GONE = FailedCall("look", ToolErrorKind.NO_ROUTE, "no route")


def row_of(*calls: str | FailedCall, task: int = 0, repeat: int = 0) -> dict[str, Any]:
    """A row with a call of each tool; the names are calls that succeeded."""
    output: list[dict[str, Any]] = []
    notes: dict[str, Any] = {}
    for number, each in enumerate(calls):
        name = each if isinstance(each, str) else each.tool
        output.append({"type": "function_call", "call_id": f"c{number}", "name": name})
        output.append({"type": "function_call_output", "call_id": f"c{number}", "output": ""})
        if isinstance(each, FailedCall):
            note_failed_call(notes, each)
    identity = {"_ng_task_index": task, "_ng_rollout_index": repeat}
    return {**identity, "reward": 0.0, "response": {"output": output}, **notes}


def tally_of(*rows: dict[str, Any]) -> ToolTally:
    tally = ToolTally()
    for row in rows:
        tally.add(row)
    return tally


def test_a_run_without_a_failed_call_has_no_metric_of_tools() -> None:
    assert tally_of(row_of("guess"), row_of()).metrics() == {}
    assert tally_of(row_of("guess")).rank_failed() == []


def test_failed_calls_are_counted_of_all_calls_by_tool_and_cause() -> None:
    tally = tally_of(row_of("guess", BOOM, INVALID, "look"), row_of(BOOM), row_of("peek", GONE))
    assert [str(each) for each in tally.rank_failed()] == [
        "2 of 4 calls of `guess` failed: ValueError: boom (app.py:48)",
        "1 of 2 calls of `look` failed: no route",
    ]
    assert tally.metrics() == {
        "count/tool_calls": 7,
        "count/tool_errors": 3,
        "count/invalid_tool_calls": 1,
        "tool_error_rate": pytest.approx(300 / 7),
        "count/tool_calls/guess": 4,
        "count/tool_errors/guess": 2,
        "count/invalid_tool_calls/guess": 1,
        "tool_error_rate/guess": 50.0,
        "count/tool_calls/look": 2,
        "count/tool_errors/look": 1,
        "count/invalid_tool_calls/look": 0,
        "tool_error_rate/look": 50.0,
    }


def test_a_tally_of_shards_is_that_of_the_whole() -> None:
    rows = [row_of("guess", BOOM), row_of(GONE), row_of(BOOM, BOOM), row_of("guess")]
    whole, merged = tally_of(*rows), tally_of(*rows[:2])
    merged.merge(tally_of(*rows[2:]))
    assert merged.metrics() == whole.metrics()
    assert merged.rank_failed() == whole.rank_failed()


def test_failed_calls_without_an_output_item_are_calls_too() -> None:
    row = row_of(BOOM) | {"response": {"output": []}}
    assert tally_of(row).metrics()["tool_error_rate/guess"] == 100.0


def test_the_mean_of_tool_errors_is_over_all_scored_rows() -> None:
    failed = {"_ng_task_index": 1, "_ng_rollout_index": 1, "_ng_failure_class": "x:y"}
    rows = [row_of(BOOM, BOOM), row_of("guess", repeat=1), row_of("guess", task=1), failed]
    assert read_measurements(rows[0])["tool_errors"] == 2.0
    assert "tool_errors" not in read_measurements(rows[1])
    metrics = aggregate(rows)["agent_metrics"]
    assert metrics["mean/tool_errors"] == pytest.approx(2 / 3)
    assert metrics["min/tool_errors"] == metrics["mean/invalid_tool_calls"] == 0.0
    first, second = aggregate(rows)["group_level_metrics"]
    assert (first["mean/tool_errors"], second["mean/tool_errors"]) == (1.0, 0.0)


def test_rows_without_failed_calls_have_the_metrics_of_before() -> None:
    assert not [name for name in aggregate([row_of("guess")])["agent_metrics"] if "tool" in name]


def test_a_verifiers_own_number_of_that_name_wins() -> None:
    assert read_measurements(row_of(BOOM) | {"tool_errors": 7})["tool_errors"] == 7.0
