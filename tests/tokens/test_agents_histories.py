"""An agent's change of the history is the reason of a segment, and no token is trained on twice."""

from __future__ import annotations

import json
from dataclasses import dataclass
from random import Random
from typing import Any

import pytest

from nemo_gym.mock_engine import ModelReply, ToolCall
from nemo_gym.rows.calls import convert_for_trainers, read_calls, settle_sequence
from nemo_gym.tokens.reasons import MaskReason, SegmentReason
from nemo_gym.tokens.segments import build_segments
from tests.tokens.checks import check_exact, read_as_nemo_rl
from tests.tokens.conversations import Conversation, Ground


class Caller:
    """Thinks, and calls a tool, always."""

    def reply(self, conversation: Any, tools: Any, rng: Random) -> ModelReply:
        thought = f"Thought {rng.randint(0, 10**9)} of many."
        return ModelReply(
            f"Number {rng.randint(0, 10**9)}.", thought, (ToolCall("search", '{"q":"x","n":2}'),)
        )


@pytest.fixture(params=["contract", "packed"])
def talk(request: pytest.FixtureRequest) -> Conversation:
    ground = Ground(policy=Caller(), token_fields=request.param)
    talk = Conversation(ground, "session")
    talk.history = [{"role": "system", "content": "Be brief."}, *talk.history]
    return talk


async def turns(talk: Conversation, count: int) -> None:
    rng = Random(0)
    for _ in range(count):
        talk.answer_tools(await talk.ask(), rng)


def reasons(talk: Conversation) -> list[tuple[SegmentReason | None, tuple[int, ...]]]:
    return [(segment.reason, segment.calls) for segment in check_exact(talk.row, talk.truths)]


async def test_a_shortened_tool_output_is_compaction(talk: Conversation) -> None:
    await turns(talk, 2)
    talk.history = [
        {**item, "output": "…"} if item.get("type") == "function_call_output" else item
        for item in talk.history
    ]
    await turns(talk, 2)
    assert reasons(talk) == [(None, (0, 1)), (SegmentReason.COMPACTED, (2, 3))]


async def test_a_summary_in_place_of_the_history_is_compaction(talk: Conversation) -> None:
    await turns(talk, 3)
    talk.history = [*talk.history[:2], {"role": "user", "content": "So far: nothing."}]
    await turns(talk, 1)
    assert reasons(talk) == [(None, (0, 1, 2)), (SegmentReason.COMPACTED, (3,))]


async def test_a_changed_word_is_an_edit(talk: Conversation) -> None:
    await turns(talk, 2)
    talk.history[1] = {"role": "user", "content": "Begin with something that is much longer than before."}
    await turns(talk, 1)
    # The question itself has changed: only the instructions are left in common.
    assert reasons(talk) == [(None, (0, 1)), (SegmentReason.BRANCH, (2,))]


async def test_a_changed_tool_output_is_an_edit(talk: Conversation) -> None:
    await turns(talk, 2)
    place = next(i for i, item in enumerate(talk.history) if item.get("type") == "function_call_output")
    talk.history[place] = {**talk.history[place], "output": talk.history[place]["output"] + " and more of it"}
    await turns(talk, 1)
    assert reasons(talk) == [(None, (0, 1)), (SegmentReason.EDITED, (2,))]


@pytest.mark.parametrize("spelling", [{"indent": 1}, {"sort_keys": True}, {"separators": (",", ":")}])
@pytest.mark.parametrize("options", [{"exact_prompts": True}, {"exact_prompts": False}], ids=str)
async def test_arguments_that_an_agent_writes_again_start_no_segment(
    spelling: dict[str, Any], options: dict[str, Any]
) -> None:
    called = (ToolCall("search", '{"q": "Z\\u00fcrich", "n":2, "at": 1.0}'),)
    ground = Ground(policy=Plain(ModelReply("One.", "", called)), **options)
    talk = Conversation(ground, "session")
    for _ in range(4):
        talk.answer_tools(await talk.ask(), Random(0))
        talk.history = [respelled(item, spelling) for item in talk.history]
    assert reasons(talk) == [(None, (0, 1, 2, 3))]


@dataclass
class Plain:
    """A policy with one answer."""

    answer: ModelReply

    def reply(self, conversation: Any, tools: Any, rng: Random) -> ModelReply:
        return self.answer


