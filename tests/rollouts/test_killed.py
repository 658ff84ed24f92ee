"""Runs that are killed: whatever the moment, a resumed run ends with exactly one row for each rollout.

After every other kill the last row is cut off somewhere, as by a kill that meets a write half done.

`make test` tries two kills, `make chaos` 100.
"""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import orjson
import pytest

from nemo_gym import PARENT_DIR
from nemo_gym.rollouts.plan.compression import build_journal_path
from nemo_gym.rollouts.plan.dataset import read_lines
from tests.rollouts.doubles import identities, read_rows, write_dataset
from tests.samples import IS_WHOLE

KILLS = 100 if IS_WHOLE else 2
TASKS = 300 * KILLS
SCRIPT = Path(__file__).with_name("killable_run.py")


def start(folder: Path, existing: str = "RESUME", packing: str = "") -> subprocess.Popen[str]:
    """A run in `folder`, far enough to have said that it is about to begin; `packing` ends the output's name."""
    process = subprocess.Popen(
        [sys.executable, str(SCRIPT), str(folder), existing, packing],
        stdout=subprocess.PIPE,
        text=True,
        env=os.environ | {"PYTHONPATH": str(PARENT_DIR)},
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    return process


def finish(process: subprocess.Popen[str]) -> int:
    process.communicate(timeout=60 + KILLS)
    return process.returncode


def until_rows(path: Path, process: subprocess.Popen[str], size: int) -> None:
    """Wait until `path` has grown beyond `size` bytes, or the run has ended."""
    while process.poll() is None and (not path.exists() or path.stat().st_size <= size):
        time.sleep(0.002)


def rows_of(path: Path) -> list[dict[str, Any]]:
    return [orjson.loads(line.content) for line in read_lines(path)]


def tear(path: Path, rng: random.Random) -> None:
    """Cut the last row off somewhere in it."""
    content = path.read_bytes()
    start = content.rfind(b"\n", 0, -1) + 1
    if len(content) - start > 2:
        os.truncate(path, rng.randrange(start + 1, len(content) - 1))


@pytest.mark.parametrize("packing", ["", ".gz", ".zst"])
def test_a_run_killed_again_and_again_loses_nothing_and_doubles_nothing(tmp_path: Path, packing: str) -> None:
    write_dataset(tmp_path / "tasks.jsonl", TASKS)
    output = tmp_path / f"out.jsonl{packing}"
    growing = build_journal_path(output) if packing else output
    rng, before = random.Random(7), 0
    for kill in range(KILLS):
        process = start(tmp_path, packing=packing)
        until_rows(growing, process, before)
        time.sleep(rng.uniform(0.0, 0.15))
        process.kill()
        finish(process)
        if kill % 2:
            tear(growing, rng)
        before = growing.stat().st_size
    finished_before_the_last = growing.read_bytes().count(b"\n")
    assert finish(start(tmp_path, packing=packing)) == 0
    rows = identities(rows_of(output))
    assert sorted(rows) == [(task, repeat) for task in range(TASKS) for repeat in range(2)]
    assert identities(rows_of(tmp_path / f"out_materialized_inputs.jsonl{packing}")) == sorted(rows)
    assert not list(tmp_path.glob("*.journal"))
    starts = orjson.loads((tmp_path / "out_run.json").read_bytes())["starts"]
    assert len(starts) == KILLS + 1
    assert len(list(tmp_path.glob("out_torn_*"))) >= KILLS // 2
    assert starts[-1]["finished_before"] == finished_before_the_last
    assert 0 < finished_before_the_last < 2 * TASKS
    metrics = orjson.loads((tmp_path / "out_aggregate_metrics.json").read_bytes())[0]["agent_metrics"]
    assert metrics["count/scored"] == 2 * TASKS
    assert metrics["mean/reward"] == 0.5


@pytest.mark.parametrize("packing", [".gz", ".zst"])
def test_a_run_that_is_killed_while_it_compresses_is_closed_by_the_next_start(
    tmp_path: Path, packing: str
) -> None:
    write_dataset(tmp_path / "tasks.jsonl", 300)
    draft = tmp_path / f".out.jsonl{packing}.draft"
    process = start(tmp_path, packing=packing)
    until_rows(draft, process, -1)
    process.kill()
    finish(process)
    assert finish(start(tmp_path, packing=packing)) == 0
    rows = identities(rows_of(tmp_path / f"out.jsonl{packing}"))
    assert sorted(rows) == [(task, repeat) for task in range(300) for repeat in range(2)]
    assert not list(tmp_path.glob("*.journal"))


def test_a_terminated_run_keeps_what_was_finished_and_says_that_it_is_partial(tmp_path: Path) -> None:
    write_dataset(tmp_path / "tasks.jsonl", 5000)
    process = start(tmp_path, "REFUSE")
    until_rows(tmp_path / "out.jsonl", process, 10_000)
    process.send_signal(signal.SIGTERM)
    assert finish(process) == 3
    rows = read_rows(tmp_path / "out.jsonl")
    assert 0 < len(rows) < 10_000
    assert len(set(identities(rows))) == len(rows)
    (start_record,) = orjson.loads((tmp_path / "out_run.json").read_bytes())["starts"]
    assert start_record["end"] == "interrupted"
    assert start_record["counts"]["completed"] == len(rows)
