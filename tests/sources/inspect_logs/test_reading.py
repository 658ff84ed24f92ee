"""Samples of logs of Inspect are trajectories, and what these have no place for is counted."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from nemo_gym.failures import ConfigError
from nemo_gym.sources.atif.reading import read_trajectory
from nemo_gym.sources.inspect_logs.reading import is_log, read_samples
from tests.sources.inspect_logs.logs import build_log, build_sample, pack, write_eval, write_json

WRITERS = pytest.mark.parametrize(("name", "write"), [("a.json", write_json), ("a.eval", write_eval)])


@WRITERS
def test_a_sample_is_a_foreign_row_with_its_score(
    name: str, write: Callable[..., Path], tmp_path: Path
) -> None:
    path = write(tmp_path / name, build_sample(), build_sample(epoch=2, scores={"match": {"value": "I"}}))
    assert is_log(path)
    first, second = read_samples(path)
    assert (first.name, second.name) == ("sample sum, epoch 1", "sample sum, epoch 2")
    assert first.lost == {"scores.answer": 1}
    row = read_trajectory(first.trajectory, "here").row
    assert (row["reward"], read_trajectory(second.trajectory, "here").row["reward"]) == (1.0, 0.0)
    assert row["responses_create_params"]["input"] == [{"role": "user", "content": "What is 2 + 2?"}]
    (answer,) = row["response"]["output"]
    assert answer["content"][0]["text"] == "It is 4."
    assert row["response"]["usage"]["output_tokens"] == 3
    assert row["_ng_foreign"]["agent"] == "sums"


def test_a_log_of_a_run_that_was_killed_is_read_by_its_start(tmp_path: Path) -> None:
    path = write_eval(tmp_path / "a.eval", build_sample(), header="_journal/start.json")
    assert [each.name for each in read_samples(path)] == ["sample sum, epoch 1"]


def test_the_tools_are_those_of_the_first_call_that_had_some(tmp_path: Path) -> None:
    tool = {"name": "look", "description": "Look.", "parameters": {"type": "object"}, "options": None}
    events = [{"event": "state"}, {"event": "model", "tools": []}, {"event": "model", "tools": [tool]}]
    (sample,) = read_samples(write_json(tmp_path / "a.json", build_sample(events=events)))
    (made,) = sample.trajectory["agent"]["tool_definitions"]
    assert made["function"] == {name: tool[name] for name in ("name", "description", "parameters")}
    assert sample.lost["events"] == 1


@pytest.mark.parametrize(
    ("scores", "lost"),
    [
        ({"a": {"value": 1}, "b": {"value": 0}}, {"scores.a": 1, "scores.b": 1}),
        ({"a": {"value": "many"}}, {"scores.a": 1}),
        ({"a": {"value": {"x": 1, "y": 0}}}, {"scores.a": 1}),
        ({}, {}),
    ],
)
def test_a_reward_is_never_chosen_among_scores(
    scores: dict[str, Any], lost: dict[str, int], tmp_path: Path
) -> None:
    (sample,) = read_samples(write_json(tmp_path / "a.json", build_sample(scores=scores)))
    assert "extra" not in sample.trajectory
    assert sample.lost == lost


def test_a_score_that_is_no_number_is_no_reward(tmp_path: Path) -> None:
    path = write_json(tmp_path / "a.json", build_sample(scores={"match": {"value": float("nan")}}))
    assert "NaN" in path.read_text()
    (sample,) = read_samples(path)
    assert "reward" not in read_trajectory(sample.trajectory, "here").row


def test_a_sample_with_an_error_has_no_verdict(tmp_path: Path) -> None:
    failed = build_sample(error={"message": "it broke"})
    (sample,) = read_samples(write_json(tmp_path / "a.json", failed))
    assert (sample.trajectory, sample.lost) == ({}, {"samples with an error": 1})


def test_fields_without_a_place_are_counted(tmp_path: Path) -> None:
    given = build_sample(store={"a": 1}, limit={"type": "token"}, setup=None, metadata={"level": 3})
    (sample,) = read_samples(write_json(tmp_path / "a.json", given))
    assert sample.lost == {"store": 1, "limit": 1, "metadata.level": 1, "scores.answer": 1}


@pytest.mark.parametrize(
    ("name", "content", "told"),
    [
        ("a.eval", pack({"summaries.json": b"[]"}), "neither header.json nor"),
        ("a.eval", pack({"header.json": b"{"}), "header.json is no JSON"),
        ("a.eval", pack({"header.json": b"[]"}), "is no object"),
        (
            "a.eval",
            pack({"header.json": b"{}"}).replace(b"\x28\xb5\x2f\xfd", b"\0\0\0\0"),
            "no log of Inspect",
        ),
        ("a.eval", b"no archive", "no log of Inspect"),
    ],
)
def test_a_damaged_log_is_refused(name: str, content: bytes, told: str, tmp_path: Path) -> None:
    path = tmp_path / name
    path.write_bytes(content)
    with pytest.raises(ConfigError, match=told):
        list(read_samples(path))


def test_other_files_are_no_logs(tmp_path: Path) -> None:
    (tmp_path / "rows.json").write_text(json.dumps({"schema_version": "ATIF-v1.7"}))
    (tmp_path / "broken.json").write_text("{")
    (tmp_path / "log.txt").write_text(json.dumps(build_log()))
    for name in ("rows.json", "broken.json", "log.txt", "absent.eval"):
        assert not is_log(tmp_path / name)
