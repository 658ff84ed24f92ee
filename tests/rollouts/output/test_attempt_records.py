from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from nemo_gym.engines.attempts.record import is_afresh, read_attempt
from nemo_gym.failures import ConfigError
from nemo_gym.rollouts.output.attempt_records import (
    AttemptRecords,
    list_attempts,
    measure,
    refuse_interrupted,
)
from nemo_gym.rollouts.output.files import RunFiles
from nemo_gym.rows.identity import FinishedRollouts, RolloutId
from nemo_gym.serving.durable.plans import ReplayMode, ReplayPlan
from tests.rollouts.recorded_attempts import leave_attempt

IDENTITY: dict[str, Any] = {
    "datasets": [{"sha256": "a", "rows": 3, "num_repeats": 1}],
    "config": {"env": {"difficulty": 1}},
    "code": {"version": "1"},
}
FIRST, SECOND = RolloutId(0, 0), RolloutId(1, 0)


def open_records(folder: Path, *, done: RolloutId | None = None, **changes: Any) -> AttemptRecords:
    finished = FinishedRollouts()
    if done is not None:
        finished.add(done)
    return AttemptRecords.open(RunFiles.from_output(folder / "out.jsonl"), {**IDENTITY, **changes}, finished)


def test_attempts_are_numbered_over_all_starts(tmp_path: Path) -> None:
    records = open_records(tmp_path)
    names = [records.name_next(FIRST), records.name_next(FIRST), records.name_next(SECOND)]
    assert [name.number for name in names] == [0, 1, 0]
    assert not records.may_continue(RolloutId(2, 0))
    for name in names:
        leave_attempt(records.folder / name.folder, answered=1)
    again = open_records(tmp_path)
    assert (again.run != records.run, again.earlier_run) == (True, records.run), "no session is used twice"
    assert again.may_continue(FIRST)
    assert again.name_next(FIRST).number == 2


def test_a_start_that_would_not_use_the_records_of_interrupted_attempts_is_refused(tmp_path: Path) -> None:
    records, finished = open_records(tmp_path), FinishedRollouts()
    files = RunFiles.from_output(tmp_path / "out.jsonl")
    refuse_interrupted(files, finished)
    for identity in (FIRST, SECOND):
        leave_attempt(records.folder / records.name_next(identity).folder, answered=2)
    records.mark_ended(FIRST)
    with pytest.raises(ConfigError, match=r"interrupted attempts at 1 rollouts.*\+durability=process"):
        refuse_interrupted(files, finished)
    finished.add(SECOND)
    refuse_interrupted(files, finished)


def test_the_longest_record_is_continued_unless_it_has_a_mismatch(tmp_path: Path) -> None:
    records = open_records(tmp_path)
    for answered, mismatch in [(2, False), (5, True), (3, False), (1, False)]:
        leave_attempt(records.folder / records.name_next(FIRST).folder, answered=answered, mismatch=mismatch)
    assert records.find_longest(FIRST) == records.folder / "0.0.a2"
    records.refuse_earlier(FIRST)
    assert not records.may_continue(FIRST)
    assert records.find_longest(FIRST) is None


def test_an_attempt_that_ended_its_rollout_is_not_continued_by_a_later_start(tmp_path: Path) -> None:
    records = open_records(tmp_path)
    leave_attempt(records.folder / records.name_next(FIRST).folder, answered=2)
    leave_attempt(records.folder / records.name_next(SECOND).folder, answered=2)
    records.mark_ended(FIRST)
    records.mark_ended(RolloutId(7, 0))  # has no record
    again = open_records(tmp_path)
    assert not again.may_continue(FIRST)
    assert again.may_continue(SECOND)
    assert again.continuable == 1
    assert again.name_next(FIRST).number == 1
    assert measure(again.folder).attempts == 2


def test_a_record_without_an_answer_is_not_continued(tmp_path: Path) -> None:
    records = open_records(tmp_path)
    leave_attempt(records.folder / records.name_next(FIRST).folder, answered=0)
    records.name_next(FIRST)
    assert records.find_longest(FIRST) is None


@pytest.mark.parametrize(
    "changes",
    [
        {"config": {"env": {"difficulty": 2}}},
        {"code": {"version": "2"}},
        {"engines": {"policy": {"id": "m"}}},
    ],
)
def test_an_attempt_is_not_continued_in_a_changed_run(tmp_path: Path, changes: dict[str, Any]) -> None:
    records = open_records(tmp_path, engines={"policy": {"id": "n"}})
    leave_attempt(records.folder / records.name_next(FIRST).folder, answered=2)
    again = open_records(tmp_path, **{"engines": {"policy": {"id": "n"}}, **changes})
    assert again.changes
    assert not again.may_continue(FIRST)
    assert again.name_next(FIRST).number == 1
    again.delete(FIRST)
    assert list(list_attempts(again.folder)) == []


def test_a_change_is_told_only_if_an_attempt_was_interrupted(tmp_path: Path) -> None:
    records = open_records(tmp_path)
    assert open_records(tmp_path, code={"version": "2"}).changes == []
    leave_attempt(records.folder / records.name_next(FIRST).folder, answered=2)
    assert open_records(tmp_path, code={"version": "3"}, done=FIRST).changes == []


