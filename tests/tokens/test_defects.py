"""Each defect of an engine, planted in the third of five turns, ends as a mask or a segment, and never as zeros."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

from nemo_gym.mock_engine import ModelReply, ToolCall
from nemo_gym.mock_engine._template import ChatTemplate, MarkTemplate
from nemo_gym.mock_engine.drifting import ForgetfulTemplate, RespacingTemplate
from nemo_gym.rows.calls import read_calls
from nemo_gym.tokens.reasons import MaskReason, SegmentReason
from nemo_gym.tokens.records import CONTRACT_FIELDS
from tests.tokens.checks import check_exact, read_as_nemo_rl
from tests.tokens.conversations import Conversation, Ground

TURNS = 5
BAD = 2


class Talker:
    """Four turns with a call each, and a last one without."""

    def reply(self, conversation: Any, tools: Any, rng: Random) -> ModelReply:
        turn = sum(message["role"] == "assistant" for message in conversation)
        thought = f"In turn {turn} I think before I act."
        if turn == TURNS - 1:
            return ModelReply("That is all.", thought)
        return ModelReply("", thought, (ToolCall("search", '{"q":"snow","n":1}'),))


async def five_turns(ground: Ground) -> Conversation:
    talk, rng = Conversation(ground, "session"), Random(0)
    for _ in range(TURNS):
        talk.answer_tools(await talk.ask(), rng)
    return talk


@pytest.mark.parametrize("form", ["contract", "packed", "lists"])
@pytest.mark.parametrize(
    ("fault", "reason"),
    [
        ("tokens_missing", MaskReason.MISSING_TOKEN_IDS),
        ("logprobs_short_by_one", MaskReason.SHORT_LOGPROBS),
        ("end_token_missing", MaskReason.SHORT_TOKEN_IDS),
        ("logprob_nan", MaskReason.INVALID_LOGPROBS),  # null on the wire
        ("logprob_missing", MaskReason.INVALID_LOGPROBS),
        ("ids_conflict", MaskReason.CONFLICTING_TOKEN_IDS),
    ],
)
async def test_a_spoilt_call_is_masked_and_stays_context(fault: str, reason: MaskReason, form: str) -> None:
    ground = Ground(policy=Talker(), token_fields=form, engine={"faults": [{"do": fault, "nth": BAD + 1}]})
    talk = await five_turns(ground)
    records = read_calls(talk.row)
    assert [record.masked for record in records] == [reason if turn == BAD else None for turn in range(TURNS)]
    assert records[BAD].tokens is None
    (segment,) = check_exact(talk.row, talk.truths)
    assert segment.calls == (0, 1, 3, 4)
    spoilt = talk.truths[BAD]
    start, end = len(spoilt.prompt_ids), len(spoilt.prompt_ids + spoilt.generated_ids)
    assert segment.token_ids[start:end] == spoilt.generated_ids
    assert segment.loss_mask[start:end] == [0] * (end - start)
    assert 0.0 not in segment.logprobs
    assert read_as_nemo_rl(talk.row) == (
        [token for turn in (0, 1, 3, 4) for token in talk.truths[turn].generated_ids]
        if form == "contract"
        else []
    )


@pytest.mark.parametrize("fault", ["tokens_missing", "logprob_nan"])
async def test_a_rollout_of_spoilt_calls_alone_has_no_segment(fault: str) -> None:
    talk = await five_turns(Ground(policy=Talker(), engine={"faults": [{"do": fault}]}))
    assert check_exact(talk.row, talk.truths) == []
    assert not any(name in item for item in talk.output for name in CONTRACT_FIELDS)


async def test_a_first_call_that_is_spoilt_takes_nothing_from_the_rest() -> None:
    talk = await five_turns(Ground(policy=Talker(), engine={"faults": [{"do": "logprob_nan", "nth": 1}]}))
    (segment,) = check_exact(talk.row, talk.truths)
    assert (segment.calls, segment.reason) == ((1, 2, 3, 4), None)
    assert len(read_as_nemo_rl(talk.row)) == segment.sampled


class FromTurn(MarkTemplate):
    """Another template from a turn on."""

    def __init__(self, turn: int, then: ChatTemplate) -> None:
        self.turn, self.then = turn, then

    def prompt(self, messages: Any, tools: Any, *, opens_reply: bool = True) -> str:
        turns = sum(message["role"] == "assistant" for message in messages)
        template = self.then if turns >= self.turn else MarkTemplate()
        return template.prompt(messages, tools, opens_reply=opens_reply)


class NeverThinks(ForgetfulTemplate):
    """Drops all reasoning, as if the user had spoken after every turn."""

    def prompt(self, messages: Any, tools: Any, *, opens_reply: bool = True) -> str:
        bare = [
            {key: message[key] for key in message if not key.startswith("reasoning")} for message in messages
        ]
        return MarkTemplate().prompt(bare, tools, opens_reply=opens_reply)


@pytest.mark.parametrize("form", ["contract", "packed"])
@pytest.mark.parametrize(
    ("template", "reason"),
    [
        (NeverThinks(), SegmentReason.REASONING_DROPPED),
        (RespacingTemplate(), SegmentReason.TEMPLATE_REWRITE),
    ],
)
async def test_a_drift_begins_a_segment_at_its_turn(
    template: ChatTemplate, reason: SegmentReason, form: str
) -> None:
    talk = await five_turns(Ground(policy=Talker(), template=FromTurn(BAD, template), token_fields=form))
    segments = check_exact(talk.row, talk.truths)
    assert segments[0].reason is None
    assert segments[0].calls == (0, 1)
    # The template goes on to rewrite each answer, so that each further turn is a segment of its own.
    assert [(segment.reason, segment.calls) for segment in segments[1:]] == [
        (reason, (turn,)) for turn in (2, 3, 4)
    ]
    trained = read_as_nemo_rl(talk.row)
    assert trained == (
        [token for turn in (0, 1) for token in talk.truths[turn].generated_ids] if form == "contract" else []
    )


async def test_the_same_text_as_other_tokens_is_retokenized() -> None:
    ground = Ground(policy=Talker())
    talk, rng = Conversation(ground, "session"), Random(0)
    for turn in range(TURNS):
        ground.engine._odd_share = float(turn == BAD)
        talk.answer_tools(await talk.ask(), rng)
    segments = check_exact(talk.row, talk.truths)
    assert [(segment.reason, segment.calls) for segment in segments] == [
        (None, (0, 1, BAD)),
        (SegmentReason.RETOKENIZED, (3, 4)),
    ]


@pytest.mark.parametrize(
    ("sampling", "mode", "reason"),
    [
        ({"temperature": 0.7}, "raw", MaskReason.RAW_LOGPROBS),
        ({"top_p": 0.9}, "raw", MaskReason.RAW_LOGPROBS),
        ({"temperature": 1.0, "top_p": 1.0}, "raw", None),
        ({}, "raw", None),
        ({"temperature": 0.7, "top_p": 0.9}, "processed", None),
    ],
)
async def test_raw_logprobs_are_masked_where_sampling_changed_them(
    sampling: dict[str, Any], mode: str, reason: MaskReason | None
) -> None:
    ground = Ground(policy=Talker(), engine={"logprobs_mode": mode})
    assert (await ground.server.preflight())["training"]["logprobs_mode"] == mode
    talk = Conversation(ground, "session")
    await talk.ask(**sampling)
    (record,) = read_calls(talk.row)
    assert record.masked is reason
