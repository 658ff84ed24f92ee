"""Traces of verifiers as rows: conversations, tokens, rewards, and the members without a place."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from nemo_gym.failures import ConfigError
from nemo_gym.rollouts.lookback.trajectories import holds_trajectories, read_rows
from nemo_gym.rows.calls import read_calls
from nemo_gym.sources.verifiers_traces import find_traces, list_task_names, read_trace
from nemo_gym.tokens.segments import build_segments
from tests.export.rows import exported, token_rows

CALL = {"id": "call_1", "type": "function", "name": "look", "arguments": '{"at": 1}'}
NODES: list[dict[str, Any]] = [
    {
        "tools": [{"type": "function", "name": "look", "description": "", "parameters": {}}],
        "message": {"role": "system", "content": "Be brief."},
        "token_ids": [1, 2],
        "mask": [False, False],
    },
    {
        "parent": 0,
        "message": {"role": "user", "content": "Look."},
        "token_ids": [3],
        "mask": [False],
    },
    {
        "parent": 1,
        "message": {"role": "assistant", "reasoning_content": "Hm.", "tool_calls": [CALL]},
        "sampled": True,
        "token_ids": [4, 5, 6],
        "mask": [False, True, True],
        "logprobs": [-0.5, -0.25],
    },
    {
        "parent": 2,
        "message": {"role": "tool", "tool_call_id": "call_1", "content": "a cat"},
        "token_ids": [7],
        "mask": [False],
    },
    {
        "parent": 3,
        "message": {"role": "assistant", "content": "A cat."},
        "sampled": True,
        "token_ids": [8],
        "mask": [True],
        "logprobs": [-1.0],
    },
]


def build_trace(nodes: list[dict[str, Any]] | None = None, **members: Any) -> dict[str, Any]:
    return {
        "version": 1,
        "id": "t1",
        "task": {"type": "Look", "key": "k", "data": {"idx": 3}},
        "agent": {"name": "looker", "config": {}},
        "nodes": NODES if nodes is None else nodes,
        "calls": [{"node": 2, "model": "m"}],
        "rewards": {"seen": {"score": 1.0, "weight": 0.5}, "short": {"score": 0.25}},
        "ok": True,
        **members,
    }


def test_a_trace_is_a_conversation_with_its_tokens() -> None:
    read = read_trace(build_trace(), "file:1")
    row = read.row
    assert [item["role"] for item in row["responses_create_params"]["input"]] == ["system", "user"]
    assert row["responses_create_params"]["tools"][0]["name"] == "look"
    kinds = [item["type"] for item in row["response"]["output"]]
    assert kinds == ["reasoning", "function_call", "function_call_output", "message"]
    assert row["response"]["output"][-1]["content"][0]["text"] == "A cat."
    assert row["response"]["model"] == "m"
    assert row["reward"] == 0.75
    tokens = [call.tokens for call in read_calls(row)]
    assert [each and (each.prompt, each.generated, each.logprobs) for each in tokens] == [
        ([1, 2, 3, 4], [5, 6], [-0.5, -0.25]),
        ([7], [8], [-1.0]),
    ]
    (about,) = (value for value in row.values() if isinstance(value, dict) and "tokens" in value)
    assert about == {"format": "verifiers-1", "agent": "looker", "tokens": "whole", "trajectory": "t1"}
    assert not read.lost


def test_a_call_without_whole_tokens_has_none() -> None:
    short = [*NODES[:-1], {**NODES[-1], "logprobs": []}]
    rows = [read_trace(build_trace(nodes), "file").row for nodes in (short, [*map(drop_tokens, NODES)])]
    assert [describe(row) for row in rows] == ["partial", "none"]


def drop_tokens(node: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in node.items() if name not in ("token_ids", "mask", "logprobs")}


def describe(row: dict[str, Any]) -> str:
    (about,) = (value for value in row.values() if isinstance(value, dict) and "tokens" in value)
    return str(about["tokens"])


def test_the_path_to_the_last_message_is_read_and_others_are_told() -> None:
    branch = {
        "parent": 1,
        "message": {"role": "assistant", "content": "Again."},
        "sampled": True,
        "advantages": [1.0],
    }
    read = read_trace(build_trace([*NODES, branch], metrics={"length": 1}, errors=[]), "file")
    assert [item["type"] for item in read.row["response"]["output"]] == ["message"]
    assert dict(read.lost) == {"metrics": 1, "nodes of other branches": 3, "nodes.advantages": 1}


@pytest.mark.parametrize("members", [{"ok": False}, {"rewards": {}}, {"rewards": {"a": None}}])
def test_a_trace_without_a_reward_has_none(members: dict[str, Any]) -> None:
    assert "reward" not in read_trace(build_trace(**members), "file").row


@pytest.mark.parametrize(
    ("trace", "told"),
    [
        (build_trace(version=2), "version 2 is not 1"),
        (build_trace(NODES[:2]), "the policy wrote no message"),
        (build_trace([{**NODES[0], "parent": 7}]), "message 7 is no message"),
        (build_trace([{**NODES[0], "parent": 0}]), "is no message of the graph"),
        (build_trace([{"sampled": True}]), "KeyError"),
    ],
)
def test_a_trace_that_is_none_is_refused_by_its_place(trace: dict[str, Any], told: str) -> None:
    with pytest.raises(ConfigError, match=f"file:4 is no trace of verifiers: .*{told}"):
        read_trace(trace, "file:4")


def test_an_episode_has_the_traces_of_all_seats(tmp_path: Path) -> None:
    episode = {"id": "e", "traces": [build_trace(), build_trace(agent={"name": "other"})]}
    assert len(list(find_traces(episode))) == 2
    assert list(find_traces({"traces": "none"})) == []
    assert list_task_names(build_trace()) == ["k", "3"]
    path = tmp_path / "traces.jsonl"
    path.write_text(json.dumps(episode) + "\n" + json.dumps(build_trace()) + "\n")
    assert holds_trajectories(path)
    found = read_rows(path)
    assert [(row["_ng_task_index"], row["_ng_rollout_index"]) for row in found.rows] == [
        (0, 0),
        (0, 1),
        (0, 2),
    ]
    assert found.describe() == "3 trajectories: 0 of this gym, 3 of other programs"


async def test_traces_that_this_gym_wrote_have_the_same_tokens(tmp_path: Path) -> None:
    rows = await token_rows(4, 2, "steady")
    written, _ = exported(tmp_path, "prime_rl", rows, options={"form": "traces"})
    read = {trace["id"]: read_trace(trace, "file").row for episode in written for trace in episode["traces"]}
    for row in rows:
        again = read[f"{row['_ng_task_index']}-{row['_ng_rollout_index']}"]
        assert again["reward"] == row["reward"]
        trained = [
            [
                (segment.token_ids, segment.loss_mask, segment.logprobs)
                for segment in build_segments(read_calls(each))
            ]
            for each in (again, row)
        ]
        assert trained[0] == trained[1]
