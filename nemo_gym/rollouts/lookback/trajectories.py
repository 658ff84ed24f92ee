"""The trajectories at a path, as a file of rows that every reader of runs takes.

A path is a trajectory (`.json`), lines of trajectories (`.jsonl`, compressed too), or a folder of trials as Harbor
leaves it: `<trial>/agent/trajectory.json`, with the reward in `<trial>/result.json`. A trajectory is in ATIF or
a trace of verifiers, of which a line is an episode with the traces of all seats.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import orjson

from nemo_gym.config.problems import ConfigErrors, Problem
from nemo_gym.failures import ConfigError, GymError
from nemo_gym.json_objects import dump_json, finite_number, member, parse_json
from nemo_gym.rollouts.plan.dataset import read_lines
from nemo_gym.rollouts.plan.task_rows import read_object
from nemo_gym.rows.compose import assign_agent, number_row
from nemo_gym.rows.forms import AnyRow
from nemo_gym.rows.identity import RolloutId, identity_in
from nemo_gym.sources import verifiers_traces
from nemo_gym.sources.atif.media import MediaFolder
from nemo_gym.sources.atif.reading import read_trajectory
from nemo_gym.sources.reading import ReadTrajectory
from nemo_gym.sources.verifiers_traces import find_traces, read_trace

_LINES = (".jsonl", ".jsonl.gz", ".jsonl.zst")
_IN_TRIAL = "agent/trajectory.json"


@dataclass(frozen=True, slots=True)
class FoundTrajectory:
    """A trajectory, with what its trial says of it."""

    place: str
    """Its file, and its line in a file of several."""
    folder: Path
    content: Any
    trial: Mapping[str, Any] = field(default_factory=dict)
    """`result.json` of the trial; empty without one."""
    is_trace: bool = False
    """True for a trace of verifiers."""

    @property
    def reward(self) -> float | None:
        """The reward of the trial."""
        return finite_number(member(self.trial, "verifier_result", "rewards", "reward"))

    def read(self) -> ReadTrajectory:
        """Return its row. Raises ConfigError for one that is invalid."""
        if self.is_trace:
            return read_trace(self.content, self.place)
        return read_trajectory(self.content, self.place, MediaFolder(self.folder), self.reward)

    def list_task_names(self) -> list[str]:
        """Return the names that its task may have, the surest first."""
        if self.is_trace:
            return verifiers_traces.list_task_names(self.content)
        extra, stated = member(self.content, "extra"), self.trial.get("task_name")
        names = [member(extra, "task_id"), member(extra, "task_name"), stated]
        names += [str(stated).rpartition("/")[2]] if stated else []
        names += [str(self.trial.get("trial_name") or "").rpartition("__")[0]]
        names += [member(self.content, name) for name in ("trajectory_id", "session_id")]
        return [*dict.fromkeys(str(name) for name in names if name)]


@dataclass(slots=True)
class TrajectoryRows:
    """The rows of trajectories."""

    rows: list[AnyRow] = field(default_factory=list)
    ours: int = 0
    """Rows of this gym that nothing has changed."""
    lost: Counter[str] = field(default_factory=Counter)
    """Field that rows have no place for → how many."""

    def describe(self) -> str:
        """Return a sentence about the rows."""
        foreign = len(self.rows) - self.ours
        said = f"{len(self.rows):,} trajectories: {self.ours:,} of this gym, {foreign:,} of other programs"
        fields = ", ".join(f"{count:,} {name}" for name, count in self.lost.most_common())
        return f"{said}; no place for {fields}" if fields else said

    def write(self, target: Path) -> None:
        """Write the rows to a file."""
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(b"".join(dump_json(row) + b"\n" for row in self.rows))


def holds_trajectories(path: Path) -> bool:
    """Return whether a path is one of trajectories, by its name and its first bytes."""
    if path.is_dir():
        return next(path.glob(f"*/{_IN_TRIAL}"), None) is not None
    if not path.is_file() or not path.name.endswith((".json", *_LINES)):
        return False
    try:
        first = next(iter(_read_contents(path)), None)
    except (ConfigError, OSError, ValueError):
        return False
    if first is None:
        return False
    is_atif = str(member(first[1], "schema_version")).startswith("ATIF-")
    return is_atif or next(find_traces(first[1]), None) is not None


def find_trajectories(path: Path) -> Iterator[FoundTrajectory]:
    """Yield the trajectories at a path. Raises ConfigError for a file that is no JSON, and if there is none."""
    if path.is_dir():
        files = sorted(path.glob(f"*/{_IN_TRIAL}"))
        for file in files:
            result = file.parents[1] / "result.json"
            trial = _read_file(result) if result.is_file() else {}
            yield FoundTrajectory(
                str(file), file.parent, _read_file(file), trial if isinstance(trial, dict) else {}
            )
    else:
        files = [path] if path.is_file() else []
        for line, content in _read_contents(path) if files else ():
            place, traces = f"{path}:{line}" if line else str(path), [*find_traces(content)]
            for trace in traces:
                yield FoundTrajectory(place, path.parent, trace, is_trace=True)
            if not traces:
                yield FoundTrajectory(place, path.parent, content)
    if not files:
        raise ConfigError(
            f"There are no trajectories at {path}.",
            code="no_trajectories",
            remedy=f"A file of trajectories is .json or .jsonl, and a folder has */{_IN_TRIAL}.",
        )


def _read_contents(path: Path) -> Iterator[tuple[int, Any]]:
    """Yield the trajectories of a file with their lines; line 0 for a file of one."""
    if path.name.endswith(".json"):
        yield 0, _read_file(path)
        return
    for line in read_lines(path):
        try:
            yield line.number, parse_json(line.content)
        except orjson.JSONDecodeError as error:
            raise _not_json(f"{path}:{line.number}", error) from error


def _read_file(path: Path) -> Any:
    try:
        return parse_json(path.read_bytes())
    except orjson.JSONDecodeError as error:
        raise _not_json(str(path), error) from error


def _not_json(place: str, error: Exception) -> ConfigError:
    return ConfigError(f"{place} is no JSON: {error}", code="invalid_trajectory")


def read_rows(
    path: Path, tasks: Mapping[str, AnyRow] | None = None, agent: str | None = None
) -> TrajectoryRows:
    """Return a row for each trajectory at a path, numbered by task.

    With `tasks`, task rows by name, a foreign trajectory gets the members of its task's row, and `agent` in the place
    of its own. Raises ConfigErrors with every trajectory that is invalid, or that has no task among them.
    """
    found, problems = TrajectoryRows(), []
    numbers: dict[str, int] = {}
    repeats: Counter[str] = Counter()
    for trajectory in find_trajectories(path):
        names = trajectory.list_task_names()
        try:
            read = trajectory.read()
        except GymError as error:
            problems.append(Problem(None, error.failure.message))
            continue
        row: AnyRow = read.row
        if not read.is_ours and tasks is not None:
            task = next((tasks[name] for name in names if name in tasks), None)
            if task is None:
                problems.append(_build_missing(trajectory.place, names))
                continue
            row = {**task, **row}
            row = row if agent is None else assign_agent(row, agent)
        if identity_in(row) is None:
            name = names[0] if names else trajectory.place
            number = numbers.setdefault(name, len(numbers))
            row = number_row(row, RolloutId(number, repeats[name]))
            repeats[name] += 1
        found.rows.append(row)
        found.ours += read.is_ours
        found.lost.update(read.lost)
    if problems:
        raise ConfigErrors(problems)
    return found


def _build_missing(place: str, names: list[str]) -> Problem:
    named = ", ".join(names) or "it has no name"
    return Problem(
        None,
        f"{place}: none of the task rows is its task ({named})",
        "A task row is found by `task_id`, `id`, `name` or `uuid`; `extra.task_id` of the trajectory names it.",
    )


def read_task_rows(path: Path) -> dict[str, AnyRow]:
    """Return the rows of a dataset by each of their names. Raises ConfigError for a line that is no row."""
    found: dict[str, AnyRow] = {}
    for line in read_lines(path):
        row = read_object(
            line.content, f"{path}:{line.number}", code="invalid_row", remedy="A row is an object."
        )
        for key in ("task_id", "id", "name", "uuid"):
            if isinstance(row.get(key), str | int):
                found.setdefault(str(row[key]), row)
    return found
