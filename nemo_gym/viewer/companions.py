"""The files beside a run's rows: manifest, metrics, nodes and marks.

A folder of runs may come from anywhere, and its files may be torn or of any form. A file is read only if it is a
regular one within the folders of its run: a named pipe would block, and a link may lead to any file of this machine.
Damage is a problem that the list of runs names, and never an error of the list.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any, Final, NamedTuple

import orjson
from pydantic import BaseModel, ConfigDict, NonNegativeInt, ValidationError

from nemo_gym.json_objects import finite_number
from nemo_gym.metrics import has_partial_rewards, mean, read_pass_curve, reward_interval
from nemo_gym.rollouts.output.run_facts import RunFacts, read_facts

_LARGEST: Final = 256 << 20
"""Bytes of a companion that is read."""
_DEEPEST: Final = 200
"""Levels of JSON. The answers of the server may have 254."""
_MOST_FAULTS: Final = 3
_MOST_KEPT: Final = 4096
"""Manifests and metrics that are not read again while they stay the same."""
_KINDS: Final = (
    (stat.S_ISDIR, "is a folder"),
    (stat.S_ISFIFO, "is a named pipe"),
    (stat.S_ISSOCK, "is a socket"),
    (stat.S_ISCHR, "is a device"),
    (stat.S_ISBLK, "is a device"),
)
_NEEDED: Final = frozenset({"count/scored", "mean/reward", "min/reward", "max/reward"})
_SHOWN: Final = frozenset({"count/tasks", "std/reward", "mean/total_tokens", "mean/seconds"})
_BOUNDS: Final = frozenset({"ci95_low/reward", "ci95_high/reward"})
_PASS_AT: Final = re.compile(r"(?:pass|short_tasks)@[1-9]\d{0,8}/reward")


def find_fault(path: Path, homes: Sequence[Path]) -> str | None:
    """Return why a file is not read, as the end of a sentence; None for one that can be read or does not exist.

    `homes` are the resolved folders of its run.
    """
    try:
        mode = os.lstat(path).st_mode
    except (OSError, ValueError):
        return None
    if stat.S_ISREG(mode) and any(os.path.dirname(os.path.abspath(path)) == str(home) for home in homes):  # noqa: PTH100, PTH120
        return _describe_access(path)  # no link is on its way, which most files of a list show at once
    try:
        real = path.resolve(strict=True)
        mode = real.stat().st_mode
    except FileNotFoundError:
        return "is a link to a file that does not exist"
    except (OSError, RuntimeError) as error:  # a RuntimeError for a circle of links, before Python 3.13
        return f"cannot be read ({getattr(error, 'strerror', None) or 'a circle of links'})"
    if not any(real.is_relative_to(home) for home in homes):
        return "is a link that leads out of the folder; name the run itself to see it"
    kind = next((words for is_kind, words in _KINDS if is_kind(mode)), None)
    return kind or _describe_access(real)


def _describe_access(path: Path) -> str | None:
    return None if os.access(path, os.R_OK) else "cannot be read (no permission)"


class Companion(NamedTuple):
    """The JSON of a file beside the rows; None without a readable file."""

    content: Any = None
    problem: str | None = None
    """The file's name and its damage."""

    def mark_damaged(self, path: Path, damage: str) -> Companion:
        """Return the companion without content, because of `damage`."""
        return Companion(None, f"{show_path(path.name)} {damage}")


_ABSENT: Final = Companion()


