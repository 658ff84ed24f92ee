"""The planned rows as a file."""

from __future__ import annotations

from itertools import islice
from pathlib import Path

from nemo_gym.rollouts.output.files import RunFiles
from nemo_gym.rollouts.output.materialized import ROWS_A_WRITE, MaterializedInputs
from nemo_gym.rollouts.plan.dataset import DatasetFile
from nemo_gym.rollouts.plan.plan import Plan, PlanSettings
from nemo_gym.rows.identity import FinishedRollouts, identity_at
from tests.rollouts.doubles import write_dataset


def settings_of(folder: Path, repeats: int) -> PlanSettings:
    return PlanSettings((DatasetFile(write_dataset(folder / "rows.jsonl", 5), num_repeats=repeats),))


def rows_of(folder: Path, repeats: int = 2) -> list[bytes]:
    return [attempt.row for attempt in Plan(settings_of(folder, repeats))]


def written(folder: Path) -> list[bytes]:
    return RunFiles.from_output(folder / "out.jsonl").materialized_inputs.read_bytes().splitlines()


def draw(folder: Path, count: int, *, finished: int = 0, repeats: int = 2, changed: bool = False) -> None:
    """Draw `count` attempts from a plan of which the first `finished` are done."""
    whole, done = Plan(settings_of(folder, repeats)), FinishedRollouts()
    for attempt in islice(whole, finished):
        done.add(attempt.identity)
    rest = Plan(settings_of(folder, repeats), finished=done)
    files = RunFiles.from_output(folder / "out.jsonl")
    inputs = MaterializedInputs.open(files, whole, needed=done.last(), changed=changed)
    assert sum(1 for _ in islice(inputs.write_from(rest), count)) == count
    inputs.close()


def test_rows_are_written_before_they_are_drawn_a_few_at_a_time(tmp_path: Path) -> None:
    draw(tmp_path, ROWS_A_WRITE + 1, repeats=20)
    assert written(tmp_path) == rows_of(tmp_path, repeats=20)[: 2 * ROWS_A_WRITE]


def test_a_resumed_run_completes_the_file_without_repeating_a_row(tmp_path: Path) -> None:
    draw(tmp_path, 6)
    path = RunFiles.from_output(tmp_path / "out.jsonl").materialized_inputs
    path.write_bytes(path.read_bytes()[:-10])
    draw(tmp_path, 7, finished=3)
    assert written(tmp_path) == rows_of(tmp_path)


def test_a_changed_plan_is_written_anew_with_what_is_finished(tmp_path: Path) -> None:
    draw(tmp_path, 10)
    draw(tmp_path, 5, finished=10, repeats=3, changed=True)
    assert written(tmp_path) == rows_of(tmp_path, repeats=3)


def test_a_file_that_an_earlier_start_did_not_keep_is_made_up_for(tmp_path: Path) -> None:
    draw(tmp_path, 3)
    draw(tmp_path, 1, finished=6)
    assert written(tmp_path) == rows_of(tmp_path)


def test_a_plan_in_any_order_appends_the_rows_that_the_file_lacks(tmp_path: Path) -> None:
    draw(tmp_path, 3)
    path = RunFiles.from_output(tmp_path / "out.jsonl").materialized_inputs
    before = path.read_bytes()
    path.write_bytes(before + b'{"_ng_task')
    files = RunFiles.from_output(tmp_path / "out.jsonl")
    numbers = [[7, 1, 0, 4, 3]]
    plan = Plan(settings_of(tmp_path, 2), numbers=numbers)
    inputs = MaterializedInputs.open_in_any_order(files, plan)
    assert len(list(inputs.write_from(plan))) == 10
    inputs.close()
    assert path.read_bytes().startswith(before)
    lines = written(tmp_path)
    heads = [identity_at(line) for line in lines]
    assert len(heads) == len(set(heads))
    assert {each.task for each in heads if each} == {0, 1, 2, 3, 4, 7}  # 2 is no task of the plan any more
