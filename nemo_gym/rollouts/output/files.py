"""The files of a run: all beside `<stem>.jsonl`, all named after it.

Rows, failures and task rows are compressed if the output's name ends in `.jsonl.gz` or `.jsonl.zst`. A run has one
form only. A run's files move together: `<stem>.<n>` is the stem of a run that was moved aside, which can be read,
exported and resumed like any other.
"""

from __future__ import annotations

import glob
import tempfile
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from itertools import count, takewhile
from pathlib import Path
from typing import Final

from nemo_gym.failures import ConfigError
from nemo_gym.rollouts.output.disk import disk
from nemo_gym.rollouts.output.inputs import refuse_inputs
from nemo_gym.rollouts.plan.compression import CODECS, build_journal_path, holds_text

_PLAIN: Final = ".jsonl"
ENDINGS: Final = (_PLAIN, *(_PLAIN + packing for packing in CODECS))
"""The endings of files of rows, one per form."""


@dataclass(frozen=True, slots=True)
class RunFiles:
    """The paths of one run."""

    folder: Path
    stem: str
    ending: str = _PLAIN
    """The ending of rows, failures and task rows: one of `ENDINGS`."""

    @classmethod
    def from_output(cls, output: Path) -> RunFiles:
        """Return the files of the run with the rows `output`. Raises `ConfigError` for an invalid name."""
        if output.is_dir():
            raise ConfigError(
                f"{output} is a folder",
                code="output_is_folder",
                remedy=f"Name a file: +output_jsonl_fpath={output / 'rollouts.jsonl'}.",
            )
        ending = find_ending(output)
        if ending is None:
            raise ConfigError(
                f"the output {output} does not end in {', '.join(ENDINGS[:-1])} or {ENDINGS[-1]}",
                code="output_name",
                remedy=f"Write to +output_jsonl_fpath={output.with_suffix(_PLAIN)}.",
            )
        return cls(output.parent, output.name.removesuffix(ending), ending)

    @classmethod
    def from_existing(cls, rows: Path) -> RunFiles:
        """Return the files of the run with the rows `rows`. Raises `ConfigError` if there is no such run."""
        files = None if rows.is_dir() or find_ending(rows) is None else cls.from_output(rows)
        if files is None or not files.holds_results():
            raise ConfigError(
                f"there is no run at {rows}",
                code="no_run",
                remedy=f"Name a run's file of scored rows, which ends in {', '.join(ENDINGS[:-1])} or {ENDINGS[-1]}.",
            )
        return files

    def forms(self) -> list[RunFiles]:
        """Return the run's files in every possible form."""
        return [replace(self, ending=ending) for ending in ENDINGS]

    def find_other_form(self) -> RunFiles | None:
        """Return the form in which the run exists, if it is another one."""
        return next((form for form in self.forms() if form != self and form._has_results()), None)

    def _build_path(self, ending: str) -> Path:
        return self.folder / f"{self.stem}{ending}"

    @property
    def rows(self) -> Path:
        """One scored row per finished rollout."""
        return self._build_path(self.ending)

    @property
    def failures(self) -> Path:
        """One row per failed attempt of the latest start of the run."""
        return self._build_path(f"_failures{self.ending}")

    @property
    def manifest(self) -> Path:
        return self._build_path("_run.json")

    @property
    def aggregate_metrics(self) -> Path:
        return self._build_path("_aggregate_metrics.json")

    @property
    def materialized_inputs(self) -> Path:
        """One row per planned rollout, as sent to the agent."""
        return self._build_path(f"_materialized_inputs{self.ending}")

    @property
    def index(self) -> Path:
        """The columns of the rows, for the viewer. It is made again if it is missing."""
        return self._build_path("_index")

    @property
    def failures_index(self) -> Path:
        """The columns of the failures."""
        return self._build_path("_failures_index")

    @property
    def draws(self) -> Path:
        """The tasks that a run with `until` has drawn, in order."""
        return self._build_path("_draws.jsonl")

    @property
    def attempts(self) -> Path:
        """The folder with the records of attempts that may go on (`attempt_records`)."""
        return self._build_path("_attempts")

    @property
    def estimate(self) -> Path:
        """The estimate of a run with `until`, and its interval."""
        return self._build_path("_estimate.json")

    @property
    def shards(self) -> Path:
        """What the shards of a merged run lack; a run that is whole, or not merged, has no such file."""
        return self._build_path("_shards.json")

    @property
    def token_texts(self) -> Path:
        """The texts of the rows' token ids, for the viewer."""
        return self._build_path("_token_texts.json")

    @property
    def nodes(self) -> Path:
        """The machines of the run's gym, for the viewer. A run on one machine has none."""
        return self._build_path("_nodes.json")

    @property
    def events(self) -> Path:
        """The requests of control that were accepted; a run without one has no such file."""
        return self._build_path("_events.jsonl")

    @property
    def control(self) -> Path:
        """The address of a running run, for its user only."""
        return self._build_path("_control.json")

    @property
    def looks_fine(self) -> Path:
        """The rollouts that a person has looked at and found fine, as saved in the viewer."""
        return self._build_path("_looks_fine.json")

    def list_viewer_files(self) -> tuple[Path, ...]:
        """Return the files that only the viewer reads."""
        return self.index, self.failures_index, self.token_texts, self.nodes, self.looks_fine

    def present(self) -> list[Path]:
        """Return the files that exist and are not empty."""
        return [path for path in self._main_files() if holds_text(path)]

    def refuse_inputs(self, inputs: Iterable[Path]) -> None:
        """Raise `ConfigError` if the run would write, replace or move one of `inputs`, in any form."""
        main = [path for form in self.forms() for path in form._main_files()]
        refuse_inputs([*main, *self._every_file()], inputs)

    def _main_files(self) -> tuple[Path, ...]:
        main = self.rows, self.failures, self.manifest, self.aggregate_metrics, self.materialized_inputs
        return *main, self.draws, self.estimate, self.events, self.shards

    def holds_results(self) -> bool:
        """Return whether the run has a row or a failure, in any form."""
        return any(form._has_results() for form in self.forms())

    def _has_results(self) -> bool:
        return holds_text(self.rows) or holds_text(self.failures)

    def first_free_torn(self) -> Path:
        """Return the path for the next torn end of a file."""
        return _first_free(lambda number: self._build_path(f"_torn_{number}{self.ending}"))

    def first_free_unplanned(self) -> Path:
        """Return the path for the next rows of rollouts that the plan does not have."""
        return _first_free(lambda number: self._build_path(f"_unplanned_{number}{self.ending}"))

    def check_folder(self) -> None:
        """Raise `ConfigError` if the folder cannot be created or written to. It is not created yet."""
        present = next(each for each in (self.folder, *self.folder.parents) if each.exists())
        try:
            with tempfile.TemporaryFile(dir=present):  # `access` says yes to root, for any folder
                pass
        except OSError as error:
            raise _unwritable(self.folder, error.strerror or str(error)) from error

    def make_folder(self) -> None:
        """Create the folder. Raises `ConfigError` if that fails."""
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise _unwritable(self.folder, error.strerror or str(error)) from error

    def move_aside(self, *, keeps_attempts: bool = False) -> RunFiles | None:
        """Rename the files of an earlier run to the first free `<stem>.<n>`; return them, or None if there are none.

        `keeps_attempts`: the records of its attempts stay, because the run goes on.
        """
        present = self._every_file()
        if not keeps_attempts and self.attempts.exists():
            present.append(self.attempts)
        if not present:
            return None
        aside = next(run for run in map(self._number, count(1)) if not run._every_file())
        for path in present:
            disk().rename(path, self.folder / (aside.stem + path.name.removeprefix(self.stem)))
        return next((form for form in aside.forms() if form._has_results()), aside)

    def _number(self, number: int) -> RunFiles:
        return replace(self, stem=f"{self.stem}.{number}")

    def _every_file(self) -> list[Path]:
        """Return all files in any form, including torn ends, unplanned rows, earlier failures and journals."""
        named = {path for form in self.forms() for path in form.present()}
        stem = glob.escape(self.stem)
        separate = {
            path
            for kind in ("_torn_*", "_unplanned_*", "_failures.*")
            for ending in ENDINGS
            for path in self.folder.glob(f"{stem}{kind}{ending}")
        }
        paths = sorted(named | separate | {*self.list_viewer_files()})
        return [each for path in paths for each in (build_journal_path(path), path) if each.exists()]

    def _build_earlier_failures(self, number: int) -> Path:
        return self._build_path(f"_failures.{number}{self.ending}")

    def list_earlier_failures(self) -> list[Path]:
        """Return the files of failed attempts of earlier starts, the oldest first."""
        return list(takewhile(holds_text, map(self._build_earlier_failures, count(1))))

    def move_failures_aside(self) -> None:
        """Rename the failures of the earlier start, whose rollouts will be attempted again."""
        if not holds_text(self.failures):
            return
        aside = _first_free(self._build_earlier_failures)
        for path, target in (
            (build_journal_path(self.failures), build_journal_path(aside)),
            (self.failures, aside),
        ):
            if path.exists():
                disk().rename(path, target)


