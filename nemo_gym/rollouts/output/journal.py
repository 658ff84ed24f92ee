"""The output of a new or resumed run: the finished rollouts, and the files for the next ones.

Invariants: a rollout has exactly one row, at whatever moment a process was killed; the files of two runs never mix;
nothing written is deleted, only moved aside. Problems are found on opening, before a rollout runs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, closing
from dataclasses import dataclass
from enum import Enum, auto
from functools import partial
from typing import Any

import orjson

from nemo_gym.failures import ConfigError
from nemo_gym.rollouts.output._append_file import AppendFile
from nemo_gym.rollouts.output.atomic import write_atomically
from nemo_gym.rollouts.output.files import RunFiles
from nemo_gym.rollouts.output.finished import IsPlanned, read_finished, read_line_identity
from nemo_gym.rollouts.output.manifest import AllowedChanges, Change, Manifest, refuse_changes
from nemo_gym.rollouts.output.packed_file import append_to
from nemo_gym.rollouts.output.run_facts import RunFacts, read_facts
from nemo_gym.rollouts.plan.compression import build_journal_path, holds_text
from nemo_gym.rollouts.plan.dataset import read_lines
from nemo_gym.rows.compose import fail_row
from nemo_gym.rows.identity import FinishedRollouts, mark_code
from nemo_gym.rows.tool_errors import may_have_tool_errors, read_tool_errors

INVALID_JUDGEMENT_KEY = "invalid_judge_response"
"""In a row: its reward is 0 because the judge's answer was not valid."""

JUDGE_INVALID, TOOLS_FAILED = "judge_invalid", "tool_errors"
"""The failure classes of rows that are attempted again."""
_REASONS = {JUDGE_INVALID: "an invalid answer of a judge", TOOLS_FAILED: "failed tool calls"}


class Existing(Enum):
    """The way to handle the files of an earlier run."""

    REFUSE = auto()
    RESUME = auto()
    MOVE_ASIDE = auto()


@dataclass(slots=True)
class Journal:
    """An open output. Rows and failures reach the operating system as they are added."""

    files: RunFiles
    finished: FinishedRollouts
    """The rollouts that had a row when the journal was opened; their rows are the first in the file."""
    changes: list[Change]
    """Differences between the resumed run and its manifest."""
    notes: list[str]
    """Changes made to files on opening, for the summary."""
    _manifest: Manifest
    _rows: AppendFile
    _failures: AppendFile
    _scored_by: str | None = None
    """The digest of the code that scores the next rows; None for the first code of the run, whose rows have no mark."""

    @property
    def resumed(self) -> bool:
        return len(self._manifest.starts) > 1

    @property
    def previous_start(self) -> Mapping[str, Any] | None:
        """The manifest's record of the start before this one; None for the first."""
        return self._manifest.starts[-2] if self.resumed else None

    @property
    def facts(self) -> RunFacts:
        """The facts of the run in all of its starts."""
        return read_facts(self._manifest.identity, self._manifest.starts)

    def add_row(self, line: bytes) -> None:
        self._rows.append(line if self._scored_by is None else mark_code(line, self._scored_by))

    def add_failure(self, line: bytes) -> None:
        self._failures.append(line)

    def refuse_changes(self) -> None:
        """Raise `ConfigError` if another program has changed the files."""
        self._rows.refuse_changes()
        self._failures.refuse_changes()

    def close(self, ending: Mapping[str, Any]) -> None:
        """Record the end of this start in the manifest, and close the files."""
        self._rows.close()
        self._failures.close()
        self._manifest.starts[-1].update(ending)
        self._manifest.write(self.files.manifest)


def open_journal(
    files: RunFiles,
    identity: dict[str, Any],
    start: Mapping[str, Any],
    *,
    is_planned: IsPlanned,
    existing: Existing = Existing.REFUSE,
    allowed: AllowedChanges = AllowedChanges(),
    tasks: list[list[list[int]]] | None = None,
    retried: Iterable[str] = (),
) -> Journal:
    """Begin or resume the run in `files`. Raises `ConfigError` with a remedy if that is not allowed.

    `start` is recorded in the manifest: the time and settings of this start. So are `tasks`, the indices of the plan's
    tasks. Rows of rollouts that are not planned are moved to a file of their own. `retried`: `JUDGE_INVALID`,
    `TOOLS_FAILED`; such rows become failures.
    """
    notes: list[str] = []
    refuse_existing(files, existing)
    files.make_folder()
    if existing is Existing.MOVE_ASIDE or not files.holds_results():
        notes += _move_aside(files, keeps_attempts=existing is Existing.RESUME)
    manifest, changes = compare_with_manifest(files, identity, allowed)
    with ExitStack() as opened:
        rows = opened.enter_context(closing(append_to(files.rows)))
        notes += _recover(rows, files)
        for failure_class in retried:
            notes += _fail_rows(rows, files, failure_class)
        finished, unplanned = read_finished(files.rows, is_planned)
        if unplanned:
            notes += _set_unplanned_aside(rows, files, is_planned)
        notes += _keep_earlier_failures(files)
        failures = opened.enter_context(closing(append_to(files.failures)))
        scored_by = manifest.begin(identity, {**start, "finished_before": len(finished)}, changes)
        manifest.tasks = tasks
        manifest.write(files.manifest)
        opened.pop_all()
    notes += [*manifest.describe_codes(files.manifest.name), *_describe_settings(manifest)]
    return Journal(files, finished, changes, notes, manifest, rows, failures, scored_by)


