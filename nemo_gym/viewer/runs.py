"""The runs that a viewer shows, their files and their state."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache
from pathlib import Path
from typing import Any

import orjson

from nemo_gym.failures import ConfigError
from nemo_gym.metrics import reward_by_k, reward_interval
from nemo_gym.names import NODES_FILE
from nemo_gym.rollouts.output.files import ENDINGS, RunFiles, ending_of
from nemo_gym.rollouts.output.nodes import read_nodes, since
from nemo_gym.rollouts.plan.compression import holds_text, journal_of
from nemo_gym.tokens.vocabulary import Vocabulary, read_token_texts
from nemo_gym.viewer.nodes import nodes_of, summary_of

_LOCKS = Path("/proc/locks")
_COMPANIONS = ("_failures", "_materialized_inputs")
_SCORED_COUNTS = ("finished_before", "completed", "truncated")
_MOST_RUNS = 1000
_NEEDED = {"count/scored", "mean/reward", "min/reward", "max/reward"}


class RunState(StrEnum):
    """The state of a run, from its manifest and the lock on its rows."""

    RUNNING = "running"
    STOPPED = "stopped"
    """It ended before its plan, or was killed. It can be resumed."""
    PARTIAL = "partial"
    """All rollouts are settled, and some have no score."""
    COMPLETE = "complete"
    UNKNOWN = "unknown"
    """It has no manifest: another program wrote the rows."""


@dataclass(frozen=True, slots=True)
class Run:
    """A run that the viewer shows."""

    id: str
    title: str
    files: RunFiles

    def vocabulary(self) -> Vocabulary:
        """Return the texts of the tokens that were collected with the run. They may be none."""
        return read_token_texts(self.files.token_texts)

    def logs(self) -> Path | None:
        """Return the folder with the logs of the servers at the last start; None if the run does not name one."""
        named = self._last_start().get("logs")
        return self.files.folder / named if isinstance(named, str) else None

    def nodes(self) -> dict[str, Any] | None:
        """Return the machines of the run's gym as the page reads them; None for a run on one machine."""
        start, kept = self._last_start(), _version_of(self.files.nodes)
        if start.get("end") and (document := _nodes_in(*kept)) is not None:
            return nodes_of(document, is_kept=True)
        logs = self.logs()
        document = _nodes_in(*_version_of(logs / NODES_FILE)) if logs is not None else None
        if document is None:
            return None
        return nodes_of(since(document, str(start.get("started_at"))), is_kept=False)

    def state(self) -> RunState:
        """Return the state of the run now."""
        if _is_locked(self.files.rows):
            return RunState.RUNNING
        start = self._last_start()
        if not start:
            return RunState.UNKNOWN
        return {"complete": RunState.COMPLETE, "partial": RunState.PARTIAL}.get(
            str(start.get("end")), RunState.STOPPED
        )

    def summary(self) -> dict[str, Any]:
        """Return the state, the times and the size of the run as JSON."""
        start = self._last_start()
        counts = start.get("counts") or {}
        status = _status_of(self.files.rows)
        return {
            "id": self.id,
            "title": self.title,
            "path": str(self.files.rows),
            "state": self.state(),
            "end": start.get("end"),
            "planned": counts.get("planned", start.get("planned")),
            "rows": sum(counts.get(key, 0) for key in _SCORED_COUNTS) if counts else None,
            "failures": counts.get("failed"),
            "started_at": start.get("started_at"),
            "updated_at": status.st_mtime if status else None,
            **_figures_in(*_version_of(self.files.aggregate_metrics)),
        }

    def details(self) -> dict[str, Any]:
        """Return the summary, the files, the manifest and the metrics of the run as JSON."""
        return {
            **self.summary(),
            "stem": self.files.stem,
            "looks_fine": self._marks(),
            "nodes": summary_of(self.nodes()),
            "files": list(self._described_files()),
            "manifest": _object_in(self.files.manifest),
            "metrics": _metrics_in(*_version_of(self.files.aggregate_metrics)),
        }

    def _last_start(self) -> Mapping[str, Any]:
        """Return the entry of the last start in the manifest; empty without one."""
        starts = (_object_in(self.files.manifest) or {}).get("starts")
        last = starts[-1] if isinstance(starts, list) and starts else None
        return last if isinstance(last, Mapping) else {}

    def _marks(self) -> list[str]:
        """Return the rollouts that `<stem>_looks_fine.json` marks, which the page saves."""
        marks = _content_of(self.files.looks_fine)
        return [str(mark) for mark in marks] if isinstance(marks, list) else []

    def _described_files(self) -> Iterator[dict[str, Any]]:
        files = self.files
        for role, path, is_authoritative in (
            ("rows", files.rows, True),
            ("failures", files.failures, True),
            ("manifest", files.manifest, True),
            ("tasks", files.materialized_inputs, False),
            ("metrics", files.aggregate_metrics, False),
            ("texts of tokens", files.token_texts, False),
            ("nodes", files.nodes, False),
        ):
            status = _status_of(path)
            if status is not None:
                yield {
                    "role": role,
                    "name": path.name,
                    "bytes": status.st_size,
                    "authoritative": is_authoritative,
                }


