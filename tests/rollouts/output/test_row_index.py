"""The index of a file of rows equals the rows, and damage is noticed."""

from __future__ import annotations

import io
import math
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nemo_gym.rollouts.output.row_index import (
    LENGTH_COLUMN,
    build_blocks,
    build_entry,
    decode_block,
    describes,
    split_blocks,
)
from nemo_gym.rows.compose import note_failed_call
from nemo_gym.rows.tool_errors import FailedCall, ToolErrorKind

NUMBERS = st.one_of(
    st.integers(-(2**53), 2**53), st.floats(allow_nan=False, allow_infinity=False), st.booleans()
)
ROWS = st.lists(
    st.fixed_dictionaries(
        {"_ng_task_index": st.integers(0, 2**40), "_ng_rollout_index": st.integers(0, 9)},
        optional={
            "reward": st.one_of(st.none(), st.sampled_from([0, 1, 0.5]), NUMBERS),
            "count": NUMBERS,
            "_ng_outcome": st.sampled_from(["completed", "truncated", "failed"]),
            "_ng_failure_class": st.sampled_from(["judge_failed", "rollout_timeout"]),
            "agent_ref": st.fixed_dictionaries({"name": st.text(max_size=3)}),
            "note": st.text(),
        },
    ),
    max_size=20,
)


def file_of(rows: list[dict[str, Any]]) -> bytes:
    return b"".join(orjson.dumps(row) + b"\n" for row in rows)


@given(ROWS, st.integers(1, 7))
def test_columns_hold_the_numbers_and_labels_of_every_row(rows: list[dict[str, Any]], size: int) -> None:
    content = file_of(rows)
    blocks = split_blocks(b"".join(build_blocks(io.BytesIO(content), rows=size)))
    found: list[dict[str, Any]] = []
    at = 0
    for block in map(decode_block, blocks):
        assert block.start == at
        assert block.rows == min(size, len(rows) - len(found))
        for place in range(block.rows):
            found.append({name: values[place] for name, values in block.columns.items()})
        at = block.end
    assert at == len(content)
    for row, columns in zip(rows, found, strict=True):
        numbers, labels = build_entry(row)
        assert columns.pop(LENGTH_COLUMN) == len(orjson.dumps(row)) + 1
        present = {name: value for name, value in columns.items() if not is_missing(value)}
        assert present == {**numbers, **{name: label for name, label in labels.items() if label is not None}}
    assert describes(blocks, io.BytesIO(content))


def is_missing(value: object) -> bool:
    return value is None or (isinstance(value, float) and math.isnan(value))


def test_a_row_without_a_score_has_no_reward() -> None:
    failed = {"_ng_task_index": 0, "reward": 0.0, "_ng_failure_class": "judge_failed", "steps": 3}
    numbers, labels = build_entry(failed)
    assert "reward" not in numbers
    assert numbers["steps"] == 3
    assert (labels["outcome"], labels["failure"]) == ("failed", "judge_failed")


def test_a_failed_attempt_has_the_time_of_its_failure() -> None:
    failed = {"_ng_failure_class": "node_lost", "_ng_failed_at": 1777660200.5}
    assert build_entry(failed).numbers["created_at"] == 1777660200.5
    assert build_entry({**failed, "response": {"created_at": 7}}).numbers["created_at"] == 7
    assert "created_at" not in build_entry({"_ng_failed_at": "soon"}).numbers


def test_an_unfinished_line_is_left_out_and_a_broken_one_counts() -> None:
    content = b'{"_ng_task_index": 1}\n[1]\n{"torn": \n{"_ng_task_in'
    (block,) = map(decode_block, build_blocks(io.BytesIO(content)))
    assert list(block.columns["outcome"]) == ["failed", "unreadable", "unreadable"]
    assert block.end == content.rindex(b"\n") + 1


ROW = {"_ng_task_index": 1, "_ng_rollout_index": 0, "reward": 1.0}


@pytest.mark.parametrize("kept", [1, 10, 100])
def test_a_torn_or_damaged_block_ends_the_index(kept: int) -> None:
    first, second = build_blocks(io.BytesIO(file_of([ROW, ROW])), rows=1)
    damaged = second[:-kept] + bytes([second[-kept] ^ 1]) + second[len(second) - kept + 1 :]
    assert split_blocks(first + second[:-kept]) == [first]
    assert split_blocks(first + damaged) == [first]
    assert split_blocks(damaged) == []


def test_an_index_of_other_rows_is_noticed() -> None:
    content = file_of([{**ROW, "text": str(number)} for number in range(9)])
    blocks = list(build_blocks(io.BytesIO(content), rows=4))
    assert describes(blocks, io.BytesIO(content + file_of([ROW])))
    assert not describes(blocks, io.BytesIO(content.replace(b'"text":"3"', b'"text":"x"')))
    assert not describes(blocks, io.BytesIO(content[:-5]))
    assert not describes(blocks[1:], io.BytesIO(content))


ODD = [None, "a", [1], {}, {"a": None}, True, 1.5, -1, 1e300, 2**63]


@pytest.mark.parametrize("value", ODD, ids=repr)
@pytest.mark.parametrize(
    "name",
    [
        *("_ng_task_index", "_ng_rollout_index", "_ng_attempt_index", "reward", "response", "agent_ref"),
        *(
            "_ng_outcome",
            "_ng_timing",
            "_ng_failed_at",
            "reward_components",
            "_ng_failure_class",
            "_ng_end_reason",
        ),
    ],
)
def test_a_row_with_anything_in_a_field_has_columns(name: str, value: Any) -> None:
    (block,) = build_blocks([orjson.dumps({name: value}) + b"\n"] * 2)
    assert decode_block(block).rows == 2


def test_a_row_with_half_a_character_has_its_columns() -> None:
    (block,) = build_blocks([rb'{"_ng_task_index": 3, "text": "\ud800"}' + b"\n"])
    assert list(decode_block(block).columns["task"]) == [3]


def test_rows_with_tool_calls_have_columns_of_failed_ones() -> None:
    call = {"type": "function_call", "call_id": "c", "name": "guess"}
    row = {"reward": 0.0, "response": {"output": [call]}}
    assert build_entry(row).numbers["tool_errors"] == 0
    note_failed_call(row, FailedCall("guess", ToolErrorKind.RAISED, "ValueError: boom"))
    numbers = build_entry(row).numbers
    assert (numbers["tool_errors"], numbers["invalid_tool_calls"]) == (1, 0)
    assert "tool_errors" not in build_entry({"reward": 0.0, "response": {"output": []}}).numbers
