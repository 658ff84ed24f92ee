"""Faults of calls and of the collector, as data.

A call fault selects its call by the call's number on its route, so any fault can be removed from a plan. The module
also defines the faults that an attempt must tolerate.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from typing import TypeAlias

AGENT, MODEL, ENVIRONMENT, ENGINE, HEAD = "agent", "policy_model", "environment", "engine", "head_server"

RUN = (AGENT, "/run")
ASK = (MODEL, "/v1/responses")
SEED = (ENVIRONMENT, "/seed_session")
TOOL = (ENVIRONMENT, "/add")
VERIFY = (ENVIRONMENT, "/verify")
CLOSE = (ENVIRONMENT, "/close_session")
GENERATE = (ENGINE, "/v1/chat/completions")
PREFLIGHT = (MODEL, "/preflight")
DISCOVER = (HEAD, "/global_config_dict_yaml")
MEASURE = (AGENT, "/aggregate_metrics")

Place: TypeAlias = tuple[str, str]
"""A server and one of its routes."""


class FaultKind(StrEnum):
    """The kind of a call's fault."""

    SLOW = "slow"
    """The call arrives `seconds` late."""
    REFUSED = "refused"
    """The connection is refused."""
    RESET_BEFORE = "reset_before"
    """The connection breaks before execution."""
    RESET_DURING = "reset_during"
    """The connection breaks `seconds` after the handler started; the handler can detect it."""
    RESET_AFTER = "reset_after"
    """The connection breaks after execution; the answer is lost."""
    SILENT_BEFORE = "silent_before"
    """The request is accepted, but neither executed nor answered."""
    SILENT_AFTER = "silent_after"
    """The request is executed, but the answer never arrives."""
    HTTP_429 = "http_429"
    """An engine's 429 with a `Retry-After` of `seconds`. Like the next four, it is sent without execution."""
    HTTP_500 = "http_500"
    HTTP_502 = "http_502"
    HTTP_503 = "http_503"
    HTTP_504 = "http_504"
    LATE_504 = "late_504"
    """A proxy's 504 after the call was executed."""
    CUT_JSON = "cut_json"
    """The handler answers with half the JSON."""
    NONSENSE = "nonsense"
    """The handler answers HTTP 200 with JSON of another shape."""
    FAILS = "fails"
    """The handler fails with the gym's own error envelope."""
    NO_REWARD = "no_reward"
    """The reward in the verifier's answer is null."""
    OVERFLOW = "overflow"
    """The engine answers with a context-length error."""
    CRASH = "crash"
    """The server's process dies shortly after the call arrived, and restarts after `seconds`."""


@dataclass(frozen=True, slots=True)
class CallFault:
    """A fault of the `nth` call of a route, counted from 1 over the whole simulation."""

    place: Place
    nth: int
    kind: FaultKind
    seconds: float = 0.0

    def __str__(self) -> str:
        how_long = f" ({self.seconds:g} s)" if self.seconds else ""
        return f"{self.place[0]} {self.place[1]}, call {self.nth}: {self.kind}{how_long}"


class CollectorFaultKind(StrEnum):
    """The kind of a collector's fault."""

    DIES_WRITING = "dies_writing"
    """The process dies at the `at`-th operation on `file`, or on any file, with `share` of the bytes written."""
    KILLED = "killed"
    """The process dies after `at` virtual seconds."""
    INTERRUPTED = "interrupted"
    """The run is interrupted after `at` virtual seconds, and again `share` of `SECOND_INTERRUPT_WITHIN_S` later."""


SECOND_INTERRUPT_WITHIN_S = 40.0


@dataclass(frozen=True, slots=True)
class CollectorFault:
    """A fault of the collector."""

    kind: CollectorFaultKind
    at: float
    share: float = 0.0
    file: str = ""
    """A part of the file's name, or of its temporary file's name; empty for every file."""

    def __str__(self) -> str:
        if self.kind is CollectorFaultKind.DIES_WRITING:
            where = self.file or "any file"
            return f"collector: dies at operation {self.at:g} on {where}, {100 * self.share:.0f} % of it done"
        return f"collector: {self.kind} at {self.at:g} s"


@dataclass(frozen=True, slots=True)
class Partition:
    """The node is cut off from all other machines after `at` virtual seconds, for `seconds`."""

    at: float
    seconds: float

    def __str__(self) -> str:
        return f"node: cut off at {self.at:g} s for {self.seconds:g} s"


COLLECTOR = "collector"


@dataclass(frozen=True, slots=True)
class CrashAtCall:
    """A process dies soon after the engine has answered its `nth` call, in the middle of attempts.

    `server` restarts after `seconds`; the collector is started again by its operator.
    """

    server: str
    nth: int
    seconds: float

    def __str__(self) -> str:
        return f"{self.server}: crash_at_call {self.nth} of the engine ({self.seconds:g} s)"


