"""Rows in every form say the same, foreign and damaged ones included."""

from __future__ import annotations

import copy
from random import Random
from typing import Any

import orjson
import pytest

from nemo_gym.openai_utils import NeMoGymResponse
from nemo_gym.rows.calls import (
    convert_for_trainers,
    fill_contract_fields,
    mark_shared_calls,
    pack_tokens,
    read_calls,
    read_versions,
    read_whole_calls,
    settle_sequence,
    token_ids_in,
)
from nemo_gym.rows.masking import MaskCounters
from nemo_gym.tokens.reasons import MaskReason, SegmentReason
from nemo_gym.tokens.records import CONTRACT_FIELDS, CallRecord, TokenForm
from nemo_gym.tokens.segments import Segment, build_segments
from tests.tokens.checks import read_as_nemo_rl
from tests.tokens.conversations import Ground, converse
from tests.tokens.token_rows import drifting_row, foreign


def segments(row: dict[str, Any]) -> list[Segment]:
    return build_segments(read_calls(row))


@pytest.mark.parametrize("form", list(TokenForm))
async def test_every_form_can_be_rewritten_as_every_other(form: str) -> None:
    row = await drifting_row(form)
    before = copy.deepcopy(row)
    packed, contract = pack_tokens(row), fill_contract_fields(row)
    assert segments(packed) == segments(contract) == segments(row)
    assert pack_tokens(contract) == packed
    assert fill_contract_fields(packed) == contract
    assert row == before
    assert not any(name in item for item in packed["response"]["output"] for name in CONTRACT_FIELDS)
    assert read_calls(orjson.loads(orjson.dumps(packed))) == read_calls(row)


async def test_trainers_read_the_first_segment_whatever_the_form() -> None:
    row = await drifting_row("packed")
    first = segments(row)[0]
    trained = read_as_nemo_rl(convert_for_trainers(row))
    assert trained == [token for token, bit in zip(first.token_ids, first.loss_mask, strict=True) if bit]


async def test_a_settled_row_is_not_written_anew() -> None:
    ground = Ground()
    row = (await converse(ground, Random(3), "session")).row
    assert settle_sequence(row) is row
    assert convert_for_trainers(row) is row


async def test_a_row_of_the_typed_models_keeps_its_records() -> None:
    """Agents of others validate every answer, and post it on."""
    for form in ("contract", "packed"):
        row = await drifting_row(form)
        answer = {"id": "r", "created_at": 0, "model": "m", "object": "response", **row["response"]}
        answer |= {"parallel_tool_calls": True, "tool_choice": "auto", "tools": []}
        typed = NeMoGymResponse.model_validate(answer)
        again = orjson.loads(typed.model_dump_json(exclude_unset=True))
        assert segments({"response": again}) == segments(row)


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
    assert read_as_nemo_rl(fill_contract_fields(row)) == [3, 5]


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
    assert [record.masked for record in read_calls(row)] == [reason, None]
    assert [segment.sampled for segment in segments(row)] == [1]


@pytest.mark.parametrize(
    "row", [{}, {"response": None}, {"response": {"output": "x"}}, {"response": {"output": []}}]
)
def test_a_row_without_tokens_has_no_calls(row: dict[str, Any]) -> None:
    assert read_calls(row) == []
    assert fill_contract_fields(row) == row
    assert MaskCounters().fraction == 0


def test_segments_refuse_records_that_do_not_belong_together() -> None:
    ((record),) = read_calls(foreign(([1, 2], [3], [-0.5])))
    with pytest.raises(ValueError, match="damaged_record"):
        build_segments([CallRecord(sequence="0" * 16, tokens=record.tokens)])


@pytest.mark.parametrize("form", list(TokenForm))
async def test_each_call_of_a_row_has_its_whole_prompt(form: str) -> None:
    row = await drifting_row(form)
    whole = read_whole_calls(row)
    assert [call.record for call in whole] == [
        record for record in read_calls(row) if record.tokens is not None
    ]
    contexts = {
        tuple(segment.token_ids[:size]) for segment in segments(row) for size in range(len(segment.token_ids))
    }
    assert {tuple(call.prompt) for call in whole} <= contexts
    sampled = {token for call in whole if call.record.tokens for token in call.record.tokens.generated}
    assert token_ids_in(orjson.dumps(row)) == sampled.union(*(call.prompt for call in whole))


@pytest.mark.parametrize("form", list(TokenForm))
async def test_the_calls_that_a_fork_shares_with_its_parent_are_context(form: str) -> None:
    row = await drifting_row(form)
    before = copy.deepcopy(row)
    marked = mark_shared_calls(row, 1)
    trained = [sum(sum(segment.loss_mask) for segment in segments(each)) for each in (row, marked)]
    first = read_whole_calls(row)[0].record.tokens
    assert first is not None
    assert trained[0] - trained[1] == len(first.generated)
    assert mark_shared_calls(row, 0) == row == before


def test_the_versions_of_a_row_are_its_oldest_and_newest() -> None:
    records: list[dict[str, Any]] = [
        {"policy_version": 3, "versions": [[0, 2], [5, 4]]},
        {"policy_version": 3, "policy_version_end": 5},
        {"policy_version": "newest"},
    ]
    output = [{"type": "message", "_ng_tokens": record} for record in records]
    assert read_versions({"response": {"output": output}}) == (2, 5)
    assert read_versions({"response": {"output": output[2:]}}) is None
