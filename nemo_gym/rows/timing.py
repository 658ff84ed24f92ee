"""The times of an attempt: `_ng_timing` has the seconds of each phase, and of each call of the policy loop.

    queue          waiting for a place at the agent (`placement.max_in_flight`)
    seed_session   opening the session
    act            the policy loop
    verify         the verifier
    total          all phases after `queue`
    calls          each call of the loop in the order of the answers: [server, path, seconds]

The sums over the calls of the model and of tools are made by readers. Calls may overlap.
"""

from __future__ import annotations

from collections.abc import Iterator
from enum import StrEnum
from typing import Final, NamedTuple
from urllib.parse import unquote

from nemo_gym.json_objects import finite_number
from nemo_gym.names import CALL_ROUTES
from nemo_gym.rows.forms import AnyRow
from nemo_gym.rows.parts import read_timing

PHASES: Final = ("queue", "seed_session", "act", "verify", "total")
SECONDS: Final = "seconds"
"""The name of a rollout's seconds among its numbers; `seconds/<phase>` are those of a phase."""
SHOWN_PHASES: Final = ("queue", "model", "tools", "verify")
"""The phases that figures name: where the time of a rollout can go."""
_MEASURED = (("total", SECONDS), ("queue", f"{SECONDS}/queue"), ("verify", f"{SECONDS}/verify"))


class CallKind(StrEnum):
    """The phase to which a call of the policy loop belongs."""

    MODEL = "model"
    TOOLS = "tools"


_OF_KIND = {kind: f"{SECONDS}/{kind}" for kind in CallKind}


class TimedCall(NamedTuple):
    """A call of the policy loop that was answered."""

    kind: CallKind
    name: str
    """The model server, or the tool."""
    seconds: float


def read_seconds(row: AnyRow) -> float | None:
    """Return the seconds that a row's rollout took; None for a row without timing."""
    return finite_number(read_timing(row).get("total"))


def measure_times(row: AnyRow) -> dict[str, float]:
    """Return the numbers of a row's times: `seconds`, and `seconds/<phase>` of the shown phases that it has."""
    timing = read_timing(row)
    measured: dict[str, float] = {}
    for phase, name in _MEASURED:
        seconds = finite_number(timing.get(phase))
        if seconds is not None:
            measured[name] = seconds
    if "calls" in timing:
        measured |= dict.fromkeys(_OF_KIND.values(), 0.0)
        for call in read_timed_calls(row):
            measured[_OF_KIND[call.kind]] += call.seconds
    return measured


def read_timed_calls(row: AnyRow) -> Iterator[TimedCall]:
    """Yield the calls of a row's policy loop that have times."""
    calls = read_timing(row).get("calls")
    for call in calls if isinstance(calls, list) else ():
        if not isinstance(call, list) or len(call) != 3:
            continue
        server, path, seconds = str(call[0]), str(call[1]), finite_number(call[2])
        if seconds is None:
            continue
        if path in CALL_ROUTES:
            yield TimedCall(CallKind.MODEL, server, seconds)
        else:
            yield TimedCall(CallKind.TOOLS, unquote(path.removeprefix("/")), seconds)
