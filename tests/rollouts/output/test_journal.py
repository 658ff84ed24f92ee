"""Opening the output of a run: begun, resumed, refused, moved aside."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nemo_gym.failures import ConfigError
from nemo_gym.rollouts.output.atomic import replacing
from nemo_gym.rollouts.output.files import RunFiles
from nemo_gym.rollouts.output.journal import JUDGE_INVALID, TOOLS_FAILED, Existing, Journal, open_journal
from nemo_gym.rollouts.output.manifest import AllowedChanges
from nemo_gym.rollouts.output.packed_file import append_to
from nemo_gym.rollouts.plan.compression import CODECS, build_journal_path
from nemo_gym.rollouts.plan.dataset import read_lines
from nemo_gym.rows.compose import note_failed_call
from nemo_gym.rows.identity import RolloutId
from nemo_gym.rows.tool_errors import FailedCall, ToolErrorKind
from tests.rollouts.doubles import all_planned, identities, read_rows
from tests.rollouts.output.test_packed_file import dying

IDENTITY: dict[str, Any] = {"datasets": [{"sha256": "abc", "num_repeats": 1}], "config": {}}
CHANGED: dict[str, Any] = {"datasets": [{"sha256": "xyz", "num_repeats": 1}], "config": {}}
RESUME: dict[str, Any] = {"existing": Existing.RESUME}


def files_in(folder: Path) -> RunFiles:
    return RunFiles.from_output(folder / "results" / "out.jsonl")


def opened(folder: Path, identity: dict[str, Any] | None = None, **options: Any) -> Journal:
    options = {"is_planned": all_planned} | options
    return open_journal(files_in(folder), dict(identity or IDENTITY), {"started_at": "now"}, **options)


def row(task: int, repeat: int = 0) -> bytes:
    return RolloutId(task, repeat).head() + b'"reward":%d}' % task


def write_run(folder: Path, count: int = 3) -> RunFiles:
    """A run that ended with `count` rows and a failure."""
    journal = opened(folder)
    for task in range(count):
        journal.add_row(row(task))
    journal.add_failure(b'{"_ng_task_index":9}')
    journal.close({"end": "complete"})
    return journal.files


def test_a_fresh_run_makes_its_folder_and_its_manifest_before_any_row(tmp_path: Path) -> None:
    journal = opened(tmp_path)
    assert journal.files.manifest.exists()
    assert not journal.resumed
    assert len(journal.finished) == 0
    journal.close({"end": "complete"})
    document = orjson.loads(journal.files.manifest.read_bytes())
    assert document["schema_version"] == 1
    assert document["starts"] == [
        {"started_at": "now", "finished_before": 0, "changes": [], "end": "complete"}
    ]


def test_a_fresh_run_refuses_to_mix_with_an_earlier_one(tmp_path: Path) -> None:
    files = write_run(tmp_path)
    before = {path.name: path.read_bytes() for path in files.folder.iterdir()}
    with pytest.raises(ConfigError) as caught:
        opened(tmp_path)
    assert "+resume_from_cache=true" in str(caught.value)
    assert "+overwrite=true" in str(caught.value)
    assert {path.name: path.read_bytes() for path in files.folder.iterdir()} == before


def test_overwriting_moves_the_earlier_run_aside_as_a_whole(tmp_path: Path) -> None:
    write_run(tmp_path, count=2)
    for _ in range(2):
        journal = opened(tmp_path, existing=Existing.MOVE_ASIDE)
        files = journal.files
        journal.close({})
    assert read_rows(files.rows) == []
    assert len(read_rows(files.folder / "out.1.jsonl")) == 2
    names = {path.name for path in files.folder.iterdir()}
    assert {"out.1.jsonl", "out.1_failures.jsonl", "out.1_run.json", "out.2_run.json"} <= names
    aside = open_journal(
        RunFiles.from_output(files.folder / "out.1.jsonl"),
        IDENTITY,
        {},
        existing=Existing.RESUME,
        is_planned=all_planned,
    )
    assert len(aside.finished) == 2
    aside.close({})


def test_a_resumed_run_without_a_row_names_files_that_exist(tmp_path: Path) -> None:
    opened(tmp_path).close({})
    journal = opened(tmp_path, **RESUME)
    journal.close({})
    assert journal.notes == ["no rollout of the earlier run had ended; its files are now out.1*"]
    assert (journal.files.folder / "out.1_run.json").exists()


def test_what_earlier_starts_left_moves_aside_with_the_run(tmp_path: Path) -> None:
    files = write_run(tmp_path)
    with files.rows.open("ab") as file:
        file.write(b'{"torn')
    opened(tmp_path, **RESUME).close({})
    opened(tmp_path, existing=Existing.MOVE_ASIDE).close({})
    names = {path.name for path in files.folder.iterdir()}
    assert {"out.1_torn_1.jsonl", "out.1_failures.1.jsonl"} <= names
    assert not {"out_torn_1.jsonl", "out_failures.1.jsonl"} & names


def test_a_resume_skips_finished_rollouts_and_appends(tmp_path: Path) -> None:
    files = write_run(tmp_path)
    journal = opened(tmp_path, **RESUME)
    assert journal.resumed
    assert [RolloutId(task, 0) in journal.finished for task in range(4)] == [True, True, True, False]
    assert len(journal.finished) == len(files.rows.read_bytes().splitlines())
    journal.add_row(row(3))
    journal.close({})
    assert identities(read_rows(files.rows)) == [(0, 0), (1, 0), (2, 0), (3, 0)]


@pytest.mark.parametrize("existing", list(Existing))
def test_a_run_without_results_does_not_block_the_next(tmp_path: Path, existing: Existing) -> None:
    opened(tmp_path).close({"end": "interrupted"})
    journal = opened(tmp_path, CHANGED, existing=existing)
    assert not journal.resumed
    journal.close({})
    assert (journal.files.folder / "out.1_run.json").exists()


def test_resuming_where_nothing_is_begins_a_run(tmp_path: Path) -> None:
    journal = opened(tmp_path, **RESUME)
    assert not journal.resumed
    journal.close({})


def test_failures_of_an_earlier_start_are_kept_apart(tmp_path: Path) -> None:
    files = write_run(tmp_path)
    opened(tmp_path, **RESUME).close({})
    assert read_rows(files.failures) == []
    assert read_rows(files.folder / "out_failures.1.jsonl") == [{"_ng_task_index": 9}]
    assert files.list_earlier_failures() == [files.folder / "out_failures.1.jsonl"]


def test_resuming_another_run_is_refused_and_touches_nothing(tmp_path: Path) -> None:
    files = write_run(tmp_path)
    with files.rows.open("ab") as file:
        file.write(b'{"torn')
    before = {path.name: path.read_bytes() for path in files.folder.iterdir()}
    with pytest.raises(ConfigError, match='sha256: "abc" -> "xyz"'):
        opened(tmp_path, CHANGED, **RESUME)
    assert {path.name: path.read_bytes() for path in files.folder.iterdir()} == before


def test_a_change_that_is_allowed_is_recorded(tmp_path: Path) -> None:
    files = write_run(tmp_path)
    journal = opened(tmp_path, CHANGED, allowed=AllowedChanges(everything=True), **RESUME)
    journal.close({})
    document = orjson.loads(files.manifest.read_bytes())
    assert document["identity"] == CHANGED
    assert document["starts"][1]["changes"] == [["datasets.0.sha256", "abc", "xyz"]]
    opened(tmp_path, CHANGED, **RESUME).close({})


def test_rows_without_a_manifest_are_resumed_only_on_request(tmp_path: Path) -> None:
    files = write_run(tmp_path)
    files.manifest.unlink()
    with pytest.raises(ConfigError, match="has no manifest"):
        opened(tmp_path, **RESUME)
    journal = opened(tmp_path, allowed=AllowedChanges(everything=True), **RESUME)
    assert len(journal.finished) == 3
    assert [change.field for change in journal.changes] == ["manifest"]
    journal.close({})


def code(version: str) -> dict[str, Any]:
    return {**IDENTITY, "code": {"version": "1", "files": {"env/app.py": version}}}


def add(folder: Path, identity: dict[str, Any], task: int, **options: Any) -> Journal:
    journal = opened(folder, identity, **RESUME, **options)
    journal.add_row(row(task))
    journal.close({})
    return journal


def test_rows_of_changed_code_are_marked_until_it_is_the_first_again(tmp_path: Path) -> None:
    marked = {"allowed": AllowedChanges(code=True)}
    add(tmp_path, code("old"), 0)
    with pytest.raises(ConfigError, match=r"env/app\.py has changed"):
        add(tmp_path, code("new"), 1)
    add(tmp_path, code("new"), 1, **marked)
    journal = add(tmp_path, code("new"), 2)
    add(tmp_path, code("old"), 3, allowed=AllowedChanges(everything=True))
    add(tmp_path, code("third"), 4, **marked)
    rows = read_rows(journal.files.rows)
    assert identities(rows) == [(task, 0) for task in range(5)]
    document = orjson.loads(journal.files.manifest.read_bytes())
    first, second, third = (each["digest"] for each in document["codes"])
    assert [each.get("_ng_scored_by") for each in rows] == [None, second, second, None, third]
    assert [each["code"]["files"]["env/app.py"] for each in document["codes"]] == ["old", "new", "third"]
    assert [each.get("code") for each in document["starts"]] == [None, second, second, None, third]
    assert any("`_ng_scored_by`" in note for note in journal.notes)
    assert first not in (second, third)


def test_code_that_has_scored_no_row_may_change(tmp_path: Path) -> None:
    journal = opened(tmp_path, code("broken"))
    journal.add_failure(b'{"_ng_task_index":0,"_ng_rollout_index":0}')
    journal.close({})
    journal = add(tmp_path, code("mended"), 0)
    assert read_rows(journal.files.rows) == [orjson.loads(row(0))]
    assert "codes" not in orjson.loads(journal.files.manifest.read_bytes())


@pytest.mark.parametrize("existing", [Existing.RESUME, Existing.MOVE_ASIDE])
def test_a_run_that_is_being_written_is_left_alone(tmp_path: Path, existing: Existing) -> None:
    journal = opened(tmp_path)
    journal.add_row(row(0))
    with pytest.raises(ConfigError, match="another process is writing"):
        opened(tmp_path, existing=existing)
    journal.close({})


ROWS = [row(0), row(1)[:-1] + b',"text":"\\n{\\"_ng_task_index\\":5"}', row(2)]


@settings(max_examples=25)
@given(cut=st.integers(0, 10**6), again=st.integers(0, 10**6))
def test_a_run_killed_at_any_byte_twice_has_exactly_one_row_for_each_rollout(
    tmp_path_factory: pytest.TempPathFactory, cut: int, again: int
) -> None:
    folder = tmp_path_factory.mktemp("killed")
    files = write_run(folder, count=0)
    for place in (cut, again, None):
        journal = opened(folder, **RESUME)
        for task, line in enumerate(ROWS):
            if RolloutId(task, 0) not in journal.finished:
                journal.add_row(line)
        journal.close({})
        whole = files.rows.read_bytes()
        if place is not None:
            files.rows.write_bytes(whole[: place % (len(whole) + 1)])
    assert sorted(files.rows.read_bytes().splitlines()) == sorted(ROWS)


def test_a_torn_row_is_kept_and_spoken_of(tmp_path: Path) -> None:
    files = write_run(tmp_path)
    for number in (1, 2):
        with files.rows.open("ab") as file:
            file.write(b'{"torn')
        journal = opened(tmp_path, **RESUME)
        journal.close({})
        assert f"out_torn_{number}.jsonl" in journal.notes[0]
        assert (files.folder / f"out_torn_{number}.jsonl").read_bytes() == b'{"torn'
    assert len(read_rows(files.rows)) == 3


@pytest.mark.parametrize("packing", sorted(CODECS))
@pytest.mark.parametrize("is_compressed", [False, True])
def test_failures_of_a_killed_start_are_kept_whole(tmp_path: Path, packing: str, is_compressed: bool) -> None:
    files = RunFiles.from_output(tmp_path / f"out.jsonl{packing}")
    open_journal(files, IDENTITY, {}, is_planned=all_planned).close({})
    content = b"".join(row(task) + b"\n" for task in range(3))
    if is_compressed:  # killed before it could remove the journal
        with replacing(files.failures) as file:
            file.write(content)
    build_journal_path(files.failures).write_bytes(content)
    open_journal(files, IDENTITY, {}, **RESUME, is_planned=all_planned).close({})
    kept = tmp_path / f"out_failures.1.jsonl{packing}"
    assert b"".join(line.content for line in read_lines(kept)) == content
    assert not build_journal_path(kept).exists()


def test_a_journal_that_cannot_be_opened_leaves_nothing_locked(tmp_path: Path) -> None:
    files = write_run(tmp_path)
    failures = append_to(files.failures)
    with pytest.raises(ConfigError, match=r"another process is writing .*out_failures"):
        opened(tmp_path, **RESUME)
    failures.close()
    opened(tmp_path, **RESUME).close({})


@pytest.mark.parametrize("packing", ["", *sorted(CODECS)])
def test_a_death_at_any_operation_of_a_resumed_start_loses_and_doubles_nothing(
    tmp_path: Path, packing: str
) -> None:
    deaths, at = 0, 0
    while deaths == at:
        at += 1
        files = RunFiles.from_output(tmp_path / str(at) / f"out.jsonl{packing}")
        with closing_run(open_journal(files, IDENTITY, {}, is_planned=all_planned)) as journal:
            journal.add_row(row(0))
            journal.add_failure(row(7))
        with (
            dying(at) as disk,
            closing_run(open_journal(files, IDENTITY, {}, **RESUME, is_planned=all_planned)) as journal,
        ):
            journal.add_row(row(1))
            journal.add_failure(row(8))
        deaths += disk.has_killed
        with closing_run(open_journal(files, IDENTITY, {}, **RESUME, is_planned=all_planned)) as journal:
            if RolloutId(1, 0) not in journal.finished:
                journal.add_row(row(1))
            journal.add_failure(row(9))
        assert [line.content.rstrip() for line in read_lines(files.rows)] == [row(0), row(1)], at
        kept = [line for path in files.folder.glob("out_failures.*") for line in read_lines(path)]
        failures = sorted(line.content.rstrip() for line in kept)
        assert failures in ([row(7), row(9)], [row(7), row(8), row(9)]), at
        assert not list(files.folder.glob("*.journal")), at
    assert deaths > (30 if packing else 15)


@pytest.mark.parametrize("packing", ["", *sorted(CODECS)])
def test_a_death_at_any_operation_of_setting_unplanned_rows_aside_loses_and_doubles_nothing(
    tmp_path: Path, packing: str
) -> None:
    deaths, at = 0, 0
    resumed: dict[str, Any] = {**RESUME, "is_planned": lambda identity: identity.task == 1}
    while deaths == at:
        at += 1
        files = RunFiles.from_output(tmp_path / str(at) / f"out.jsonl{packing}")
        with closing_run(open_journal(files, IDENTITY, {}, is_planned=all_planned)) as journal:
            for task in range(3):
                journal.add_row(row(task))
        with dying(at) as disk, closing_run(open_journal(files, IDENTITY, {}, **resumed)) as journal:
            pass
        deaths += disk.has_killed
        with closing_run(open_journal(files, IDENTITY, {}, **resumed)) as journal:
            assert RolloutId(1, 0) in journal.finished
        assert [line.content.rstrip() for line in read_lines(files.rows)] == [row(1)], at
        aside = {line.content for path in files.folder.glob("out_unplanned_*") for line in read_lines(path)}
        assert aside == {row(0) + b"\n", row(2) + b"\n"}, at
    assert deaths > 5


def test_unplanned_rows_move_aside_with_their_run(tmp_path: Path) -> None:
    files = write_run(tmp_path)
    opened(tmp_path, is_planned=lambda _: False, **RESUME).close({})
    assert len(read_rows(files.folder / "out_unplanned_1.jsonl")) == 3
    opened(tmp_path, is_planned=lambda _: False, existing=Existing.MOVE_ASIDE).close({})
    assert (files.folder / "out.1_unplanned_1.jsonl").exists()


@contextmanager
def closing_run(journal: Journal) -> Iterator[Journal]:
    """Close the journal when the block has ended well, as a process that lives does."""
    yield journal
    journal.close({})


@pytest.mark.parametrize("packing", sorted(CODECS))
def test_a_run_moves_aside_with_the_journals_that_a_death_has_left(tmp_path: Path, packing: str) -> None:
    files = RunFiles.from_output(tmp_path / f"out.jsonl{packing}")
    open_journal(files, IDENTITY, {}, is_planned=all_planned).close({})
    build_journal_path(files.rows).write_bytes(row(0) + b"\n")
    build_journal_path(files.failures).write_bytes(row(1) + b"\n")
    open_journal(files, IDENTITY, {}, existing=Existing.MOVE_ASIDE, is_planned=all_planned).close({})
    aside = RunFiles.from_output(tmp_path / f"out.1.jsonl{packing}")
    assert [line.content for line in read_lines(aside.rows)] == [row(0) + b"\n"]
    assert [line.content for line in read_lines(aside.failures)] == [row(1) + b"\n"]
    assert not files.holds_results()


def test_rows_with_failed_tools_are_attempted_again_when_asked(tmp_path: Path) -> None:
    notes: dict[str, Any] = {}
    note_failed_call(notes, FailedCall("guess", ToolErrorKind.RAISED, "ValueError: boom"))
    of_model: dict[str, Any] = {}
    note_failed_call(of_model, FailedCall("guess", ToolErrorKind.REJECTED, "HTTP 400: no"))
    journal = opened(tmp_path)
    journal.add_row(row(0))
    for task, members in enumerate((notes, of_model, {"text": "_ng_tool_errors"}), 1):
        journal.add_row(RolloutId(task, 0).head() + orjson.dumps({"reward": 0.0, **members})[1:])
    journal.close({"end": "systemic_failure"})
    resumed = opened(tmp_path, retried=[TOOLS_FAILED], **RESUME)
    assert identities(read_rows(resumed.files.rows)) == [(0, 0), (2, 0), (3, 0)]
    assert RolloutId(1, 0) not in resumed.finished
    assert (
        any("1 rows of rollouts.jsonl had failed tool calls" in note for note in resumed.notes)
        or resumed.notes
    )
    earlier = [row for path in resumed.files.rows.parent.glob("*_failures.*jsonl") for row in read_rows(path)]
    assert [(failed["_ng_failure_class"], "reward" in failed) for failed in earlier] == [
        ("tool_errors", False)
    ]
    resumed.close({"end": "complete"})


def test_rows_with_an_invalid_judgement_are_attempted_again_when_asked(tmp_path: Path) -> None:
    journal = opened(tmp_path)
    journal.add_row(row(0))
    journal.add_row(RolloutId(1, 0).head() + b'"reward":0,"invalid_judge_response":true}')
    journal.add_row(RolloutId(2, 0).head() + b'"reward":1,"invalid_judge_response":false}')
    journal.close({"end": "complete"})
    kept = opened(tmp_path, **RESUME)
    assert len(kept.finished) == 3
    kept.close({"end": "complete"})
    resumed = opened(tmp_path, retried=[JUDGE_INVALID], **RESUME)
    assert identities(read_rows(resumed.files.rows)) == [(0, 0), (2, 0)]
    assert RolloutId(1, 0) not in resumed.finished
    assert any("attempted again" in note for note in resumed.notes)
    earlier = [row for path in resumed.files.rows.parent.glob("*_failures.*jsonl") for row in read_rows(path)]
    assert [failed["_ng_failure_class"] for failed in earlier] == ["judge_invalid"]
    assert "reward" not in earlier[0]
    resumed.close({"end": "complete"})
