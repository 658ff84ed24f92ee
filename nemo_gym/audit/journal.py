"""The file of an audit's outcomes: a line per task, written when all its probes are done.

The first line says what was audited and how. A resumed audit must have the same; it skips the tasks in the file. A line
that a crash left incomplete is dropped.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from nemo_gym.audit.outcomes import ProbeOutcome
from nemo_gym.failures import ConfigError
from nemo_gym.json_objects import dump_json, object_in

_TASK, _OUTCOMES = "task", "outcomes"


class AuditJournal:
    """Outcomes on disk, by task. `plan` is the first line: JSON that a resumed audit must share."""

    def __init__(self, file: Path, plan: Mapping[str, Any], *, resume: bool) -> None:
        """Raises `ConfigError` if `file` exists without `resume`, or has another plan."""
        self.file = file
        self._done: dict[str, list[ProbeOutcome]] = {}
        lines = _read_whole_lines(file)
        if lines and not resume:
            raise ConfigError(
                f"{file} has an earlier audit",
                code="output_exists",
                remedy="Continue it with +resume_from_cache=true (gym: --resume), or name another folder.",
            )
        if lines:
            self._take_over(lines, plan)
        file.parent.mkdir(parents=True, exist_ok=True)
        kept = [dump_json(dict(plan)), *lines[1:]]
        file.write_bytes(b"".join(line + b"\n" for line in kept))
        self._output = file.open("ab")

    def _take_over(self, lines: list[bytes], plan: Mapping[str, Any]) -> None:
        earlier = object_in(lines[0])
        if earlier != plan:
            before = earlier or {}
            changed = sorted(key for key in {*before, *plan} if before.get(key) != plan.get(key))
            raise ConfigError(
                f"{self.file} has an audit with another {', '.join(changed)}",
                code="another_audit",
                remedy="Name another folder, or audit with the same settings, tasks and code.",
            )
        for line in lines[1:]:
            record = object_in(line) or {}
            self._done[record[_TASK]] = [ProbeOutcome.from_json(values) for values in record[_OUTCOMES]]

    @property
    def done(self) -> Mapping[str, list[ProbeOutcome]]:
        """The outcomes of each finished task."""
        return self._done

    def add(self, task: str, outcomes: Iterable[ProbeOutcome]) -> None:
        self._done[task] = list(outcomes)
        record = {_TASK: task, _OUTCOMES: [outcome.as_json() for outcome in self._done[task]]}
        self._output.write(dump_json(record) + b"\n")
        self._output.flush()

    def close(self) -> None:
        self._output.close()

    def list_outcomes(self) -> Iterator[ProbeOutcome]:
        """Yield all outcomes, by the names of their tasks."""
        for _, outcomes in sorted(self._done.items()):
            yield from outcomes


def _read_whole_lines(file: Path) -> list[bytes]:
    if not file.is_file():
        return []
    lines = file.read_bytes().split(b"\n")[:-1]  # what follows the last newline is incomplete
    return [line for line in lines if object_in(line) is not None]
