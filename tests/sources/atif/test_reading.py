"""Trajectories of other programs are rows with a mark, and only whole tokens are tokens of a row."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from nemo_gym.failures import ConfigError
from nemo_gym.rows.calls import read_calls
from nemo_gym.rows.verdict import is_foreign, may_train, read_reward
from nemo_gym.sources.atif.media import MediaFolder
from nemo_gym.sources.atif.reading import read_trajectory
from nemo_gym.sources.atif.writing import write_trajectory
from tests.export.rows import row

METRICS = {"prompt_token_ids": [1, 2], "completion_token_ids": [3, 4], "logprobs": [-0.5, -0.25]}


def trajectory(*steps: dict[str, Any], **fields: Any) -> dict[str, Any]:
    numbered = [{"step_id": number, **step} for number, step in enumerate(steps, 1)]
    return {
        "schema_version": "ATIF-v1.6",
        "session_id": "s",
        "agent": {"name": "other", "version": "2"},
        "steps": numbered,
        **fields,
    }


def asks(text: str = "Hello") -> dict[str, Any]:
    return {"source": "user", "message": text}


def answers(text: str = "Hi", **fields: Any) -> dict[str, Any]:
    return {"source": "agent", "message": text, **fields}


CALL = {"tool_call_id": "c", "function_name": "bash", "arguments": {"command": "ls"}}


def test_the_steps_before_the_agent_are_the_request_and_the_others_the_response() -> None:
    called = answers(
        "",
        reasoning_content="I look",
        tool_calls=[CALL],
        observation={"results": [{"source_call_id": "c", "content": "files"}]},
    )
    given = trajectory(
        {"source": "system", "message": "Be short."}, asks(), called, asks("And?"), answers("Done")
    )
    found = read_trajectory(given, "here", reward=0.5)
    assert not found.is_ours
    params, items = found.row["responses_create_params"], found.row["response"]["output"]
    assert params == {
        "input": [{"role": "system", "content": "Be short."}, {"role": "user", "content": "Hello"}]
    }
    kinds = [item.get("type", item.get("role")) for item in items]
    assert kinds == ["reasoning", "function_call", "function_call_output", "user", "message"]
    assert items[1]["arguments"] == '{"command": "ls"}'
    assert read_reward(found.row) == 0.5
    assert found.row["agent_ref"]["name"] == "other"


@pytest.mark.parametrize(
    ("metrics", "tokens"),
    [
        ([METRICS, METRICS], "whole"),
        ([METRICS, {}], "partial"),
        ([{}, {"prompt_tokens": 3}], "none"),
        ([{**METRICS, "logprobs": None}] * 2, "none"),
        ([{**METRICS, "logprobs": [-0.5]}] * 2, "none"),
        ([{**METRICS, "logprobs": [-0.5, float("nan")]}] * 2, "none"),
        ([{**METRICS, "completion_token_ids": [3, -4]}] * 2, "none"),
        ([{**METRICS, "prompt_token_ids": []}] * 2, "none"),
    ],
)
def test_only_a_row_whose_calls_all_have_their_tokens_may_train(
    metrics: list[dict[str, Any]], tokens: str
) -> None:
    steps = [answers(metrics=each or None) for each in metrics]
    found = read_trajectory(trajectory(asks(), *steps), "here").row
    assert is_foreign(found)
    assert found["_ng_foreign"] == {
        "format": "ATIF-v1.6",
        "agent": "other",
        "agent_version": "2",
        "tokens": tokens,
        "trajectory": "s",
    }
    assert may_train(found) is (tokens == "whole")
    assert len(read_calls(found)) == {"whole": 2, "partial": 1, "none": 0}[tokens]


def test_several_calls_in_a_step_are_no_whole_tokens_and_a_step_without_one_needs_none() -> None:
    several = read_trajectory(trajectory(asks(), answers(metrics=METRICS, llm_call_count=2)), "here")
    assert not may_train(several.row)
    none = answers(tool_calls=[CALL], llm_call_count=0)
    copied = answers("earlier", is_copied_context=True)
    found = read_trajectory(trajectory(copied, asks(), none, answers(metrics=METRICS)), "here").row
    assert may_train(found)
    assert len(found["responses_create_params"]["input"]) == 2


def test_whatever_a_row_has_no_place_for_is_counted() -> None:
    first = answers(timestamp="2026-01-01T00:00:00Z", extra={"a": 1}, metrics={**METRICS, "cost_usd": 0.1})
    given = trajectory(asks(), first, notes="a note", extra={"job": 1, "reward": 1})
    found = read_trajectory(given, "here")
    assert found.lost == {
        "steps.timestamp": 1,
        "steps.extra": 1,
        "metrics.cost_usd": 1,
        "notes": 1,
        "extra.job": 1,
    }
    assert read_reward(found.row) == 1.0


def test_a_trajectory_of_ours_that_was_changed_is_foreign() -> None:
    given = write_trajectory(row(reward=0.0)).content
    assert read_trajectory(given, "here").is_ours
    given["steps"][1]["message"] = "another answer"
    found = read_trajectory(given, "here")
    assert not found.is_ours
    assert not may_train(found.row)
    given["extra"]["nemo_gym"].pop("digest")
    assert not read_trajectory(given, "here").is_ours


def test_media_of_the_folder_are_read_and_no_others(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a.png").write_bytes(b"inside")
    (tmp_path / "secret.png").write_bytes(b"outside")
    sources = [
        {"media_type": "image/png", "path": path} for path in ("a.png", "../secret.png", "/etc/passwd")
    ]
    parts = [{"type": "image", "source": source} for source in sources]
    found = read_trajectory(
        trajectory({"source": "user", "message": parts}, answers()), "here", MediaFolder(tmp_path / "in")
    )
    urls = [part["image_url"] for part in found.row["responses_create_params"]["input"][0]["content"]]
    assert urls == ["data:image/png;base64,aW5zaWRl", "../secret.png", "/etc/passwd"]


def test_all_faults_of_an_invalid_trajectory_are_named() -> None:
    wrong = trajectory(asks(), {"source": "robot", "message": "x"}, answers(step=1))
    with pytest.raises(ConfigError, match=r"steps\.1\.source.*steps\.2\.step"):
        read_trajectory(wrong, "file.json")
