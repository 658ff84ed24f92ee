"""The failed tool calls of a row: their classes, their counts, and rows that another program wrote."""

from __future__ import annotations

from typing import Any

import pytest

from nemo_gym.names import OUTPUT_ERROR_KEY
from nemo_gym.rows.compose import mark_failed_output, note_failed_call
from nemo_gym.rows.keys import TOOL_ERRORS_KEY
from nemo_gym.rows.tool_errors import (
    Culprit,
    FailedCall,
    ToolErrorKind,
    count_answered_calls,
    count_failed_calls,
    read_failed_outputs,
    read_tool_errors,
)

BOOM = FailedCall("guess", ToolErrorKind.RAISED, "ValueError: boom", "resources_servers/lockbox/app.py:48")
INVALID = FailedCall("guess", ToolErrorKind.INVALID_ARGUMENTS, "$: 'digits' is a required property")


def noted(*calls: FailedCall) -> dict[str, Any]:
    notes: dict[str, Any] = {}
    for failed in calls:
        note_failed_call(notes, failed)
    return notes


def test_every_kind_has_a_culprit() -> None:
    by_model = {kind.value for kind in ToolErrorKind if kind.culprit is Culprit.MODEL}
    assert by_model == {"invalid_json", "invalid_arguments", "unknown_tool", "rejected"}


def test_calls_are_counted_by_tool_and_cause() -> None:
    row = noted(BOOM, INVALID, BOOM)
    assert row[TOOL_ERRORS_KEY] == [
        {
            "tool": "guess",
            "by": "environment",
            "kind": "raised",
            "cause": "ValueError: boom",
            "place": "resources_servers/lockbox/app.py:48",
            "count": 2,
        },
        {
            "tool": "guess",
            "by": "model",
            "kind": "invalid_arguments",
            "cause": "$: 'digits' is a required property",
            "count": 1,
        },
    ]
    assert [(call, count) for call, count in read_tool_errors(row)] == [(BOOM, 2), (INVALID, 1)]
    assert count_failed_calls(row) == {"tool_errors": 2.0, "invalid_tool_calls": 1.0}


def test_a_row_without_a_failed_call_has_no_number() -> None:
    assert count_failed_calls({"reward": 1.0}) == {}
    assert noted() == {}


@pytest.mark.parametrize(
    ("one", "other", "are_equal"),
    [
        ("KeyError: 'session-41'", "KeyError: 'session-42'", True),
        ("<object at 0x7f3a>", "<object at 0x12>", True),
        (
            "KeyError: '8d0e1f22-aaaa-bbbb-cccc-0123456789ab'",
            "KeyError: '11111111-aaaa-bbbb-cccc-0123456789ab'",
            True,
        ),
        ("ValueError: boom", "ValueError: bang", False),
    ],
)
def test_causes_that_differ_in_numbers_are_one(one: str, other: str, are_equal: bool) -> None:
    keys = {FailedCall("guess", ToolErrorKind.RAISED, cause).cause_key for cause in (one, other)}
    assert (len(keys) == 1) is are_equal


def test_the_place_decides_where_it_is_known() -> None:
    keys = {FailedCall("guess", ToolErrorKind.RAISED, cause, "app.py:3").cause_key for cause in "ab"}
    assert len(keys) == 1


def test_the_groups_of_a_row_are_bounded_and_no_call_is_lost() -> None:
    letters = [f"{chr(97 + number % 26)}{chr(97 + number // 26)}" for number in range(100)]
    row = noted(*(FailedCall("guess", ToolErrorKind.RAISED, text) for text in letters))
    assert len(row[TOOL_ERRORS_KEY]) == 20
    assert count_failed_calls(row)["tool_errors"] == 100.0


def test_a_cause_is_one_line_for_people_and_bounded_in_a_row() -> None:
    assert (
        str(FailedCall("t", ToolErrorKind.RAISED, "TimeoutError: ", "app.py:3")) == "TimeoutError (app.py:3)"
    )
    assert str(FailedCall("t", ToolErrorKind.RAISED, "1 error\n  box: missing")) == "1 error box: missing"
    assert len(FailedCall("t", ToolErrorKind.RAISED, "x" * 10_000).to_json()["cause"]) == 300


def test_marked_outputs_are_read_back() -> None:
    item = {"type": "function_call_output", "call_id": "c", "output": "{}"}
    marked = mark_failed_output(item, BOOM)
    assert marked == {**item, OUTPUT_ERROR_KEY: BOOM.to_json()}
    assert read_failed_outputs([item, marked, {**item, OUTPUT_ERROR_KEY: "odd"}]) == [BOOM]


@pytest.mark.parametrize(
    "odd",
    [None, 1, "x", {}, [1], [None], [{"kind": "raised"}], [{"kind": "new", "count": 1}],
     [{**BOOM.to_json(), "count": 0}], [{**BOOM.to_json(), "count": "2"}], [{**BOOM.to_json(), "kind": ["raised"]}]],
)  # fmt: skip
def test_odd_values_are_no_errors(odd: object) -> None:
    assert read_tool_errors({TOOL_ERRORS_KEY: odd}) == []


def test_calls_with_an_output_are_counted_by_the_environments_name() -> None:
    def call(call_id: str, name: str) -> dict[str, Any]:
        return {"type": "function_call", "call_id": call_id, "name": name}

    def output(call_id: str) -> dict[str, Any]:
        return {"type": "function_call_output", "call_id": call_id, "output": ""}

    items = [
        call("1", "guess"),
        output("1"),
        call("2", "mcp__lockbox__guess"),
        call("3", "look"),
        output("2"),
    ]
    assert count_answered_calls({"response": {"output": items}}) == {"guess": 2}
    assert count_answered_calls({"response": {"output": [output("1"), "odd"]}}) == {}