def respelled(item: dict[str, Any], spelling: dict[str, Any]) -> dict[str, Any]:
    """A function call as an agent sends it back that has parsed and dumped its arguments."""
    if item.get("type") != "function_call":
        return item
    return {**item, "arguments": json.dumps(json.loads(item["arguments"]), ensure_ascii=False, **spelling)}


async def test_reasoning_that_the_agent_leaves_out_is_reasoning_dropped(talk: Conversation) -> None:
    await turns(talk, 2)
    talk.history = [item for item in talk.history if item.get("type") != "reasoning"]
    await turns(talk, 1)
    assert reasons(talk) == [(None, (0, 1)), (SegmentReason.REASONING_DROPPED, (2,))]


async def test_a_second_sample_of_a_turn_is_a_branch_and_shares_no_token(talk: Conversation) -> None:
    await turns(talk, 1)
    before = talk.history
    await turns(talk, 1)
    talk.history = before
    await turns(talk, 2)
    assert reasons(talk) == [(None, (0, 1)), (SegmentReason.BRANCH, (2, 3))]


async def test_a_sample_that_the_agent_throws_away_costs_no_training_data(talk: Conversation) -> None:
    await talk.ask(keep=False)
    await turns(talk, 2)
    assert [calls for _, calls in reasons(talk)] == [(0, 1)]
    sampled = [token for truth in talk.truths for token in truth.generated_ids]
    assert read_as_nemo_rl(convert_for_trainers(talk.row)) == sampled
    settled = read_as_nemo_rl(settle_sequence(talk.row))
    assert settled == (sampled if talk.ground.server.config.token_fields == "contract" else [])


async def test_other_conversations_of_the_session_do_not_disturb(talk: Conversation) -> None:
    """A simulated user on the same model server, whose calls the row doesn't hold."""
    other = Conversation(talk.ground, "session")
    other.history = [
        {"role": "system", "content": "You are the user."},
        {"role": "user", "content": "Hello?"},
    ]
    await turns(other, 1)
    await turns(talk, 1)
    await turns(other, 1)
    await turns(talk, 1)
    assert reasons(talk) == [(None, (0, 1))]
    sampled = [token for truth in talk.truths for token in truth.generated_ids]
    assert read_as_nemo_rl(convert_for_trainers(talk.row)) == sampled
    if talk.ground.server.config.token_fields == "contract":
        assert read_as_nemo_rl(talk.row) == sampled


async def test_two_conversations_in_one_row_are_one_sequence_for_trainers(talk: Conversation) -> None:
    other = Conversation(talk.ground, "session")
    other.history = [{"role": "user", "content": "Something else altogether."}]
    await turns(talk, 1)
    await turns(other, 1)
    talk.output += other.output
    talk.truths += other.truths
    assert [calls for _, calls in reasons(talk)] == [(0,), (1,)]
    assert read_as_nemo_rl(convert_for_trainers(talk.row)) == talk.truths[0].generated_ids


async def test_a_hidden_call_that_the_row_builds_on_masks_what_follows(talk: Conversation) -> None:
    await turns(talk, 1)
    response = await talk.ask(keep=False)
    talk.history = [*talk.history, *({**item} for item in response["output"])]
    for item in response["output"]:
        if item["type"] == "function_call":
            output = {"type": "function_call_output", "call_id": item["call_id"], "output": "3"}
            talk.history = [*talk.history, output]
    await turns(talk, 1)
    records = read_calls(talk.row)
    if talk.ground.server.config.token_fields == "contract":  # which holds the whole prompt
        assert [segment.sampled for segment in build_segments(records)]
        assert not any(record.masked for record in records)
    else:
        assert [record.masked for record in records] == [None, MaskReason.MISSING_BASE]


async def test_a_session_that_had_to_be_forgotten_begins_anew() -> None:
    ground = Ground(policy=Caller(), linkage_room_mb=0.0001)  # 25 ids
    first, second = Conversation(ground, "one"), Conversation(ground, "two")
    await turns(first, 1)
    await turns(second, 1)
    await turns(first, 1)
    assert reasons(first) == [(None, (0,)), (SegmentReason.UNLINKED, (1,))]


async def test_a_model_server_that_restarted_mixes_nothing_up() -> None:
    before, after = (
        Ground(policy=Caller(), token_fields="packed"),
        Ground(policy=Caller(), token_fields="packed"),
    )
    talk = Conversation(before, "session")
    await turns(talk, 2)
    talk.ground = after
    await turns(talk, 2)
    assert reasons(talk) == [(None, (0, 1)), (SegmentReason.UNLINKED, (2, 3))]
