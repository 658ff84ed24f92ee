"""Runs and the runs of their forks: the manifest of forks names the rows of their parents.

A named file is only compared with those of the runs that are shown. It is never opened.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

from nemo_gym.json_objects import member
from nemo_gym.viewer.companions import read_object
from nemo_gym.viewer.runs import Run

_MOST_KEPT = 4096


class ForkedRun(NamedTuple):
    """The facts about their parents in the manifest of forks."""

    rows: frozenset[Path]
    """Where the parents' rows may lie."""
    turn: int
    forks: int
    """The number of forks of each parent."""


def describe_family(run: Run, runs: Iterable[Run]) -> dict[str, Any]:
    """Return, among the runs that are shown, the one that a run's rollouts were forked from, and those of its forks."""
    own, rows = read_forked(run), run.files.rows.absolute()
    parent: dict[str, Any] | None = None
    forks: list[dict[str, Any]] = []
    for other in runs:
        if other.id == run.id:
            continue
        if own is not None and other.files.rows.absolute() in own.rows:
            parent = parent or _describe(other, own)
        forked = read_forked(other)
        if forked is not None and rows in forked.rows:
            forks.append(_describe(other, forked))
    return {"parent_run": parent, "fork_runs": forks}


def read_forked(run: Run) -> ForkedRun | None:
    """Return what a run of forks was made from; None for another run. It is read again when the manifest changes."""
    try:
        status = run.files.manifest.lstat()
    except OSError:
        return None
    return _forked_in(run.files.manifest, run.homes, status.st_mtime_ns, status.st_size)


@lru_cache(maxsize=_MOST_KEPT)
def _forked_in(path: Path, homes: Sequence[Path], changed_ns: int, size: int) -> ForkedRun | None:
    manifest = read_object(path, homes).content
    settings = member(manifest, "identity", "settings")
    name, turn, forks = (member(settings, key) for key in ("forked", "turn", "forks"))
    if not isinstance(name, str) or type(turn) is not int or type(forks) is not int or forks < 1:
        return None
    starts = manifest["starts"] if isinstance(manifest.get("starts"), list) else []
    named = [member(start, "settings", "forked") for start in starts]
    places = [path.parent / name, *(Path(each) for each in named if isinstance(each, str))]
    return ForkedRun(frozenset(place.absolute() for place in places), turn, forks)


def _describe(run: Run, forked: ForkedRun) -> dict[str, Any]:
    return {"run": run.id, "title": run.title, "turn": forked.turn, "forks": forked.forks}