def read_companion(path: Path, homes: Sequence[Path]) -> Companion:
    """Return the JSON in a file and its problem. An absent or empty file has neither."""
    if (fault := find_fault(path, homes)) is not None:
        return _ABSENT.mark_damaged(path, fault)
    try:
        status = path.stat()
        if status.st_size > _LARGEST:
            return _ABSENT.mark_damaged(path, f"has more than {_LARGEST >> 20} MiB")
        data = path.read_bytes()
        content = orjson.loads(data) if data else None
    except FileNotFoundError:
        return _ABSENT
    except OSError as error:
        return _ABSENT.mark_damaged(path, f"cannot be read ({error.strerror})")
    except orjson.JSONDecodeError as error:
        return _ABSENT.mark_damaged(path, f"is not JSON: {error}")
    may_be_deep = data.count(b"[") + data.count(b"{") > _DEEPEST  # to look is slower than to parse
    if may_be_deep and is_deep(content):
        return _ABSENT.mark_damaged(path, "has too many levels")
    return Companion(content)


def read_object(path: Path, homes: Sequence[Path]) -> Companion:
    """Return the JSON object in a file, and its problem."""
    found = read_companion(path, homes)
    is_usable = found.content is None or isinstance(found.content, dict)
    return found if is_usable else found.mark_damaged(path, "does not hold an object")


class Counts(BaseModel):
    """The counts of a start that the viewer shows."""

    model_config = ConfigDict(strict=True)

    planned: NonNegativeInt | None = None
    finished_before: NonNegativeInt = 0
    completed: NonNegativeInt = 0
    truncated: NonNegativeInt = 0
    failed: NonNegativeInt | None = None


class Start(BaseModel):
    """The fields of a manifest's start that the viewer shows."""

    model_config = ConfigDict(strict=True)

    started_at: str | None = None
    end: str | None = None
    planned: NonNegativeInt | None = None
    logs: str | None = None
    counts: Counts | None = None


class LastStart(NamedTuple):
    """The last start in a manifest; None without one that can be read. And what its identity tells of the run."""

    start: Start | None = None
    problem: str | None = None
    facts: RunFacts = RunFacts()


def read_last_start(path: Path, homes: tuple[Path, ...]) -> LastStart:
    """Return the last start of the run with the manifest at `path`, which is read again only when it changes."""
    try:
        status = path.lstat()
    except OSError:
        return LastStart()
    return _last_start_in(path, homes, status.st_mtime_ns, status.st_size)


@lru_cache(maxsize=_MOST_KEPT)
def _last_start_in(path: Path, homes: tuple[Path, ...], changed_ns: int, size: int) -> LastStart:
    found = read_object(path, homes)
    if found.content is None:
        return LastStart(None, found.problem)
    starts = found.content.get("starts")
    if not isinstance(starts, list):
        return LastStart(None, found.mark_damaged(path, "has no list `starts`").problem)
    facts = read_facts(found.content.get("identity"), starts)
    if not starts:
        return LastStart(facts=facts)
    try:
        return LastStart(Start.model_validate(starts[-1]), facts=facts)
    except ValidationError as error:
        place = f"starts[{len(starts) - 1}]"
        faults = [".".join((place, *map(str, each["loc"]))) + f": {each['msg']}" for each in error.errors()]
        return LastStart(
            None, found.mark_damaged(path, f"is damaged: {'; '.join(faults[:_MOST_FAULTS])}").problem
        )


class RunFigures(NamedTuple):
    """The figures of a run's metrics as the page reads them."""

    shown: Mapping[str, Any]
    problem: str | None = None


def read_figures(path: Path, homes: tuple[Path, ...]) -> RunFigures:
    """Return the figures of the metrics at `path`, which are read again only when the file changes."""
    try:
        status = path.lstat()
    except OSError:
        return RunFigures(_read_figures([]))
    return _figures_in(path, homes, status.st_mtime_ns, status.st_size)


@lru_cache(maxsize=_MOST_KEPT)
def _figures_in(path: Path, homes: tuple[Path, ...], changed_ns: int, size: int) -> RunFigures:
    found = read_companion(path, homes)
    if found.content is None:
        return RunFigures(_read_figures([]), found.problem)
    try:
        return RunFigures(_read_figures(list(_agents_in(found.content))))
    except ValueError as error:
        return RunFigures(_read_figures([]), found.mark_damaged(path, f"is damaged: {error}").problem)


