"""The runs that a viewer shows, their files and their state."""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, TypeAlias

from nemo_gym.names import NODES_FILE
from nemo_gym.rollouts.output.files import RunFiles
from nemo_gym.rollouts.output.nodes import drop_earlier_events
from nemo_gym.rollouts.output.run_state import RunProgress, RunState, is_being_written, name_state
from nemo_gym.rollouts.plan.compression import build_journal_path, holds_text
from nemo_gym.rollouts.plan.dataset import read_lines
from nemo_gym.tokens.vocabulary import Vocabulary, read_token_texts
from nemo_gym.viewer.companions import (
    Counts,
    LastStart,
    Start,
    find_fault,
    read_companion,
    read_estimate,
    read_figures,
    read_last_start,
    read_object,
    show_path,
)
from nemo_gym.viewer.nodes import read_nodes, summarize_nodes

_COMPANIONS = ("_failures", "_materialized_inputs")
_MOST_RUNS = 1000
_LOG_FOLDER = re.compile(r"\d{8}_\d{6}_\d+(_\d+)?")
"""The names of the log folders that gyms make: the date, the time and the process."""


Signature: TypeAlias = tuple[tuple[int, int], ...]
"""Of each file of a run, the time of its last change in nanoseconds and its bytes; zeros without it."""


@dataclass(frozen=True, slots=True)
class Run:
    """A run that the viewer shows."""

    id: str
    title: str
    files: RunFiles
    homes: tuple[Path, ...]
    """The folders that its files lie in, without links. Links that lead out of them are not followed."""

    def fault(self, path: Path) -> str | None:
        """Return why a file of the run, or its journal, is not read; None for one that can be read or is absent."""
        return find_fault(path, self.homes) or find_fault(build_journal_path(path), self.homes)

    def vocabulary(self) -> Vocabulary:
        """Return the texts of the tokens that were collected with the run. They may be none."""
        texts = self.files.token_texts
        return {} if self.fault(texts) else read_token_texts(texts)

    def logs(self) -> Path | None:
        """Return the folder with the logs of the servers at the last start; None if the run does not name one.

        It is below the folder of the rows, or it has the name of a gym's log folder. A manifest cannot name others.
        """
        start = self._last_start().start
        return None if start is None or start.logs is None else self._log_folder(start.logs)

    def nodes(self) -> dict[str, Any] | None:
        """Return the machines of the run's gym as the page reads them; None for a run on one machine."""
        start = self._last_start().start or Start()
        if start.end and (document := _nodes_in(*_read_version(self.files.nodes), self.homes)) is not None:
            return read_nodes(document, is_kept=True)
        logs = self.logs()
        document = _nodes_in(*_read_version(logs / NODES_FILE), (logs,)) if logs is not None else None
        if document is None:
            return None
        return read_nodes(drop_earlier_events(document, str(start.started_at)), is_kept=False)

    def state(self) -> RunState:
        """Return the state of the run now."""
        is_running = is_being_written(self.files.rows)
        if not is_running and self.fault(self.files.rows):
            return RunState.UNREADABLE
        start = self._last_start().start
        if start is None and not is_running:
            return RunState.UNKNOWN
        return name_state(start.end if start is not None else None, is_running=is_running)

    def read_signature(self) -> Signature | None:
        """Return the times and sizes of the files that the summary is made of; None if one is a link."""
        found = []
        for path in _list_signed(self.files):
            try:
                status = os.lstat(path)
            except OSError:
                found.append((0, 0))
                continue
            if stat.S_ISLNK(status.st_mode):
                return None
            found.append((status.st_ctime_ns, status.st_size))
        return tuple(found)

    def read_time(self) -> float | None:
        """Return when the rows changed last, in seconds since 1970; without rows, the failures or the manifest."""
        files = self.files
        found = filter(None, map(_read_status, (files.rows, files.failures, files.manifest)))
        status = next(found, None)
        return status.st_mtime if status is not None else None

    def describe_progress(self, rows: int | None = None) -> str | None:
        """Return the sentence about a run that has not all of its rows; None for any other.

        `rows` is the number of its rows. They are counted if it is None, which blocks while the file is read.
        """
        if self.fault(self.files.manifest) or self.fault(self.files.rows):
            return None
        if rows is None:
            rows = sum(1 for _ in read_lines(self.files.rows)) if holds_text(self.files.rows) else 0
        said = RunProgress.read(self.files).describe(rows)
        return None if said is None else f"{show_path(self.files.rows.name)}: {said}"

    def summary(self) -> dict[str, Any]:
        """Return the state, the times and the size of the run as JSON."""
        last, figures = self._last_start(), read_figures(self.files.aggregate_metrics, self.homes)
        estimate = read_estimate(self.files.estimate, self.homes)
        start = last.start or Start()
        counts = start.counts or Counts()
        scored = counts.finished_before + counts.completed + counts.truncated
        return {
            "id": self.id,
            "title": self.title,
            "path": show_path(self.files.rows),
            "state": self.state(),
            "problems": [
                *self._faults(),
                *filter(None, (last.problem, figures.problem, estimate.problem, self._log_fault(start))),
            ],
            "end": start.end,
            "planned": start.planned if counts.planned is None else counts.planned,
            "rows": None if start.counts is None else scored,
            "failures": counts.failed,
            "started_at": start.started_at,
            "updated_at": self.read_time(),
            **figures.shown,
            **last.facts.to_json(),
            **estimate.shown,
        }

    def details(self) -> dict[str, Any]:
        """Return the summary, the files, the manifest and the metrics of the run as JSON."""
        return {
            **self.summary(),
            "stem": show_path(self.files.stem),
            "looks_fine": self._marks(),
            "nodes": summarize_nodes(self.nodes()),
            "files": list(self._describe_files()),
            "manifest": read_object(self.files.manifest, self.homes).content,
            "metrics": _metrics_in(*_read_version(self.files.aggregate_metrics), self.homes),
        }

    def _last_start(self) -> LastStart:
        """Return the last start. That of a merged run, which has no manifest, is in the file of its shards."""
        found = read_last_start(self.files.manifest, self.homes)
        if found.start is not None or found.problem is not None:
            return found
        merged = read_last_start(self.files.shards, self.homes)
        return merged if merged.start is not None else found

    def _faults(self) -> Iterator[str]:
        """Yield the names and faults of the files that are not read. The manifest and the metrics have their own."""
        files = self.files
        for path in (files.rows, files.failures, files.materialized_inputs, *files.list_viewer_files()):
            if (fault := self.fault(path)) is not None:
                yield f"{show_path(path.name)} {fault}"

    def _log_folder(self, named: str) -> Path | None:
        try:
            folder = (self.files.folder / named).resolve()
            folder.exists()  # raises for a name that no file can have
            is_own = folder.is_relative_to(self.files.folder.resolve())
        except (OSError, RuntimeError, ValueError):  # a circle of links, or no path at all
            return None
        return folder if is_own or _LOG_FOLDER.fullmatch(folder.name) else None

    def _log_fault(self, start: Start) -> str | None:
        if start.logs is None or self._log_folder(start.logs) is not None:
            return None
        manifest = show_path(self.files.manifest.name)
        return f"{manifest} names a folder of logs that is neither beside the rows nor made by a gym"

    def _marks(self) -> list[str]:
        """Return the rollouts that `<stem>_looks_fine.json` marks, which the page saves."""
        marks = read_companion(self.files.looks_fine, self.homes).content
        return [mark for mark in marks if isinstance(mark, str)] if isinstance(marks, list) else []

    def _describe_files(self) -> Iterator[dict[str, Any]]:
        files = self.files
        for role, path, is_authoritative in (
            ("rows", files.rows, True),
            ("failures", files.failures, True),
            ("manifest", files.manifest, True),
            ("tasks", files.materialized_inputs, False),
            ("metrics", files.aggregate_metrics, False),
            ("draws", files.draws, True),
            ("requests of control", files.events, True),
            ("estimate", files.estimate, False),
            ("texts of tokens", files.token_texts, False),
            ("nodes", files.nodes, False),
        ):
            status = _read_status(path)
            if status is not None:
                yield {
                    "role": role,
                    "name": show_path(path.name),
                    "bytes": status.st_size,
                    "authoritative": is_authoritative,
                }


