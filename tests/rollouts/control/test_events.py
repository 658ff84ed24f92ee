"""The events of a run, and what a resumed run takes from them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import orjson
import pytest

from nemo_gym.rollouts.control.events import Carried, EventLog, build_event, carry_over
from nemo_gym.rollouts.control.verbs import ControlRequest, ControlState, ControlVerb, Phase, Tuning, decide
from nemo_gym.rollouts.output.files import RunFiles

COMMAND = Tuning(64, 3, 1800.0)
SETTINGS = {"num_samples_in_parallel": 64, "max_attempts": 3, "rollout_timeout_s": 1800.0}
KILLED: dict[str, Any] = {"settings": SETTINGS}
ENDED: dict[str, Any] = {"settings": SETTINGS, "end": "interrupted"}


def events(*requests: tuple[ControlVerb, dict[str, Any]]) -> list[dict[str, Any]]:
    """The events of requests to a run, one after the other."""
    state, written = ControlState(Phase.RUNNING, COMMAND), []
    for verb, body in requests:
        effects = decide(state, verb, ControlRequest(**body))
        state = ControlState(effects.phase, effects.tuning)
        written.append(build_event(verb, effects, "a test"))
    return written


PAUSE: tuple[ControlVerb, dict[str, Any]] = (ControlVerb.PAUSE, {})
RESUME: tuple[ControlVerb, dict[str, Any]] = (ControlVerb.RESUME, {})
SET: tuple[ControlVerb, dict[str, Any]] = (ControlVerb.SET, {"num_samples_in_parallel": 8})


@pytest.mark.parametrize(
    ("requests", "previous", "phase", "in_parallel"),
    [
        ([], ENDED, Phase.RUNNING, 64),
        ([PAUSE], KILLED, Phase.PAUSED, 64),
        ([PAUSE], ENDED, Phase.RUNNING, 64),
        ([PAUSE, RESUME], KILLED, Phase.RUNNING, 64),
        ([PAUSE, (ControlVerb.DRAIN, {})], KILLED, Phase.RUNNING, 64),
        ([SET], ENDED, Phase.RUNNING, 8),
        ([SET, PAUSE], KILLED, Phase.PAUSED, 8),
        ([SET, (ControlVerb.SET, {"num_samples_in_parallel": 64})], ENDED, Phase.RUNNING, 64),
    ],
)
def test_a_resumed_run_takes_over_values_and_the_pause_in_which_it_was_killed(
    requests: list[tuple[ControlVerb, dict[str, Any]]],
    previous: dict[str, Any],
    phase: Phase,
    in_parallel: int,
) -> None:
    carried = carry_over(events(*requests), COMMAND, previous)
    assert carried[:2] == (phase, Tuning(in_parallel, 3, 1800.0))
    assert len(carried.notes) == (in_parallel != 64) + (phase is Phase.PAUSED)


def test_a_command_that_asks_for_another_value_than_the_start_before_wins() -> None:
    assert carry_over(events(SET), Tuning(32, 3, 1800.0), ENDED) == Carried(
        Phase.RUNNING, Tuning(32, 3, 1800.0)
    )


def test_events_are_lines_of_all_starts_and_a_torn_one_is_kept_apart(tmp_path: Path) -> None:
    files = RunFiles.from_output(tmp_path / "rollouts.jsonl")
    log = EventLog(files)
    assert (log.read_earlier(), files.events.exists()) == ([], False)
    log.add(
        ControlVerb.PAUSE,
        decide(ControlState(Phase.RUNNING, COMMAND), ControlVerb.PAUSE, ControlRequest()),
        "me",
    )
    log.close()
    with files.events.open("ab") as file:
        file.write(b'{"at": "2026')
    again = EventLog(files)
    assert [event["verb"] for event in again.read_earlier()] == ["pause"]
    again.add(
        ControlVerb.RESUME,
        decide(ControlState(Phase.PAUSED, COMMAND), ControlVerb.RESUME, ControlRequest()),
        "me",
    )
    again.close()
    lines = [orjson.loads(line) for line in files.events.read_bytes().splitlines()]
    assert [(line["verb"], line["by"], line["phase"]) for line in lines] == [
        ("pause", "me", "paused"),
        ("resume", "me", "running"),
    ]
    assert [event["verb"] for event in again.events] == ["resume"]
