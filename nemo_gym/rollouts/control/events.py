"""`<stem>_events.jsonl`: the accepted requests to a run, one line each, in all of its starts.

A line is written before its request takes effect. A run without a request has no such file.

A resumed run takes this from it: values that were set hold, unless its command asks for others than the previous start
did. A pause holds if the run was killed during it, so that a supervisor that starts it again does not wake an engine
that is being redeployed; after any other end it is over. A drain is over with the start that it ended, and the rollouts
that were cancelled are missing like all failed ones.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import asdict, replace
from typing import Any, NamedTuple

import orjson

from nemo_gym.clock import wall_clock, write_time
from nemo_gym.json_objects import member
from nemo_gym.rollouts.control.verbs import ControlVerb, Effects, Phase, Tuning
from nemo_gym.rollouts.output.event_file import EventFile
from nemo_gym.rollouts.output.files import RunFiles
from nemo_gym.rollouts.plan.compression import holds_text
from nemo_gym.rollouts.plan.dataset import read_lines

_OF_RUN = "the resumed run"


class EventLog:
    """The events of a run. The file is opened for the first one of a start."""

    def __init__(self, files: RunFiles | None) -> None:
        """`files`: those of the run; None for a run without files, whose events are kept in memory only."""
        self._files = files
        self._file: EventFile | None = None
        self.events: list[dict[str, Any]] = []
        """The events of this start."""

    def add(self, verb: ControlVerb, effects: Effects, by: str) -> None:
        """Write an event. Raises `ConfigError` if the disk refuses it."""
        event = build_event(verb, effects, by)
        if self._files is not None:
            self._append(self._files, orjson.dumps(event))
        self.events.append(event)

    def read_earlier(self) -> list[dict[str, Any]]:
        """Return the events of earlier starts; an incomplete last line is left out."""
        events: list[dict[str, Any]] = []
        if self._files is None or not holds_text(self._files.events):
            return events
        with suppress(orjson.JSONDecodeError):
            for line in read_lines(self._files.events):
                events.append(orjson.loads(line.content))
        return events

    def _append(self, files: RunFiles, line: bytes) -> None:
        if self._file is None:
            self._file = EventFile(files)
        self._file.append(line)

    def close(self) -> None:
        if self._file is not None:
            self._file.close()


class Carried(NamedTuple):
    """The part of earlier starts that a resumed run takes over."""

    phase: Phase
    tuning: Tuning
    notes: tuple[str, ...] = ()


def carry_over(
    events: Iterable[Mapping[str, Any]], command: Tuning, previous: Mapping[str, Any] | None
) -> Carried:
    """Return the phase and the values with which a start begins.

    `command`: the values of its command. `previous`: the manifest's record of the previous start, None without one.
    """
    phase = Phase.RUNNING
    latest: dict[str, Any] = {}
    for event in events:
        phase = Phase(event["phase"])
        latest |= event.get("tuned") or {}
    before = member(previous, "settings") or {}
    kept = {
        name: value
        for name, value in latest.items()
        if before.get(name) == asdict(command)[name] and value != asdict(command)[name]
    }
    was_killed = previous is not None and previous.get("end") is None
    stays_paused = phase is Phase.PAUSED and was_killed
    notes = [f"{name} is {value}, as it was set during an earlier start" for name, value in kept.items()]
    if stays_paused:
        notes.append(
            "the run was killed while it was paused and stays paused: `gym ctl resume` starts rollouts"
        )
    return Carried(Phase.PAUSED if stays_paused else Phase.RUNNING, replace(command, **kept), tuple(notes))


def build_event(verb: ControlVerb, effects: Effects, by: str) -> dict[str, Any]:
    """Return the line of an accepted request."""
    event: dict[str, Any] = {
        "at": write_time(wall_clock(), "milliseconds"),
        "verb": verb.value,
        "by": by,
        "phase": effects.phase.value,
        "changes": list(effects.changes),
    }
    return event | ({"tuned": asdict(effects.tuning)} if verb is ControlVerb.SET else {})
