"""Training traces of OpenEnv: the tokens of calls, and their masks."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from nemo_gym.rows.calls import read_calls, read_whole_calls
from nemo_gym.rows.keys import FORK_KEY
from tests.export.rows import exported, fork_rows, row, token_rows


def find_turns(written: list[dict[str, Any]]) -> dict[tuple[str, int], list[dict[str, Any]]]:
    """Return the turns of each trace by the task and the repeat of their rollout."""
    about = [trace["turns"][0]["metadata"] for trace in written]
    return {
        (each["group"], each["repeat"]): trace["turns"] for each, trace in zip(about, written, strict=True)
    }


async def test_a_turn_has_the_tokens_of_its_call(tmp_path: Path) -> None:
    rows = await token_rows(4, 2, odd_share=0.4)
    written, report = exported(tmp_path, "openenv", rows)
    assert len(written) == report.exported == len(rows)
    found = find_turns(written)
    for each in rows:
        turns = found[str(each["_ng_task_index"]), each["_ng_rollout_index"]]
        for turn, call in zip(turns, read_whole_calls(each), strict=True):
            tokens = call.record.tokens
            assert tokens is not None
            assert (turn["prompt_token_ids"], turn["completion_token_ids"]) == (call.prompt, tokens.generated)
            assert turn["per_token_logps"] == tokens.logprobs
            assert turn["loss_mask"] == [0] * len(call.prompt) + [1] * len(tokens.generated)
            assert turn["metadata"]["reward"] == each["reward"]


def test_calls_that_a_fork_shares_are_context(tmp_path: Path) -> None:
    rows = fork_rows()
    forks = [each for each in rows if FORK_KEY in each]
    written, _ = exported(tmp_path, "openenv", forks)
    assert written
    shared = sum(call.untrained is not None for call in read_calls(forks[0]))
    masks = [any(turn["loss_mask"]) for turn in written[0]["turns"]]
    assert masks == [False] * shared + [True] * (len(masks) - shared)
    assert shared


def test_a_rollout_without_tokens_is_left_out(tmp_path: Path) -> None:
    written, report = exported(tmp_path, "openenv", [row()])
    assert written == []
    assert sum(report.left_out.values()) == 1
