"""Tokens sampled under a grammar: every export of tokens marks them, and can leave them out of the loss."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from nemo_gym.export._token_options import TokenOptions
from nemo_gym.export.formats import NAMES, find_format
from nemo_gym.export.report import LeftOut, Loss
from nemo_gym.rows.calls import read_calls
from nemo_gym.tokens.records import RECORD_FIELD
from nemo_gym.tokens.segments import build_segments
from tests.export.rows import exported, token_rows

FORMS = {
    "grpo": {},
    "sft": {"form": "tokens"},
    "nemo_rl": {},
    "agent_tunix": {"form": "trajectories"},
    "prime_rl": {"form": "traces"},
    "openenv": {},
}


class Written(NamedTuple):
    """The figures of one exported rollout that all formats have in common."""

    trained: int
    """Tokens in the loss."""
    marked: int
    """Tokens marked as sampled under a grammar."""


def of_grpo(row: dict[str, Any]) -> Written:
    segments = row["segments"]
    return Written(sum(sum(s["loss_mask"]) for s in segments), sum(sum(s["grammar_mask"]) for s in segments))


def of_sft(row: dict[str, Any]) -> Written:
    return Written(sum(label != -100 for label in row["labels"]), sum(row["grammar_mask"]))


def of_nemo_rl(row: dict[str, Any]) -> Written:
    items = row["response"]["output"]
    trained = sum(len(item.get("generation_token_ids", ())) for item in items)
    return Written(trained, sum(len(call.tokens.generated) for call in forced_calls(row)))


def of_agent_tunix(row: dict[str, Any]) -> Written:
    return Written(sum(row["conversation_masks"]), sum(row["grammar_masks"]))


def of_prime_rl(row: dict[str, Any]) -> Written:
    nodes = row["traces"][0]["nodes"]
    assert all(sum(node.get("mask", ())) == len(node.get("logprobs", ())) for node in nodes)
    return Written(
        sum(sum(node.get("mask", ())) for node in nodes),
        sum(sum(node.get("grammar_mask", ())) for node in nodes),
    )


def of_openenv(row: dict[str, Any]) -> Written:
    turns = row["turns"]
    marked = (turn for turn in turns if turn["metadata"]["grammar"])
    trained = sum(sum(turn["loss_mask"]) for turn in turns)
    return Written(trained, sum(len(turn["completion_token_ids"]) for turn in marked))


READERS = {name: globals()[f"of_{name}"] for name in FORMS}


def forced_calls(row: dict[str, Any]) -> Iterator[Any]:
    return (call for call in read_calls(row) if call.is_under_grammar)


async def rollouts(*, forced: set[int] | None = None) -> list[dict[str, Any]]:
    """Two rollouts of one task with several calls; those numbered in `forced`, or all, are under a grammar."""
    rows = [row for row in await token_rows(8, 2) if len(read_calls(row)) >= 2][:2]
    for repeat, row in enumerate(rows):
        row |= {"_ng_task_index": 0, "_ng_rollout_index": repeat, "reward": float(repeat)}
        items = [item for item in row["response"]["output"] if RECORD_FIELD in item]
        for number, item in enumerate(items):
            if forced is None or number in forced:
                item[RECORD_FIELD]["sampling"] = {"temperature": 1.0, "grammar": True}
    assert len(rows) == 2
    return rows


def sampled(row: dict[str, Any]) -> tuple[int, int]:
    """Tokens sampled in all calls, and in those under a grammar."""
    every = [call for call in read_calls(row) if call.tokens is not None]
    return (
        sum(len(call.tokens.generated) for call in every if call.tokens),
        sum(len(call.tokens.generated) for call in every if call.tokens and call.is_under_grammar),
    )


def test_every_format_with_tokens_has_the_option() -> None:
    with_option = {name for name in NAMES if issubclass(find_format(name).options_type, TokenOptions)}
    with_tokens = {name for name in NAMES if Loss.MASKED_CALLS in find_format(name).losses}
    assert with_option == with_tokens == set(FORMS)


@pytest.mark.parametrize("name", FORMS)
@pytest.mark.parametrize("forced", [{0}, {1}])
async def test_tokens_under_a_grammar_are_marked_and_can_be_left_out(
    tmp_path: Path, name: str, forced: set[int]
) -> None:
    rows = await rollouts(forced=forced)
    whole, under_grammar = map(sum, zip(*map(sampled, rows), strict=True))
    assert 0 < under_grammar < whole
    for mode, expected, lossy in (("train", whole, 2), ("context", whole - under_grammar, 0)):
        options = {**FORMS[name], "grammar_tokens": mode}
        written, report = exported(tmp_path, name, rows, options=options, min_reward=0.0)
        counts = [READERS[name](row) for row in written]
        assert sum(count.trained for count in counts) == expected
        assert report.losses[Loss.GRAMMAR_TOKENS] == lossy
        if name == "agent_tunix" and mode == "context" and forced == {0}:
            continue  # its first call is then part of the prompt, which has no marks
        assert sum(count.marked for count in counts) == under_grammar


@pytest.mark.parametrize("name", FORMS)
async def test_rollouts_wholly_under_a_grammar_are_left_out_with_their_reason(
    tmp_path: Path, name: str
) -> None:
    rows = await rollouts()
    written, report = exported(
        tmp_path, name, rows, options={**FORMS[name], "grammar_tokens": "context"}, min_reward=0.0
    )
    assert (written, report.left_out) == ([], {LeftOut.GRAMMAR: 2})


async def test_what_is_left_out_stays_context_of_one_sequence() -> None:
    (row, _) = await rollouts(forced={0})
    (segment,) = build_segments(read_calls(row))
    kept = segment.mask_grammar()
    assert (kept.token_ids, kept.logprobs, kept.grammar_mask) == (
        segment.token_ids,
        segment.logprobs,
        segment.grammar_mask,
    )
    assert [a - b for a, b in zip(segment.loss_mask, kept.loss_mask, strict=True)] == segment.grammar_mask