def _describe_settings(manifest: Manifest) -> Iterator[str]:
    if changed := read_facts(manifest.identity, manifest.starts).changed:
        yield f"the rows were made with several settings: {'; '.join(map(str, changed))}"


def refuse_running(files: RunFiles) -> None:
    """Raise `ConfigError` while another process writes the rows of the run."""
    for path in (each for form in files.forms() for each in (form.rows, build_journal_path(form.rows))):
        if path.exists():
            AppendFile(path).close()  # refuses while another process writes it


def refuse_existing(files: RunFiles, existing: Existing) -> None:
    """Raise `ConfigError` if the output cannot be written, as another process writes it, or for an earlier run."""
    files.check_folder()
    refuse_running(files)
    other = files.find_other_form()
    if existing is Existing.RESUME and other is not None:
        raise ConfigError(
            f"the run to resume is in {other.rows}, not in {files.rows}",
            code="output_form",
            remedy=f"Resume it with +output_jsonl_fpath={other.rows}.",
        )
    if existing is Existing.REFUSE and files.holds_results():
        names = ", ".join(path.name for path in files.present())
        raise ConfigError(
            f"{files.rows} belongs to an earlier run ({names})",
            code="output_exists",
            remedy="Resume that run with +resume_from_cache=true (gym: --resume), move its files aside with "
            "+overwrite=true (gym: --overwrite), or choose another +output_jsonl_fpath (gym: -o).",
        )


def _move_aside(files: RunFiles, *, keeps_attempts: bool) -> list[str]:
    had_results = files.holds_results()
    aside = files.move_aside(keeps_attempts=keeps_attempts)
    if aside is None:
        return []
    if not had_results:
        return [f"no rollout of the earlier run had ended; its files are now {aside.stem}*"]
    return [f"the files of the earlier run are now {aside.rows.name} and its companions"]


def compare_with_manifest(
    files: RunFiles, identity: dict[str, Any], allowed: AllowedChanges
) -> tuple[Manifest, list[Change]]:
    """Return the manifest of the run and the differences from it. Without a row, no code or engine has made one.

    Raises `ConfigError` for differences that are not allowed.
    """
    manifest = Manifest.read(files.manifest)
    if manifest is None:
        resumes = bool(files.present())
        if resumes and not allowed.everything:
            raise ConfigError(
                f"{files.rows} has no manifest ({files.manifest.name}), so it may belong to another run",
                code="manifest_missing",
                remedy="Add +allow_identity_change=true to resume it anyway, "
                "or start again with +overwrite=true.",
            )
        return Manifest(identity), [Change("manifest", None, files.manifest.name)] if resumes else []
    changes = manifest.changes_to(identity)
    matters = [change for change in changes if holds_text(files.rows) or not change.is_of_maker]
    refuse_changes(matters, files.manifest, allowed)
    return manifest, changes


def _recover(file: AppendFile, files: RunFiles) -> list[str]:
    """Repair a torn end of a file; return a note if there was one."""
    kept_at = files.first_free_torn()
    torn = file.recover(kept_at)
    return (
        [f"{file.path.name} had an incomplete last row: its {torn} bytes are kept in {kept_at.name}"]
        if torn
        else []
    )


def _set_unplanned_aside(file: AppendFile, files: RunFiles, is_planned: IsPlanned) -> list[str]:
    """Move the rows of rollouts that are not planned to another file; return a note."""
    kept_at = files.first_free_unplanned()
    for is_wanted, write in ((False, partial(write_atomically, kept_at)), (True, file.replace)):
        lines = (line.content for line in read_lines(files.rows))
        write(line for line in lines if is_planned(read_line_identity(line, files.rows)) is is_wanted)
    return [
        f"{files.rows.name} had rows of rollouts that the plan does not have: they are now in {kept_at.name}"
    ]


def fail_rows(rows: AppendFile, files: RunFiles, failure_class: str) -> int:
    """Move the rows that are to be attempted again to the failures; return their number."""
    is_failing, moved = _IS_RETRIED[failure_class], 0
    with closing(append_to(files.failures)) as failures:
        for line in read_lines(files.rows):
            if is_failing(line.content):
                failures.append(orjson.dumps(fail_row(orjson.loads(line.content), failure_class)))
                moved += 1
    if moved:
        rows.replace(line.content for line in read_lines(files.rows) if not is_failing(line.content))
    return moved


def _fail_rows(rows: AppendFile, files: RunFiles, failure_class: str) -> list[str]:
    """Move the rows that are to be attempted again; return a note if there were any."""
    moved, why = fail_rows(rows, files, failure_class), _REASONS[failure_class]
    return [f"{moved} rows of {files.rows.name} had {why}: they are attempted again"] if moved else []


def _has_invalid_judgement(line: bytes) -> bool:
    key = INVALID_JUDGEMENT_KEY
    return key.encode() in line and bool(orjson.loads(line).get(key))


def _has_tool_errors(line: bytes) -> bool:
    if not may_have_tool_errors(line):
        return False
    return any(error.call.is_environments for error in read_tool_errors(orjson.loads(line)))


_IS_RETRIED: Mapping[str, Callable[[bytes], bool]] = {
    JUDGE_INVALID: _has_invalid_judgement,
    TOOLS_FAILED: _has_tool_errors,
}


def _keep_earlier_failures(files: RunFiles) -> list[str]:
    """Rename the failures of an earlier start; return notes on torn ends."""
    with closing(append_to(files.failures)) as failures:
        notes = _recover(failures, files)
    files.move_failures_aside()
    return notes