Fault: TypeAlias = CallFault | CollectorFault | Partition | CrashAtCall

_RETRIED = frozenset(
    {
        FaultKind.SLOW,
        FaultKind.REFUSED,
        FaultKind.RESET_BEFORE,
        FaultKind.RESET_DURING,
        FaultKind.RESET_AFTER,
        FaultKind.HTTP_429,
        FaultKind.HTTP_502,
        FaultKind.HTTP_503,
        FaultKind.HTTP_504,
        FaultKind.LATE_504,
    }
)
"""Faults that the retries of a repeatable call tolerate."""

_ANSWERS_OF_A_TOOL = frozenset(
    {
        FaultKind.HTTP_429,
        FaultKind.HTTP_500,
        FaultKind.HTTP_502,
        FaultKind.HTTP_503,
        FaultKind.HTTP_504,
        FaultKind.LATE_504,
        FaultKind.CUT_JSON,
        FaultKind.NONSENSE,
        FaultKind.FAILS,
    }
)
"""Faults that the policy reads as the tool's output."""

SHORT_OUTAGE_S = 20.0
"""Seconds of an engine's outage that callers must tolerate."""

_TOLERATED: dict[Place, frozenset[FaultKind]] = {
    RUN: frozenset({FaultKind.SLOW, FaultKind.REFUSED}),
    ASK: _RETRIED | {FaultKind.CRASH},
    SEED: _RETRIED,
    TOOL: _ANSWERS_OF_A_TOOL | {FaultKind.SLOW, FaultKind.REFUSED},
    VERIFY: _RETRIED,
    CLOSE: frozenset(FaultKind) - {FaultKind.CRASH},
    GENERATE: _RETRIED | {FaultKind.CRASH},
}

FAULT_KINDS_OF: dict[Place, tuple[FaultKind, ...]] = {
    RUN: tuple(
        kind for kind in FaultKind if kind not in (FaultKind.NO_REWARD, FaultKind.OVERFLOW, FaultKind.FAILS)
    ),
    ASK: tuple(kind for kind in FaultKind if kind not in (FaultKind.NO_REWARD, FaultKind.OVERFLOW)),
    SEED: tuple(kind for kind in FaultKind if kind not in (FaultKind.NO_REWARD, FaultKind.OVERFLOW)),
    TOOL: tuple(kind for kind in FaultKind if kind not in (FaultKind.NO_REWARD, FaultKind.OVERFLOW)),
    VERIFY: tuple(kind for kind in FaultKind if kind is not FaultKind.OVERFLOW),
    CLOSE: tuple(kind for kind in FaultKind if kind not in (FaultKind.NO_REWARD, FaultKind.OVERFLOW)),
    GENERATE: tuple(kind for kind in FaultKind if kind not in (FaultKind.NO_REWARD, FaultKind.FAILS)),
    PREFLIGHT: (FaultKind.REFUSED, FaultKind.RESET_BEFORE, FaultKind.SILENT_BEFORE, FaultKind.HTTP_500),
    DISCOVER: (FaultKind.REFUSED, FaultKind.RESET_BEFORE, FaultKind.SILENT_BEFORE, FaultKind.HTTP_500),
    MEASURE: (FaultKind.RESET_AFTER, FaultKind.SILENT_BEFORE, FaultKind.HTTP_500, FaultKind.CUT_JSON),
}
"""Possible faults by route."""


_COSTS_S = 10.0
"""Approximate seconds that the retries after a fault take."""


def seconds_lost_by(fault: CallFault) -> float:
    """Return the seconds that an attempt may lose by this fault."""
    return fault.seconds + _COSTS_S


def is_tolerated(fault: CallFault) -> bool:
    """Return whether an attempt with few faults must tolerate this one, unless its time runs out."""
    if fault.place == GENERATE and fault.kind is FaultKind.CRASH:
        return fault.seconds <= SHORT_OUTAGE_S
    return fault.kind in _TOLERATED.get(fault.place, ())


class CallFaults:
    """Assigns the call faults of a plan to calls."""

    def __init__(self, faults: Iterable[Fault]) -> None:
        self._faults = {(fault.place, fault.nth): fault for fault in faults if isinstance(fault, CallFault)}
        self._calls: Counter[Place] = Counter()

    def meet(self, place: Place) -> CallFault | None:
        """Count a call and return its fault, if any."""
        self._calls[place] += 1
        return self._faults.pop((place, self._calls[place]), None)

    def disarm(self) -> None:
        """Cancel all remaining faults."""
        self._faults.clear()