def failures_path_for(output: Path) -> Path:
    """Return the file of failed attempts of the run with the rows `output`."""
    return RunFiles.from_output(Path(output)).failures


def materialized_path_for(output: Path) -> Path:
    """Return the file of task rows of the run with the rows `output`."""
    return RunFiles.from_output(Path(output)).materialized_inputs


def aggregate_metrics_path_for(output: Path) -> Path:
    """Return the file of metrics of the run with the rows `output`."""
    return RunFiles.from_output(Path(output)).aggregate_metrics


def find_ending(path: Path) -> str | None:
    """Return the one of `ENDINGS` that `path` has, or None."""
    return next((ending for ending in ENDINGS if path.name.endswith(ending)), None)


def find_stem(path: Path) -> str:
    """Return the name of a file of rows without its ending, of which no other dot is a part."""
    return path.name.removesuffix(find_ending(path) or "")


def _first_free(name: Callable[[int], Path]) -> Path:
    return next(
        path for path in map(name, count(1)) if not (path.exists() or build_journal_path(path).exists())
    )


def _unwritable(folder: Path, reason: str) -> ConfigError:
    return ConfigError(
        f"the output folder {folder} cannot be used: {reason}",
        code="output_unwritable",
        remedy="Choose another +output_jsonl_fpath.",
    )
