"""`gym view` refuses unusable places before it listens, and exports."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from nemo_gym.cli.view import read_trajectories
from tests.sources.atif.test_reading import answers, asks, trajectory

ROW = '{"_ng_task_index":0,"_ng_rollout_index":0,"reward":0.5,"response":{"output":[]}}\n'


@pytest.mark.parametrize("place", ["absent.jsonl", "empty"])
def test_a_place_without_a_run_ends_with_exit_code_2(tmp_path: Path, place: str) -> None:
    (tmp_path / "empty").mkdir()
    command = [sys.executable, "-m", "nemo_gym.cli.view", f"+places=[{tmp_path / place}]"]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert ended.returncode == 2
    assert "there is no run" in ended.stderr


def view(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    (folder / "out.jsonl").write_text(ROW, encoding="utf-8")
    program = f"from nemo_gym.cli import main; main({['view', 'out.jsonl', *arguments]!r})"
    return subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=False, cwd=folder
    )


def test_an_export_says_what_it_holds(tmp_path: Path) -> None:
    ended = view(tmp_path, "--export", "run.html", "--filter", "reward<1", "--json")
    assert ended.returncode == 0, ended.stderr
    report = json.loads(ended.stdout)
    content = (tmp_path / "run.html").read_bytes()
    assert report["bytes"] == len(content)
    assert report["note"].startswith("1 of 1 rollouts and 0 of 0 failed attempts of out.jsonl")
    assert report["note"].encode().replace(b"<", b"\\u003c") in content


def test_a_run_that_was_killed_is_said(tmp_path: Path) -> None:
    document = {"schema_version": 1, "identity": {}, "starts": [{"planned": 4}]}
    (tmp_path / "out_run.json").write_text(json.dumps(document), encoding="utf-8")
    ended = view(tmp_path, "--export", "run.html", "--json")
    assert "out.jsonl: 1 of 4 planned rollouts; the run has not ended" in json.loads(ended.stdout)["note"]
    program = "from nemo_gym.cli import main; main(['view', 'out.jsonl'])"
    with subprocess.Popen(
        [sys.executable, "-c", program],
        stderr=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        text=True,
        cwd=tmp_path,
    ) as served:
        assert served.stderr is not None
        told = served.stderr.readline()
        served.terminate()
    assert told.startswith("note: out.jsonl: 1 of 4 planned rollouts; the run has not ended")


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (["--filter", "reward<1"], "need `export`"),
        (["--limit", "3"], "need `export`"),
        (["--export", "out.jsonl"], "does not end in .html"),
        (["--export", "run.html", "--filter", "nothing<1"], 'no column "nothing"'),
        (["--export", "run.html", "--filter", "reward<x"], "is not a number"),
    ],
)
def test_a_wrong_export_ends_with_exit_code_2(tmp_path: Path, arguments: list[str], problem: str) -> None:
    ended = view(tmp_path, *arguments)
    assert ended.returncode == 2
    assert problem in ended.stderr
    assert not (tmp_path / "run.html").exists()
    assert (tmp_path / "out.jsonl").read_text(encoding="utf-8") == ROW


def test_trajectories_are_shown_as_rows(tmp_path: Path) -> None:
    (tmp_path / "run.json").write_text(json.dumps(trajectory(asks(), answers("a foreign answer"))))
    ended = view(tmp_path, "run.json", "--export", "run.html", "--json")
    assert ended.returncode == 0, ended.stderr
    assert "run.json: 1 trajectories: 0 of this gym, 1 of other programs" in ended.stderr
    assert "a foreign answer" in (tmp_path / "run.html").read_text(encoding="utf-8")


def test_trajectories_keep_the_dots_of_their_names(tmp_path: Path) -> None:
    places = [tmp_path / "t_0.json", tmp_path / "t_0.3.json"]
    for place in places:
        place.write_text(json.dumps(trajectory(asks(), answers("an answer"))))
    found = read_trajectories(places, tmp_path / "rows")
    assert [path.name for path in found] == ["t_0.jsonl", "t_0.3.jsonl"]
