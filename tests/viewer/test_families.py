from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from nemo_gym.viewer.families import describe_family, read_forked
from nemo_gym.viewer.finding import find_runs
from nemo_gym.viewer.runs import Run


def leave_run(path: Path, settings: Any = None, start: Any = None) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text('{"reward":1}\n')
    manifest = {"identity": {"settings": settings}, "starts": [{"settings": start}]}
    path.with_name(f"{path.stem}_run.json").write_text(json.dumps(manifest))


def find(folder: Path) -> dict[str, Run]:
    return {run.files.rows.name: run for run in find_runs([folder])}


def test_a_run_and_its_forks_name_each_other(tmp_path: Path) -> None:
    leave_run(tmp_path / "out.jsonl")
    leave_run(tmp_path / "other.jsonl")
    leave_run(tmp_path / "out_forks.jsonl", {"forked": "out.jsonl", "turn": 2, "forks": 4})
    elsewhere = {"forked": str(tmp_path / "out.jsonl")}
    leave_run(tmp_path / "far" / "more.jsonl", {"forked": "out.jsonl", "turn": -1, "forks": 1}, elsewhere)
    runs = find(tmp_path)
    parent = describe_family(runs["out.jsonl"], runs.values())
    assert parent["parent_run"] is None
    told = {each["run"]: (each["turn"], each["forks"]) for each in parent["fork_runs"]}
    assert told == {runs["out_forks.jsonl"].id: (2, 4), runs["more.jsonl"].id: (-1, 1)}
    for name in ("out_forks.jsonl", "more.jsonl"):
        family = describe_family(runs[name], runs.values())
        assert family["parent_run"]["run"] == runs["out.jsonl"].id
        assert family["fork_runs"] == []
    alone = describe_family(runs["other.jsonl"], runs.values())
    assert alone == {"parent_run": None, "fork_runs": []}


def test_forks_whose_parents_are_not_shown_have_none(tmp_path: Path) -> None:
    leave_run(tmp_path / "out_forks.jsonl", {"forked": "out.jsonl", "turn": 2, "forks": 4})
    runs = find(tmp_path)
    assert describe_family(runs["out_forks.jsonl"], runs.values())["parent_run"] is None


@pytest.mark.parametrize(
    "settings",
    [None, 3, {}, {"forked": "out.jsonl", "turn": "2", "forks": 1}, {"forked": ["x"], "turn": 1, "forks": 1},
     {"forked": "out.jsonl", "turn": 1, "forks": 0}, {"forked": "out.jsonl", "turn": True, "forks": 1}],
)  # fmt: skip
def test_a_damaged_manifest_is_that_of_no_forks(tmp_path: Path, settings: Any) -> None:
    leave_run(tmp_path / "out.jsonl", settings, start=7)
    assert read_forked(find(tmp_path)["out.jsonl"]) is None