def find_runs(places: Sequence[Path]) -> list[Run]:
    """Return the runs at files of rows and below folders, newest first.

    Raises `ConfigError` for a place without a run.
    """
    found: dict[Path, tuple[str, RunFiles]] = {}
    for place in places:
        runs = list(_runs_below(place)) if place.is_dir() else _run_at(place)
        if not runs:
            raise ConfigError(
                f"there is no run at {place}",
                code="no_run",
                remedy="Name a file of scored rows, or a folder that holds such files.",
            )
        found |= {files.rows.resolve(): (title, files) for title, files in runs}
    newest = sorted(found.values(), key=lambda each: -_time_of(each[1]))[:_MOST_RUNS]
    return [Run(f"r{number}", title, files) for number, (title, files) in enumerate(newest)]


def _run_at(rows: Path) -> list[tuple[str, RunFiles]]:
    return [(rows.name, RunFiles.existing(rows))] if ending_of(rows) else []


def _runs_below(folder: Path) -> Iterator[tuple[str, RunFiles]]:
    for parent, folders, names in os.walk(folder):
        folders[:] = sorted(name for name in folders if not name.startswith((".", "node_modules")))
        for name in sorted(names):
            ending = next((each for each in ENDINGS if name.endswith(each)), None)
            stem = name.removesuffix(ending or "")
            if ending is None or stem.endswith(_COMPANIONS):
                continue
            files = RunFiles(Path(parent), stem, ending)
            if files.manifest.exists() or _begins_with_a_rollout(files.rows):
                yield str((Path(parent) / stem).relative_to(folder)), files


def _begins_with_a_rollout(path: Path) -> bool:
    if path.suffix != ".jsonl":
        return False
    with path.open("rb") as file:
        return b'"response"' in file.read(1 << 20)


def _time_of(files: RunFiles) -> float:
    status = _status_of(files.rows)
    return status.st_mtime if status else 0.0


def _status_of(path: Path) -> os.stat_result | None:
    for each in (journal_of(path), path):
        try:
            return each.stat()
        except OSError:
            continue
    return None


def _is_locked(rows: Path) -> bool:
    """Return whether a process holds the lock of an output. The lock itself is not tried: that could refuse a run."""
    status = _status_of(rows)
    try:
        locks = _LOCKS.read_text().splitlines()
    except OSError:  # not Linux
        return False
    return status is not None and any(f":{status.st_ino} " in line and " FLOCK " in line for line in locks)


def _version_of(path: Path) -> tuple[Path, int, int]:
    """Return a file's path, the time of its last change in nanoseconds, and its bytes; 0 for both without a file."""
    status = _status_of(path)
    return (path, status.st_mtime_ns, status.st_size) if status else (path, 0, 0)


@lru_cache(maxsize=16)
def _metrics_in(path: Path, changed_ns: int, size: int) -> Any:
    """Return the metrics without those of each task: the page has them from the rows."""
    content = _content_of(path)
    agents = content if isinstance(content, list) else []
    for agent in (each for each in agents if isinstance(each, dict)):
        agent.pop("group_level_metrics", None)
    return content


@lru_cache(maxsize=16)
def _nodes_in(path: Path, changed_ns: int, size: int) -> Mapping[str, Any] | None:
    return read_nodes(path)


@lru_cache(maxsize=_MOST_RUNS)
def _figures_in(path: Path, changed_ns: int, size: int) -> dict[str, Any]:
    content = _content_of(path)
    entries = content if isinstance(content, list) else []
    metrics = [entry.get("agent_metrics") for entry in entries if isinstance(entry, dict)]
    return _figures_of([agent for agent in metrics if isinstance(agent, dict) and agent.keys() >= _NEEDED])


def _figures_of(agents: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return the mean reward of all agents; with one agent, its interval and the pass@k of the largest k too."""
    count = sum(agent["count/scored"] for agent in agents)
    only = agents[0] if len(agents) == 1 else {}
    interval = reward_interval(only)
    passed = {k: percent / 100 for k, percent in reward_by_k(only, "pass").items()}
    total = sum(agent["count/scored"] * agent["mean/reward"] for agent in agents)
    return {
        "mean": total / count if count else None,
        "interval": [interval.low, interval.high] if interval else None,
        "pass_at": max(passed.items(), default=None),
    }


def _object_in(path: Path) -> Mapping[str, Any] | None:
    content = _content_of(path)
    return content if isinstance(content, Mapping) else None


def _content_of(path: Path) -> Any:
    try:
        return orjson.loads(path.read_bytes()) if holds_text(path) else None
    except (OSError, orjson.JSONDecodeError):
        return None
