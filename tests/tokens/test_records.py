"""A damaged record is masked, and the row stays usable."""

from __future__ import annotations

from typing import Any

import pytest

from nemo_gym.rows.calls import read_calls
from nemo_gym.tokens.reasons import MaskReason
from nemo_gym.tokens.records import RECORD_FIELD, CallRecord, read_record
from nemo_gym.tokens.segments import build_segments
from tests.tokens.token_rows import drifting_row


async def damaged(**changes: Any) -> list[CallRecord]:
    """The calls of a packed row whose second record is changed."""
    row = await drifting_row("packed")
    items = [item for item in row["response"]["output"] if RECORD_FIELD in item]
    items[1][RECORD_FIELD] = {**items[1][RECORD_FIELD], **changes}
    return read_calls(row)


@pytest.mark.parametrize(
    "changes",
    [
        {"ids": "AAAA"},
        {"ids": {"prompt": [1], "generated": [2], "logprobs": [-0.5]}},
        {"ids": {"prompt": [1]}},
        {"ids": 5},
        {"sequence": "0" * 16},
        {"sequence": None},
        {"kept": 10**6},
        {"kept": -1},
        {"kept": "1"},
        {"reason": "bad weather"},
        {"sampling": []},
        {"sampling": "greedy"},
    ],
)
async def test_a_damaged_record_is_masked_and_what_builds_on_it_too(changes: dict[str, Any]) -> None:
    records = await damaged(**changes)
    assert records[1].masked is MaskReason.DAMAGED_RECORD
    assert records[0].masked is None
    assert all(record.masked in (None, MaskReason.MISSING_BASE) for record in records[2:])
    build_segments(records)


def test_a_record_that_is_no_object_is_damaged() -> None:
    values: list[Any] = ["x", 5, []]
    for value in values:
        record = read_record({RECORD_FIELD: value})
        assert record is not None
        assert record.masked is MaskReason.DAMAGED_RECORD
