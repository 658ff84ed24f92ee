"""`<stem>_draws.jsonl`: the tasks that a run with `until` has drawn, in order, one line a draw.

A line is written before the first rollout of its draw starts. With the rows it is the whole state of the run, so a run
that was killed goes on with the same draws. The first line says what a draw is. A run with another kind of draw cannot
continue the file, because the draws would have different means.

Two other lines are `{"discarded": [task, repeat]}`, a rollout that left no row, and `{"kept": 90, "lost": [88, 89]}`:
only the first 90 of the draws above count, and those with the numbers 88 and 89 lost a rollout in a kill.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import orjson

from nemo_gym.failures import ConfigError
from nemo_gym.rollouts.output._append_file import AppendFile
from nemo_gym.rollouts.output.files import RunFiles
from nemo_gym.rollouts.plan.dataset import read_lines
from nemo_gym.rows.identity import RolloutId


class DrawRecord(NamedTuple):
    """A draw, without its value."""

    unit: int
    """The number of what was drawn: a task, or a task for one of its agents."""
    repeat: int
    probability: float
    least: float
    """The smallest probability of any unit at this draw."""
    variance: float
    """The variance of the draw's score that was expected."""


class DrawFile:
    """The open file."""

    def __init__(self, files: RunFiles, kind: Mapping[str, Any]) -> None:
        """`kind`: what a draw is. Raises `ConfigError` if the file has other draws, or is damaged."""
        self._file = AppendFile(files.draws)
        self.records: list[DrawRecord] = []
        """The draws of earlier starts that count."""
        self.lost: set[int] = set()
        """The numbers of those that lost a rollout in a kill."""
        self.voided: list[DrawRecord] = []
        """The draws that do not count."""
        self.discarded: set[RolloutId] = set()
        """The rollouts whose agents wanted no row."""
        try:
            self._file.recover(files.first_free_torn())
            self._read(kind)
        except BaseException:
            self._file.close()
            raise

    def append(self, record: DrawRecord) -> None:
        """Write a draw. Raises `ConfigError` if the disk refuses it."""
        self._file.append(orjson.dumps(dict(zip(_KEYS, record, strict=True))))

    def note_discarded(self, identity: RolloutId) -> None:
        """Write that a rollout has ended and has no row."""
        self._append({"discarded": list(identity)})

    def keep(self, kept: int, lost: Sequence[int]) -> None:
        """Let only the first draws count, some of which lost a rollout."""
        self._append({"kept": kept, "lost": list(lost)})

    def _append(self, event: dict[str, Any]) -> None:
        self._file.append(orjson.dumps(event))
        self._take(event)

    def _take(self, line: Mapping[str, Any]) -> None:
        """Take a line after the first. Raises `KeyError` if it lacks a member."""
        if "kept" in line:
            self.lost |= {*line["lost"]}
            self.voided += self.records[line["kept"] :]
            del self.records[line["kept"] :]
        elif "discarded" in line:
            self.discarded.add(RolloutId(*line["discarded"]))
        else:
            self.records.append(DrawRecord(*(line[key] for key in _KEYS)))

    def close(self) -> None:
        self._file.close()

    def _read(self, kind: Mapping[str, Any]) -> None:
        path = self._file.path
        for number, (_, content) in enumerate(read_lines(path)):
            line = orjson.loads(content)
            if number:
                try:
                    self._take(line)
                except KeyError as error:
                    raise ConfigError(
                        f"{path}:{number + 1} is no draw: it lacks {error}",
                        code="draws_damaged",
                        remedy="Start again with +overwrite=true; the old files are moved aside.",
                    ) from error
            elif line != kind:
                raise _describe_difference(line, kind, path.name)
        if not self._file.size:
            self._file.append(orjson.dumps(kind))


_KEYS = ("unit", "repeat", "q", "least", "variance")


def _describe_difference(before: Mapping[str, Any], now: Mapping[str, Any], name: str) -> ConfigError:
    changed = [
        f"{key}: {before.get(key)} -> {now.get(key)}"
        for key in {**before, **now}
        if before.get(key) != now.get(key)
    ]
    return ConfigError(
        f"the draws in {name} are of another kind ({'; '.join(changed)})",
        code="draws_differ",
        remedy="Their interval is about another mean. Resume with the earlier options (the width may change), or "
        "start again with +overwrite=true.",
    )