@lru_cache(maxsize=4096)
def _list_signed(files: RunFiles) -> tuple[str, ...]:
    """Return the paths of the files that the summary of a run is made of. Paths are slow to build."""
    return tuple(
        map(
            str,
            (
                build_journal_path(files.rows),
                files.rows,
                files.failures,
                files.manifest,
                files.shards,
                files.aggregate_metrics,
                files.materialized_inputs,
                files.estimate,
                *files.list_viewer_files(),
            ),
        )
    )


def _read_status(path: Path) -> os.stat_result | None:
    for each in (build_journal_path(path), path):
        try:
            return each.stat()
        except OSError:
            continue
    return None


def _read_version(path: Path) -> tuple[Path, int, int]:
    """Return a file's path, the time of its last change in nanoseconds, and its bytes; 0 for both without a file."""
    status = _read_status(path)
    return (path, status.st_mtime_ns, status.st_size) if status else (path, 0, 0)


@lru_cache(maxsize=16)
def _metrics_in(path: Path, changed_ns: int, size: int, homes: tuple[Path, ...]) -> Any:
    """Return the metrics without those of each task: the page has them from the rows."""
    content = read_companion(path, homes).content
    agents = content if isinstance(content, list) else []
    for agent in (each for each in agents if isinstance(each, dict)):
        agent.pop("group_level_metrics", None)
    return content


@lru_cache(maxsize=16)
def _nodes_in(path: Path, changed_ns: int, size: int, homes: tuple[Path, ...]) -> Mapping[str, Any] | None:
    content: Mapping[str, Any] | None = read_object(path, homes).content
    return content
