"""Rows in every form say the same, foreign and damaged ones included."""

from __future__ import annotations

import copy
from random import Random
from typing import Any

import orjson
import pytest

from nemo_gym.mock_engine.drifting import ForgetfulTemplate
from nemo_gym.openai_utils import NeMoGymResponse
from nemo_gym.tokens.masking import MaskCounters
from nemo_gym.tokens.reasons import MaskReason, SegmentReason
from nemo_gym.tokens.records import CONTRACT_FIELDS, RECORD_FIELD, CallRecord, TokenForm, read_record
from nemo_gym.tokens.rows import (
    as_trainers_read,
    calls_of,
    with_contract_fields,
    with_packed_tokens,
    with_sequence_settled,
)
from nemo_gym.tokens.segments import Segment, segments_of
from tests.tokens.checks import read_as_nemo_rl
from tests.tokens.conversations import Ground, converse


async def drifting_row(form: str = "contract") -> dict[str, Any]:
    """A rollout of several segments."""
    ground = Ground(template=ForgetfulTemplate(), odd_share=0.5, token_fields=form)
    for number in range(50):
        talk = await converse(ground, Random(number), str(number))
        if len(segments_of(calls_of(talk.row))) > 2:
            return talk.row
    raise AssertionError("no conversation drifted")


def segments(row: dict[str, Any]) -> list[Segment]:
    return segments_of(calls_of(row))


@pytest.mark.parametrize("form", list(TokenForm))
async def test_every_form_can_be_rewritten_as_every_other(form: str) -> None:
    row = await drifting_row(form)
    before = copy.deepcopy(row)
    packed, contract = with_packed_tokens(row), with_contract_fields(row)
    assert segments(packed) == segments(contract) == segments(row)
    assert with_packed_tokens(contract) == packed
    assert with_contract_fields(packed) == contract
    assert row == before
    assert not any(name in item for item in packed["response"]["output"] for name in CONTRACT_FIELDS)
    assert calls_of(orjson.loads(orjson.dumps(packed))) == calls_of(row)


async def test_trainers_read_the_first_segment_whatever_the_form() -> None:
    row = await drifting_row("packed")
    first = segments(row)[0]
    trained = read_as_nemo_rl(as_trainers_read(row))
    assert trained == [token for token, bit in zip(first.token_ids, first.loss_mask, strict=True) if bit]


async def test_a_settled_row_is_not_written_anew() -> None:
    ground = Ground()
    row = (await converse(ground, Random(3), "session")).row
    assert with_sequence_settled(row) is row
    assert as_trainers_read(row) is row


async def test_a_row_of_the_typed_models_keeps_its_records() -> None:
    """Agents of others validate every answer, and post it on."""
    for form in ("contract", "packed"):
        row = await drifting_row(form)
        answer = {"id": "r", "created_at": 0, "model": "m", "object": "response", **row["response"]}
        answer |= {"parallel_tool_calls": True, "tool_choice": "auto", "tools": []}
        typed = NeMoGymResponse.model_validate(answer)
        again = orjson.loads(typed.model_dump_json(exclude_unset=True))
        assert segments({"response": again}) == segments(row)


def foreign(*calls: tuple[list[int], list[int], list[Any]]) -> dict[str, Any]:
    return {"response": {"output": [dict(zip(CONTRACT_FIELDS, call, strict=True)) for call in calls]}}


def test_rows_of_other_gyms_are_linked_by_their_ids() -> None:
    row = foreign(
        ([1, 2], [3], [-0.5]),
        ([1, 2, 3, 4], [5], [-0.25]),
        ([1, 2, 3, 4, 6, 7], [8], [-1]),
    )
    first, second = segments(row)
    assert (first.token_ids, first.loss_mask) == ([1, 2, 3, 4, 5], [0, 0, 1, 0, 1])
    assert first.logprobs == [None, None, -0.5, None, -0.25]
    assert (second.token_ids, second.loss_mask) == ([1, 2, 3, 4, 6, 7, 8], [0, 0, 0, 0, 0, 0, 1])
    assert second.reason is SegmentReason.TEMPLATE_REWRITE
    assert read_as_nemo_rl(with_contract_fields(row)) == [3, 5]


