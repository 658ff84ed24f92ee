"""Equal tasks of stored runs are one cluster for every reader."""

from __future__ import annotations

from pathlib import Path
from statistics import mean

import pytest

from nemo_gym.rollouts.lookback.comparison import compare
from nemo_gym.rollouts.lookback.merging import merge_shards
from nemo_gym.rollouts.lookback.ranking import rank_runs
from nemo_gym.rollouts.lookback.run_table import read_run_table
from tests.rollouts.copied_runs import COPIES, REWARDS, T_19, TASKS, half_width_of, run_copies
from tests.rollouts.doubles import AGENT
from tests.rollouts.stored_runs import scored_row, store


async def test_stored_copies_are_one_cluster_for_every_reader(tmp_path: Path) -> None:
    for name, shift in (("one", 0), ("other", 1)):
        await run_copies(tmp_path / name, copies=COPIES, shift=shift)
    paths = [tmp_path / name / "out.jsonl" for name in ("one", "other")]
    means = [mean(rewards) for rewards in REWARDS]
    own = half_width_of(means)
    paired = half_width_of([means[(task + 1) % TASKS] - means[task] for task in range(TASKS)])
    difference = compare(*paths).interval
    assert difference is not None
    assert (difference.high - difference.low) / 2 == pytest.approx(paired, rel=1e-3)
    table = read_run_table(paths)
    (pair,) = table.pairs
    assert ((pair.high or 0) - (pair.low or 0)) / 2 == pytest.approx(paired, rel=1e-3)
    cell = table.runs[0].cells[AGENT]
    assert ((cell.high or 0) - (cell.low or 0)) / 2 == pytest.approx(own, rel=1e-3)
    for model in rank_runs(paths).models:
        interval = model.intervals[AGENT]
        assert (interval.high - interval.low) / 2 == pytest.approx(own, rel=1e-3)
    merged = merge_shards(paths[:1], tmp_path / "merged.jsonl")
    error = merged.results[AGENT]["agent_metrics"]["std_err/reward"]
    assert error == pytest.approx(own / T_19)


def test_tasks_of_which_only_the_input_is_known_are_not_taken_for_equal(tmp_path: Path) -> None:
    params = {"input": "the same"}
    for name, right in (("one", 2), ("other", 5)):
        rows = [
            scored_row(task, reward=float(task < right), responses_create_params=params, answer=0)
            for task in range(8)
        ]
        store(tmp_path / f"{name}.jsonl", rows, tasks=False)
    paths = [tmp_path / "one.jsonl", tmp_path / "other.jsonl"]
    assert compare(*paths).interval is not None
    assert read_run_table(paths).pairs[0].high is not None
    assert all(model.intervals for model in rank_runs(paths).models)


def test_a_damaged_task_row_is_no_task(tmp_path: Path) -> None:
    path = store(tmp_path / "out.jsonl", [scored_row(task) for task in range(3)])
    with (tmp_path / "out_materialized_inputs.jsonl").open("ab") as file:
        file.write(b"broken\n")
    (run,) = read_run_table([path], problems=[]).runs
    assert run.cells[AGENT].scored == 3