def read_estimate(path: Path, homes: Sequence[Path]) -> RunFigures:
    """Return the estimate of a run with `until`, which is current while the run goes on; nothing without one."""
    found = read_object(path, homes)
    if found.content is None:
        return RunFigures({}, found.problem)
    numbers = {name: finite_number(found.content.get(name)) for name in ("mean", "low", "high")}
    if None in numbers.values():
        return RunFigures(
            {}, found.mark_damaged(path, "is damaged: mean, low and high must be numbers").problem
        )
    aim, text = str(found.content.get("aim")), found.content.get("text")
    lines = [line for line in text if isinstance(line, str)] if isinstance(text, list) else []
    interval = [numbers["low"], numbers["high"]]
    return RunFigures({"mean": numbers["mean"], "interval": interval, "aim": aim, "estimate": lines})


def _agents_in(content: Any) -> Iterator[dict[str, float]]:
    """Yield the figures of each agent with a score. Raises `ValueError` for metrics of another form."""
    if not isinstance(content, list):
        raise ValueError("it does not hold a list of agents")
    for number, entry in enumerate(content):
        metrics = entry.get("agent_metrics") if isinstance(entry, dict) else None
        if not isinstance(metrics, dict):
            raise ValueError(f"[{number}] has no object `agent_metrics`")
        if not metrics.keys() >= _NEEDED:
            continue
        shown = {
            name: value
            for name, value in metrics.items()
            if name in _NEEDED or (name in _BOUNDS | _SHOWN and value is not None) or _PASS_AT.fullmatch(name)
        }
        numbers = {name: finite_number(value) for name, value in shown.items()}
        if wrong := [name for name, value in numbers.items() if value is None]:
            raise ValueError(f"[{number}].agent_metrics: {', '.join(wrong[:_MOST_FAULTS])} must be numbers")
        yield {name: value for name, value in numbers.items() if value is not None}


def _read_figures(agents: Sequence[Mapping[str, float]]) -> dict[str, Any]:
    """Return the means over agents of their figures; the interval of the mean reward for one agent only.

    pass@k is that of the largest k that all agents have, as in the line `overall` of the closing table; `short_tasks`
    is the number of tasks with fewer rewards, which it leaves out.
    """
    interval = reward_interval(agents[0]) if len(agents) == 1 else None
    curves = [read_pass_curve(agent) for agent in agents]
    largest = max((k for k in (curves or [{}])[0] if all(k in curve for curve in curves)), default=None)
    return {
        "mean": _average(agents, "mean/reward"),
        "interval": [interval.low, interval.high] if interval else None,
        "short_tasks": sum(int(agent.get(f"short_tasks@{largest}/reward", 0)) for agent in agents),
        "pass_at": None if largest is None else [largest, mean([curve[largest] for curve in curves]) / 100],
        "is_best": any("std/reward" in agent and has_partial_rewards(agent) for agent in agents),
        "tokens": _average(agents, "mean/total_tokens"),
        "seconds": _average(agents, "mean/seconds"),
    }


def _average(agents: Sequence[Mapping[str, float]], name: str) -> float | None:
    """Return the mean over the agents that have it; None without one."""
    values = [agent[name] for agent in agents if name in agent]
    return mean(values) if values else None


def show_path(path: Path | str) -> str:
    """Return a path as text. Bytes that are no text are shown by their numbers: an answer cannot hold them."""
    return os.fsencode(path).decode(errors="backslashreplace")


def is_deep(content: Any) -> bool:
    """Return whether JSON has more levels than an answer of the server can have."""
    level = [content]
    for _ in range(_DEEPEST):
        level = [
            part
            for one in level
            for part in (one.values() if isinstance(one, dict) else one if isinstance(one, list) else ())
            if isinstance(part, dict | list)
        ]
        if not level:
            return False
    return True
