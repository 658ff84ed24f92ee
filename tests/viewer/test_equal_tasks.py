"""The equal tasks of a run are found as its task rows are written."""

from __future__ import annotations

import gzip
from pathlib import Path

import orjson
import pytest

from nemo_gym.failures import InputError
from nemo_gym.rollouts.lookback.stored import IndexedRows
from nemo_gym.rollouts.lookback.task_clusters import find_clusters
from nemo_gym.viewer.equal_tasks import FollowedTasks
from nemo_gym.viewer.finding import find_runs
from tests.browser.rows import message, row_of, write_run
from tests.rollouts.copied_runs import COPIES, TASKS, run_copies


def task_line(task: int, question: str, rollout: int = 0) -> bytes:
    params = {"input": [{"role": "user", "content": question}]}
    row = {
        "_ng_task_index": task,
        "_ng_rollout_index": rollout,
        "responses_create_params": params,
        "agent_ref": {"type": "responses_api_agents", "name": "an_agent"},
    }
    return orjson.dumps(row) + b"\n"


def follow(folder: Path) -> tuple[FollowedTasks, Path]:
    rows = write_run(folder / "out.jsonl", [row_of(0, 0, [message("x")])])
    (run,) = find_runs([rows])
    return FollowedTasks(run), run.files.materialized_inputs


async def test_they_are_those_that_metrics_take_for_one(tmp_path: Path) -> None:
    await run_copies(tmp_path, copies=COPIES)
    (run,) = find_runs([tmp_path / "out.jsonl"])
    found = FollowedTasks(run).read_equal()
    assert len(found) == TASKS * (COPIES - 1)
    assert found == find_clusters(IndexedRows(run.files.materialized_inputs))


def test_rows_are_read_as_they_are_written(tmp_path: Path) -> None:
    tasks, path = follow(tmp_path)
    assert tasks.read_equal() == {}
    path.write_bytes(task_line(0, "a") + task_line(0, "a", 1) + b"not a row\n" + task_line(1, "a")[:-9])
    assert tasks.read_equal() == {}
    path.write_bytes(path.read_bytes() + task_line(1, "a")[-9:] + task_line(2, "b"))
    assert tasks.read_equal() == {1: 0}
    path.write_bytes(task_line(0, "b"))
    assert tasks.read_equal() == {}, "another run"
    path.unlink()
    path.symlink_to(tmp_path.parent / "elsewhere.jsonl")
    assert tasks.read_equal() == {}


def test_a_damaged_compressed_file_is_an_error(tmp_path: Path) -> None:
    rows = tmp_path / "out.jsonl.gz"
    rows.write_bytes(gzip.compress(orjson.dumps(row_of(0, 0, [message("x")])) + b"\n"))
    (run,) = find_runs([rows])
    path = run.files.materialized_inputs
    path.write_bytes(gzip.compress(task_line(3, "a") + task_line(5, "a")))
    tasks = FollowedTasks(run)
    assert tasks.read_equal() == {5: 3}
    tasks.close()
    path.write_bytes(path.read_bytes()[:-30])
    tasks = FollowedTasks(run)
    with pytest.raises(InputError, match="is damaged"):
        tasks.read_equal()
    tasks.close()