def test_more_tasks_and_repeats_change_no_attempt(tmp_path: Path) -> None:
    records = open_records(tmp_path)
    leave_attempt(records.folder / records.name_next(FIRST).folder, answered=2)
    more = [{"sha256": "b", "rows": 9, "num_repeats": 4}]
    assert open_records(tmp_path, datasets=more).may_continue(FIRST)


def test_records_of_finished_rollouts_are_deleted(tmp_path: Path) -> None:
    records = open_records(tmp_path)
    for identity in (FIRST, SECOND):
        leave_attempt(records.folder / records.name_next(identity).folder, answered=1)
    again = open_records(tmp_path, done=FIRST)
    assert [name.identity for name in list_attempts(again.folder)] == [SECOND]


def test_a_run_that_keeps_all_keeps_records_of_finished_rollouts_too(tmp_path: Path) -> None:
    records = open_records(tmp_path)
    leave_attempt(records.folder / records.name_next(FIRST).folder, answered=1)
    finished = FinishedRollouts()
    finished.add(FIRST)
    files = RunFiles.from_output(tmp_path / "out.jsonl")
    AttemptRecords.open(files, IDENTITY, finished, keeps_all=True)
    assert measure(records.folder).attempts == 1


def test_the_folder_goes_with_its_last_record(tmp_path: Path) -> None:
    records = open_records(tmp_path)
    leave_attempt(records.folder / records.name_next(FIRST).folder, answered=1)
    kept = records.end()
    assert kept == measure(records.folder)
    assert kept.attempts == 1
    records.delete(FIRST)
    assert records.end() == (0, 0)
    assert not records.folder.exists()


def test_a_damaged_note_of_the_run_begins_another(tmp_path: Path) -> None:
    records = open_records(tmp_path)
    (records.folder / "run.json").write_text("{")
    assert open_records(tmp_path).earlier_run is None


def test_a_folder_that_cannot_be_made_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "out_attempts").write_text("a file")
    with pytest.raises(ConfigError, match="out_attempts"):
        open_records(tmp_path)


def release_one(folder: Path) -> tuple[AttemptRecords, Path]:
    """Records of a run of model servers alone, and the record of its settled first attempt."""
    records = open_records(folder)
    records.has_calls_alone = True
    record = records.folder / records.name_next(FIRST).folder
    leave_attempt(record, answered=2)
    records.release(FIRST)
    return records, record


def test_the_folder_of_a_settled_attempt_becomes_that_of_another(tmp_path: Path) -> None:
    records, folder = release_one(tmp_path)
    inode = folder.stat().st_ino
    again = records.folder / records.name_next(SECOND).folder
    assert again.stat().st_ino == inode
    assert not folder.exists()
    assert is_afresh(str(again))
    assert read_attempt(again).calls == []
    leave_attempt(again, answered=1, is_new=True)
    assert len(read_attempt(again).list_answered()) == 1
    assert b"0.0.a0" not in again.joinpath("policy.0.calls.jsonl").read_bytes(), (
        "its first call empties the file"
    )
    assert not is_afresh(str(again))


def test_an_attempt_that_follows_another_one_gets_a_folder_of_its_own(tmp_path: Path) -> None:
    records, folder = release_one(tmp_path)
    records.name_next(SECOND)
    assert not folder.exists()
    records.release(SECOND)
    later = records.folder / records.name_next(SECOND).folder
    assert not later.exists(), "it may have a plan, and so must nothing else"


def test_a_record_with_more_than_calls_is_deleted(tmp_path: Path) -> None:
    records = open_records(tmp_path)
    leave_attempt(records.folder / records.name_next(FIRST).folder, answered=1)
    records.release(FIRST)
    assert [path.name for path in records.folder.iterdir()] == ["run.json"], "tools may have written to it"
    records.has_calls_alone = True
    for _ in range(2):
        folder = records.folder / records.name_next(SECOND).folder
        leave_attempt(folder, answered=1)
    ReplayPlan(mode=ReplayMode.CONTINUE, source=folder).write(folder)
    assert not is_afresh(str(folder))
    records.release(SECOND)
    assert [path.name for path in records.folder.iterdir()] == ["run.json"], "an attempt has followed"


def test_a_folder_that_waits_ends_with_the_run_and_with_its_next_start(tmp_path: Path) -> None:
    records, _ = release_one(tmp_path)
    assert measure(records.folder).attempts == 1
    open_records(tmp_path, done=FIRST)
    assert measure(records.folder).attempts == 0
    records, _ = release_one(tmp_path)
    assert records.end() == (0, 0)
    assert not records.folder.exists()


def test_a_late_call_of_an_earlier_attempt_is_no_part_of_the_record(tmp_path: Path) -> None:
    records, folder = release_one(tmp_path)
    late = folder.joinpath("policy.0.calls.jsonl").read_bytes().replace(b"call_", b"late_")
    again = records.folder / records.name_next(SECOND).folder
    leave_attempt(again, answered=1, is_new=True)
    alone = read_attempt(again).calls
    with again.joinpath("policy.0.calls.jsonl").open("ab") as file:
        file.write(late)
    assert read_attempt(again).calls == alone
