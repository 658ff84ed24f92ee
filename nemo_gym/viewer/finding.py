"""The runs at files of rows and below folders. A followed folder shows runs that are made after the viewer started.

A run is found by any of its files: rows, failures or manifest. So a run that has no row yet, or in which every rollout
failed, is found as well.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from threading import Lock
from typing import Any

from nemo_gym.clock import monotonic
from nemo_gym.failures import ConfigError
from nemo_gym.rollouts.output.files import ENDINGS, RunFiles, find_ending
from nemo_gym.viewer.audit_pages import find_cards
from nemo_gym.viewer.companions import find_fault, show_path
from nemo_gym.viewer.runs import Run, Signature

_COMPANIONS = ("_failures", "_materialized_inputs", "_draws")
_MANIFEST = "_run.json"
_MOST_RUNS = 1000
_MOST_KNOWN_FILES = 1 << 14
_SEARCH_EVERY_S = 0.5
_HEAD_BYTES = 1 << 20
_FAILURE_MARK = b'"_ng_failure'


class FollowedRuns:
    """The runs of some places. Each keeps its id as long as the viewer runs."""

    def __init__(self, runs: Sequence[Run], places: Sequence[Path] = ()) -> None:
        """`places` are searched for further runs; without them, the runs stay as they are."""
        self._places = [place for place in places if place.is_dir()]
        self._others = [run for run in runs if not any(_is_below(run, place) for place in self._places)]
        self._known = {run.files.rows: run for run in runs}
        self._shown = list(runs)
        self._by_id = {run.id: run for run in runs}
        self._searched = monotonic()
        self._lock = Lock()
        self._summaries: dict[str, tuple[Signature | None, dict[str, Any]]] = {}

    def list_runs(self) -> list[Run]:
        """Return the runs that exist now, newest first. Folders are searched at most twice a second."""
        with self._lock:
            if self._places and monotonic() - self._searched >= _SEARCH_EVERY_S:
                self._search()
                self._searched = monotonic()
            return self._shown

    def summarize(self) -> list[dict[str, Any]]:
        """Return the summaries of the runs. That of a run that has ended is kept until one of its files changes."""
        return [self._summarize(run) for run in self.list_runs()]

    def _summarize(self, run: Run) -> dict[str, Any]:
        signature = run.read_signature()
        kept = self._summaries.get(run.id)
        if kept is not None and kept[0] == signature and signature is not None:
            return kept[1]
        summary = run.summary()
        if (
            summary["end"] is not None
        ):  # a run without an end may begin or stop to run without a change of files
            self._summaries[run.id] = signature, summary
        return summary

    def find_run(self, name: str) -> Run | None:
        """Return the run with an id; None without one."""
        if name not in self._by_id:
            self.list_runs()
        return self._by_id.get(name)

    def _search(self) -> None:
        found = list(self._others)
        for run in _find_below(self._places):
            known = self._known.get(run.files.rows)
            if known is None:
                known = replace(run, id=f"r{len(self._known)}")
                self._known[run.files.rows] = self._by_id[known.id] = known
            found.append(known)
        self._shown = sorted(found, key=lambda run: -(run.read_time() or 0.0))


def find_runs(places: Sequence[Path]) -> list[Run]:
    """Return the runs at files of rows and below folders, newest first.

    Raises `ConfigError` for a place without a run and without a card of an audit.
    """
    found: list[Run] = []
    for place in places:
        runs = _find_below([place]) if place.is_dir() else _run_at(place)
        if not runs and not find_cards([place]):
            raise ConfigError(
                f"there is no run at {place}",
                code="no_run",
                remedy="Name a file of scored rows, or a folder that holds such files.",
            )
        found += runs
    unique = {_identify(run): run for run in found}
    newest = sorted(unique.values(), key=lambda run: -(run.read_time() or 0.0))[:_MOST_RUNS]
    return [replace(run, id=f"r{number}") for number, run in enumerate(newest)]


def _find_below(places: Sequence[Path]) -> list[Run]:
    """Return the runs below folders, each once, without ids."""
    found: dict[Path, Run] = {}
    for place in places:
        homes = _list_homes(place)
        runs = (Run("", show_path(title), files, homes) for title, files in _list_runs_below(place))
        found |= {_identify(run): run for run in runs}
    return list(found.values())[:_MOST_RUNS]


def _is_below(run: Run, place: Path) -> bool:
    return run.files.rows.is_relative_to(place)


def _list_homes(place: Path) -> tuple[Path, ...]:
    """Return the folders of a place without links. A file that a person names may be a link to elsewhere."""
    return (place.resolve(),) if place.is_dir() else (place.parent.resolve(), place.resolve().parent)


def _identify(run: Run) -> Path:
    """Return the path of rows without links, so that no run is shown twice; with them if they are not followed."""
    rows = run.files.rows
    return rows.absolute() if find_fault(rows, run.homes) else rows.resolve()


def _run_at(rows: Path) -> list[Run]:
    if find_ending(rows) is None:
        return []
    return [Run("", show_path(rows.name), RunFiles.from_existing(rows), _list_homes(rows))]


def _list_runs_below(folder: Path) -> Iterator[tuple[str, RunFiles]]:
    """Yield the runs below a folder, with those whose rows cannot be read. Folders that are links are left out."""
    homes = _list_homes(folder)
    for parent, folders, names in os.walk(folder):
        folders[:] = sorted(name for name in folders if not _is_left_out(name))
        # Of folders only those count that look like files of rows.
        stems = dict(filter(None, map(_split, (*names, *folders))))
        failed = {stem.removesuffix("_failures"): ending for stem, ending in stems.items()}
        started = {name.removesuffix(_MANIFEST) for name in names if name.endswith(_MANIFEST)}
        present = {*names, *folders}
        for stem in sorted({*failed, *started}):
            files = RunFiles(Path(parent), stem, stems.get(stem) or failed.get(stem) or ENDINGS[0])
            if not stem.endswith(_COMPANIONS) and _is_run(files, present, homes):
                yield str((Path(parent) / stem).relative_to(folder)), files


def _is_left_out(folder: str) -> bool:
    """Return whether a folder holds no runs: hidden ones, packages, and the records of a run's attempts."""
    return folder.startswith((".", "node_modules")) or folder.endswith("_attempts")


def _split(name: str) -> tuple[str, str] | None:
    """Return the stem and the ending of the name of a file of rows; None for another name."""
    ending = next((each for each in ENDINGS if name.endswith(each)), None)
    return None if ending is None else (name.removesuffix(ending), ending)


def _is_run(files: RunFiles, present: set[str], homes: tuple[Path, ...]) -> bool:
    """Return whether the files are of a run. `present` are the names in their folder."""
    if files.manifest.name in present:
        return True
    rows = files.rows
    if rows.name in present:
        return bool(find_fault(rows, homes)) or _begins_with(rows, b'"response"')
    return files.failures.name in present and _begins_with(files.failures, _FAILURE_MARK)


def _begins_with(path: Path, mark: bytes) -> bool:
    """Return whether the beginning of a file that is not packed holds a mark."""
    if path.suffix != ".jsonl":
        return False
    try:
        status = path.lstat()
    except OSError:  # removed in the meantime
        return False
    return _holds_mark(path, mark, status.st_ino, min(status.st_size, _HEAD_BYTES))


@lru_cache(maxsize=_MOST_KNOWN_FILES)
def _holds_mark(path: Path, mark: bytes, inode: int, size: int) -> bool:
    try:
        with path.open("rb") as file:
            return mark in file.read(size)
    except OSError:
        return False
