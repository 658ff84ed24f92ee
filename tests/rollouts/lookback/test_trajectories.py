"""Trajectories of files, lines and folders of trials are rows, joined with the rows of their tasks."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from nemo_gym.config.problems import ConfigErrors
from nemo_gym.failures import ConfigError
from nemo_gym.rollouts.lookback.stored import StoredRun
from nemo_gym.rollouts.lookback.trajectories import (
    find_trajectories,
    holds_trajectories,
    read_rows,
    read_task_rows,
)
from nemo_gym.sources.atif.writing import write_trajectory
from tests.export.rows import row
from tests.sources.atif.test_reading import answers, asks, trajectory
from tests.sources.inspect_logs.logs import build_sample, write_eval, write_json


def write_trial(job: Path, name: str, task: str, reward: object, **fields: Any) -> None:
    (job / name / "agent").mkdir(parents=True)
    content = trajectory(asks(), answers(), **fields)
    (job / name / "agent" / "trajectory.json").write_text(json.dumps(content))
    result = {"task_name": task, "trial_name": name, "verifier_result": {"rewards": {"reward": reward}}}
    (job / name / "result.json").write_text(json.dumps(result))


def test_a_folder_of_trials_has_their_rewards_and_repeats(tmp_path: Path) -> None:
    for number, task in enumerate(["org/a", "org/b", "org/a"]):
        write_trial(tmp_path / "job", f"{task[4:]}__{number}", task, number / 2)
    assert holds_trajectories(tmp_path / "job")
    found = read_rows(tmp_path / "job")
    assert [(each["_ng_task_index"], each["_ng_rollout_index"], each["reward"]) for each in found.rows] == [
        (0, 0, 0.0),
        (0, 1, 1.0),
        (1, 0, 0.5),
    ]
    found.write(tmp_path / "rows.jsonl")
    assert len(StoredRun(tmp_path / "rows.jsonl").scored) == 3


def test_lines_of_ours_are_the_rows_that_were_exported(tmp_path: Path) -> None:
    rows = [row(task) for task in range(3)]
    lines = [json.dumps(write_trajectory(each).content) for each in rows]
    (tmp_path / "out.jsonl").write_text("\n".join(lines))
    found = read_rows(tmp_path / "out.jsonl")
    assert found.rows == rows
    assert found.describe() == "3 trajectories: 3 of this gym, 0 of other programs"


def test_a_foreign_trajectory_gets_what_its_verifier_needs(tmp_path: Path) -> None:
    (tmp_path / "t.json").write_text(json.dumps(trajectory(asks(), answers(), extra={"task_id": "b"})))
    (tmp_path / "tasks.jsonl").write_text('{"task_id": "a", "answer": 1}\n{"id": "b", "answer": 2}\n')
    tasks = read_task_rows(tmp_path / "tasks.jsonl")
    (found,) = read_rows(tmp_path / "t.json", tasks, "my_agent").rows
    assert (found["answer"], found["agent_ref"]["name"]) == (2, "my_agent")
    assert found["responses_create_params"]["input"] == [{"role": "user", "content": "Hello"}]


def test_every_trajectory_without_a_task_and_every_invalid_one_is_named(tmp_path: Path) -> None:
    write_trial(tmp_path / "job", "a__1", "org/a", 1)
    write_trial(tmp_path / "job", "b__1", "org/b", 1, steps=[])
    with pytest.raises(ConfigErrors) as raised:
        read_rows(tmp_path / "job", {})
    said = str(raised.value)
    assert "none of the task rows is its task (org/a, a, s)" in said
    assert "b__1/agent/trajectory.json is no ATIF trajectory: steps" in said


def test_other_files_are_none(tmp_path: Path) -> None:
    (tmp_path / "rows.jsonl").write_text(json.dumps(row()))
    (tmp_path / "broken.json").write_text("{")
    for name in ("rows.jsonl", "broken.json", "absent.json", "."):
        assert not holds_trajectories(tmp_path / name)
    with pytest.raises(ConfigError, match="is no JSON"):
        list(find_trajectories(tmp_path / "broken.json"))
    with pytest.raises(ConfigError, match="no trajectories"):
        list(find_trajectories(tmp_path / "absent.json"))


@pytest.mark.parametrize(("name", "write"), [("log.json", write_json), ("log.eval", write_eval)])
def test_the_samples_of_a_log_are_rows_and_those_with_an_error_are_counted(
    name: str, write: Callable[..., Path], tmp_path: Path
) -> None:
    path = write(
        tmp_path / name,
        build_sample(id="a"),
        build_sample(id="a", epoch=2),
        build_sample(id="b", error={"message": "it broke"}),
    )
    (tmp_path / "tasks.jsonl").write_text('{"task_id": "a", "answer": 1}\n')
    assert holds_trajectories(path)
    found = read_rows(path, read_task_rows(tmp_path / "tasks.jsonl"), "my_agent")
    assert [(row["_ng_rollout_index"], row["answer"], row["reward"]) for row in found.rows] == [
        (0, 1, 1.0),
        (1, 1, 1.0),
    ]
    assert found.describe() == (
        "2 trajectories: 0 of this gym, 2 of other programs; "
        "no place for 2 scores.answer, 1 samples with an error"
    )
