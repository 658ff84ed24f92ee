"""The files of a run: all beside `<stem>.jsonl`, all named after it.

Rows, failures and task rows are compressed when the output's name ends in `.jsonl.gz` or `.jsonl.zst`. A run is in one
form only: what is said of its files holds for all forms.

A run's files move together. `<stem>.<n>` is itself the stem of a whole run, so a run that was moved aside can be
read, exported and resumed like any other.
"""

from __future__ import annotations

import glob
import os
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from itertools import count
from pathlib import Path
from typing import Final

from nemo_gym.failures import ConfigError
from nemo_gym.rollouts.compression import CODECS
from nemo_gym.rollouts.disk import disk, write_file
from nemo_gym.rollouts.packed_file import holds_text, tail_of

_PLAIN: Final = ".jsonl"
_SHARD: Final = "_shard_"
ENDINGS: Final = (_PLAIN, *(_PLAIN + packing for packing in CODECS))
"""What the name of a file of rows ends in, by form."""


@dataclass(frozen=True, slots=True)
class RunFiles:
    """Where one run keeps what."""

    folder: Path
    stem: str
    ending: str = _PLAIN
    """Of rows, failures and task rows: one of `ENDINGS`."""

    @classmethod
    def of(cls, output: Path) -> RunFiles:
        """The files of the run that writes its rows to `output`. Raises `ConfigError` for a name that cannot be."""
        if output.is_dir():
            raise ConfigError(
                f"{output} is a folder",
                code="output_is_folder",
                remedy=f"Name a file: +output_jsonl_fpath={output / 'rollouts.jsonl'}.",
            )
        ending = ending_of(output)
        if ending is None:
            raise ConfigError(
                f"the output {output} does not end in {', '.join(ENDINGS[:-1])} or {ENDINGS[-1]}",
                code="output_name",
                remedy=f"Write to +output_jsonl_fpath={output.with_suffix(_PLAIN)}.",
            )
        return cls(output.parent, output.name.removesuffix(ending), ending)

    def forms(self) -> list[RunFiles]:
        """The run's files in every form that it could have."""
        return [replace(self, ending=ending) for ending in ENDINGS]

    def is_same_run(self, other: RunFiles) -> bool:
        """Whether both are of one run, whatever their form."""
        return self.stem == other.stem and self.folder.absolute() == other.folder.absolute()

    def in_another_form(self) -> RunFiles | None:
        """The form in which the run is, where that is not this one."""
        return next((form for form in self.forms() if form != self and form._has_results()), None)

    def _named(self, ending: str) -> Path:
        return self.folder / f"{self.stem}{ending}"

    @property
    def rows(self) -> Path:
        """One scored row per finished rollout."""
        return self._named(self.ending)

    @property
    def failures(self) -> Path:
        """One row per attempt of the latest start of the run that failed."""
        return self._named(f"_failures{self.ending}")

    @property
    def manifest(self) -> Path:
        return self._named("_run.json")

    @property
    def aggregate_metrics(self) -> Path:
        return self._named("_aggregate_metrics.json")

    @property
    def materialized_inputs(self) -> Path:
        """One row per planned rollout, as the agent is sent it."""
        return self._named(f"_materialized_inputs{self.ending}")

    def present(self) -> list[Path]:
        """Those files that are there and not empty."""
        every = (self.rows, self.failures, self.manifest, self.aggregate_metrics, self.materialized_inputs)
        return [path for path in every if holds_text(path)]

    def holds_results(self) -> bool:
        """Whether a run has come to anything here: a row, or the failure of one."""
        return any(form._has_results() for form in self.forms())

    def _has_results(self) -> bool:
        own = holds_text(self.rows) or holds_text(self.failures)
        return own or any(shard._has_results() for shard in self.shards())

    def shard(self, index: int) -> RunFiles:
        """The files of one of several processes that collect, until the run takes their rows over."""
        return replace(self, stem=f"{self.stem}{_SHARD}{index}")

    def shards(self) -> list[RunFiles]:
        """Shards that are there: a collector that was killed left them. Runs that only have such a name are none."""
        name = re.compile(re.escape(self.stem + _SHARD) + r"(\d+)(_failures)?" + re.escape(self.ending))
        matches = (name.match(path.name) for path in self.folder.glob(f"{glob.escape(self.stem)}{_SHARD}*"))
        found = map(self.shard, sorted({int(match[1]) for match in matches if match}))
        return [shard for shard in found if not shard.is_run_of_its_own()]

    def is_run_of_its_own(self) -> bool:
        """Whether there is what only a whole run has: a shard has neither manifest nor metrics."""
        return self.manifest.exists() or self.aggregate_metrics.exists()

    def first_free_torn(self) -> Path:
        """Where the next torn end of a file is kept."""
        return _first_free(lambda number: self._named(f"_torn_{number}{self.ending}"))

    def make_folder(self) -> None:
        """Raises `ConfigError` when the folder cannot be made or written to."""
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise _unwritable(self.folder, error.strerror or str(error)) from error
        if not os.access(self.folder, os.W_OK | os.X_OK):
            raise _unwritable(self.folder, "it is not writable")

    def move_aside(self) -> RunFiles | None:
        """Rename the files of an earlier run to the first free `<stem>.<n>`; None when there are none."""
        present = self._every_file()
        if not present:
            return None
        aside = next(run for run in map(self._numbered, count(1)) if not run._every_file())
        for path in present:
            disk().rename(path, self.folder / (aside.stem + path.name.removeprefix(self.stem)))
        return next((form for form in aside.forms() if form._has_results()), aside)

    def _numbered(self, number: int) -> RunFiles:
        return replace(self, stem=f"{self.stem}.{number}")

    def _every_file(self) -> list[Path]:
        """All that there is of the run, in any form: also torn ends, earlier failures and tails."""
        named = {path for form in self.forms() for path in form.present()}
        shards = [shard for form in self.forms() for shard in form.shards()]
        of_shards = {path for shard in shards for path in (shard.rows, shard.failures)}
        stem = glob.escape(self.stem)
        kept_apart = {
            path
            for kind in ("_torn_*", "_failures.*")
            for ending in ENDINGS
            for path in self.folder.glob(f"{stem}{kind}{ending}")
        }
        paths = sorted(named | of_shards | kept_apart)
        return [each for path in paths for each in (tail_of(path), path) if each.exists()]

    def move_failures_aside(self) -> None:
        """Keep the failures of the run's earlier start apart: what they befell is attempted again."""
        if not holds_text(self.failures):
            return
        aside = _first_free(lambda number: self._named(f"_failures.{number}{self.ending}"))
        # The tail goes first: a death between the two then leaves nothing that the next start would take for its own.
        for path, target in ((tail_of(self.failures), tail_of(aside)), (self.failures, aside)):
            if path.exists():
                disk().rename(path, target)


def ending_of(path: Path) -> str | None:
    """In which of the `ENDINGS` the name of `path` ends, or None."""
    return next((ending for ending in ENDINGS if path.name.endswith(ending)), None)


def _first_free(name: Callable[[int], Path]) -> Path:
    return next(path for path in map(name, count(1)) if not path.exists())


def _unwritable(folder: Path, reason: str) -> ConfigError:
    return ConfigError(
        f"the output folder {folder} cannot be used: {reason}",
        code="output_unwritable",
        remedy="Choose another +output_jsonl_fpath.",
    )


def write_atomically(path: Path, content: bytes | Iterable[bytes]) -> None:
    """Replace `path` by `content` (as one, or in pieces): a reader, or a power cut, meets the old file or the new one,
    whole."""
    draft = path.with_name(f".{path.name}.draft")
    write_file(draft, content)
    disk().rename(draft, path)
