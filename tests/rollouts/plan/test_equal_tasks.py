"""Equal tasks of an input are told, and are one cluster for every interval; a file named twice is refused."""

from __future__ import annotations

import gzip
from pathlib import Path
from statistics import mean
from typing import Any

import orjson
import pytest

from nemo_gym.failures import ConfigError
from nemo_gym.rollouts.plan.dataset import DatasetFile
from nemo_gym.rollouts.plan.inspection import DatasetInspection, inspect
from nemo_gym.rollouts.plan.plan import PlanSettings
from tests.rollouts.copied_runs import COPIES, REWARDS, T_19, half_width_of, run_copies
from tests.rollouts.doubles import task_row, write_dataset


async def test_copies_of_rows_have_the_interval_of_repeats(tmp_path: Path) -> None:
    copied = await run_copies(tmp_path / "copied", copies=COPIES)
    repeated = await run_copies(tmp_path / "repeated", repeats=COPIES)
    expected = half_width_of([mean(rewards) for rewards in REWARDS])
    for summary in (copied, repeated):
        low, high = summary.agents[0].ci95 or (0.0, 0.0)
        assert (high - low) / 2 == pytest.approx(expected, rel=1e-3)
    note = copied.notes[0]
    assert note.startswith("80 of 100 rows repeat the task of an earlier one")
    assert "tasks.jsonl:21)" in note
    assert not any("repeat the task" in note for note in repeated.notes)
    (written,) = orjson.loads((tmp_path / "copied" / "out_aggregate_metrics.json").read_bytes())
    figures = written["agent_metrics"]
    assert figures["std_err/reward"] == pytest.approx(expected / T_19)
    assert figures["pass@1/reward/std_err_across_tasks"] == pytest.approx(100 * expected / T_19)
    assert (figures["count/tasks"], figures["mean/reward"]) == (100, repeated.agents[0].mean_reward)


def inspect_rows(
    folder: Path, *rows: dict[str, Any], overrides: dict[str, Any] | None = None
) -> DatasetInspection:
    path = folder / "rows.jsonl"
    path.write_bytes(b"".join(orjson.dumps(row) + b"\n" for row in rows))
    return inspect(PlanSettings((DatasetFile(path),), overrides=overrides or {}))


ROW = task_row(1, options=["a", "b"])


@pytest.mark.parametrize(
    "other",
    [
        ROW,
        dict(reversed(ROW.items())),
        {**ROW, "id": "7"},
        {**ROW, "uuid": "7", "_ng_task_index": 9, "_ng_rollout_index": 1},
    ],
)
def test_rows_with_the_same_task_are_equal(tmp_path: Path, other: dict[str, Any]) -> None:
    inspection = inspect_rows(tmp_path, task_row(0), ROW, other)
    assert inspection.equal.firsts == {2: 1}
    assert dict(inspection.clusters) == {2: 1}
    assert any("1 of 3 rows repeat" in note and "rows.jsonl:3" in note for note in inspection.notes)


@pytest.mark.parametrize(
    "other",
    [
        task_row(2, options=["a", "b"]),
        {**ROW, "options": ["b", "a"]},
        {**ROW, "agent_ref": {"type": "responses_api_agents", "name": "another"}},
        {
            **ROW,
            "responses_create_params": {
                "input": "question 1",
                "tools": [{"type": "function", "name": "add"}],
            },
        },
        {**ROW, "responses_create_params": {"input": "question 1", "temperature": 0.5}},
    ],
)
def test_rows_that_differ_are_tasks_of_their_own(tmp_path: Path, other: dict[str, Any]) -> None:
    inspection = inspect_rows(tmp_path, ROW, other)
    assert (inspection.equal.firsts, inspection.notes) == ({}, [])


def test_rows_that_an_override_makes_equal_are_equal(tmp_path: Path) -> None:
    warm = {**ROW, "responses_create_params": {"input": "question 1", "temperature": 0.5}}
    assert inspect_rows(tmp_path, ROW, warm, overrides={"temperature": 1.0}).equal.firsts == {1: 0}


def test_a_copy_of_a_file_under_another_name_has_equal_tasks(tmp_path: Path) -> None:
    one = write_dataset(tmp_path / "one.jsonl", 3)
    other = tmp_path / "other.jsonl.gz"
    other.write_bytes(gzip.compress(b"broken\n" + one.read_bytes()))
    inspection = inspect(PlanSettings((DatasetFile(one), DatasetFile(other))))
    assert inspection.equal.firsts == {4: 0, 5: 1, 6: 2}
    inspection.numbering = ([7, 5, 9], [0, 1, 2, 3])
    assert inspection.clusters == {1: 7, 2: 5, 3: 9}


def test_a_file_named_twice_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    write_dataset(Path("one.jsonl"), 3)
    Path("link.jsonl").symlink_to("one.jsonl")
    for name in ("one.jsonl", "./one.jsonl", str(tmp_path / "one.jsonl"), "link.jsonl"):
        with pytest.raises(ConfigError, match="is named twice") as raised:
            inspect(PlanSettings((DatasetFile(Path("one.jsonl")), DatasetFile(Path(name)))))
        assert "-n" in str(raised.value)
    two_agents = (DatasetFile(Path("one.jsonl"), agent_name=agent) for agent in ("a", "b"))
    assert inspect(PlanSettings(tuple(two_agents))).files