@pytest.mark.parametrize(
    ("generated", "logprobs", "reason"),
    [
        ([3], [None], MaskReason.INVALID_LOGPROBS),
        ([3], [], MaskReason.MISSING_LOGPROBS),
        ([3, 4], [-1.0], MaskReason.SHORT_LOGPROBS),
        (["3"], [-1.0], MaskReason.INVALID_TOKEN_IDS),
    ],
)
def test_defects_in_rows_of_other_gyms_are_masked(
    generated: list[Any], logprobs: list[Any], reason: MaskReason
) -> None:
    row = foreign(([1, 2], generated, logprobs), ([1, 2, 3, 4], [5], [-0.25]))
    assert [record.masked for record in calls_of(row)] == [reason, None]
    assert [segment.sampled for segment in segments(row)] == [1]


@pytest.mark.parametrize(
    "row", [{}, {"response": None}, {"response": {"output": "x"}}, {"response": {"output": []}}]
)
def test_a_row_without_tokens_has_no_calls(row: dict[str, Any]) -> None:
    assert calls_of(row) == []
    assert with_contract_fields(row) == row
    assert MaskCounters().fraction == 0


async def damaged(**changes: Any) -> list[CallRecord]:
    """The calls of a packed row whose second record is changed."""
    row = await drifting_row("packed")
    items = [item for item in row["response"]["output"] if RECORD_FIELD in item]
    items[1][RECORD_FIELD] = {**items[1][RECORD_FIELD], **changes}
    return calls_of(row)


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
    ],
)
async def test_a_damaged_record_is_masked_and_what_builds_on_it_too(changes: dict[str, Any]) -> None:
    records = await damaged(**changes)
    assert records[1].masked is MaskReason.DAMAGED_RECORD
    assert records[0].masked is None
    assert all(record.masked in (None, MaskReason.MISSING_BASE) for record in records[2:])
    segments_of(records)


def test_a_record_that_is_no_object_is_damaged() -> None:
    values: list[Any] = ["x", 5, []]
    for value in values:
        record = read_record({RECORD_FIELD: value})
        assert record is not None
        assert record.masked is MaskReason.DAMAGED_RECORD


def test_segments_refuse_records_that_do_not_belong_together() -> None:
    ((record),) = calls_of(foreign(([1, 2], [3], [-0.5])))
    with pytest.raises(ValueError, match="damaged_record"):
        segments_of([CallRecord(sequence="0" * 16, tokens=record.tokens)])


# --- Counting ---------------------------------------------------------------------------------------------------


async def test_masked_calls_are_counted_by_reason_and_in_every_form() -> None:
    tally = MaskCounters()
    for form in TokenForm:
        ground = Ground(token_fields=form, engine={"faults": [{"do": "logprob_nan", "nth": 1}]})
        row = (await converse(ground, Random(3), "session")).row
        assert [record.masked for record in calls_of(row) if record.masked] == ["invalid_logprobs"]
        tally.add(row)
    assert tally.masked == {"invalid_logprobs": 3}
    calls = tally.calls
    tally.add(foreign(([1, 2], [3], [-0.5])))
    tally.add({"response": {"output": [{RECORD_FIELD: {"policy_version": 3}}, {"type": "message"}]}})
    assert tally.calls == calls + 1


def test_a_run_with_too_many_masked_calls_says_which_and_what_to_do() -> None:
    tally = MaskCounters()
    assert tally.excess(0.0) is None
    masked = {RECORD_FIELD: {"call": 0, "masked": "raw_logprobs"}}
    good = {RECORD_FIELD: {"call": 0, "sequence": "x"}}
    tally.add({"response": {"output": [masked, *[good] * 9]}})
    assert tally.fraction == 0.1
    assert tally.excess(0.1) is None
    message = tally.excess(0.05)
    assert message is not None
    assert "1 of 10 model calls (10.0%)" in message
    assert "raw_logprobs 1" in message
    assert "--logprobs-mode processed_logprobs" in tally.remedy
