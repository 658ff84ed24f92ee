"""What can go wrong, as data: which call is harmed how, and what befalls the collector.

A fault names the call it meets by its number among all calls of a route, so that a plan is a list from which any
fault can be left out. What a fault may cost is part of its description: some must not be noticed by anybody.
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


class Harm(StrEnum):
    """What becomes of a call."""

    SLOW = "slow"
    """It arrives `seconds` late."""
    REFUSED = "refused"
    """Nobody accepts the connection."""
    RESET_BEFORE = "reset_before"
    """The connection breaks before anything was executed."""
    RESET_DURING = "reset_during"
    """It breaks `seconds` after the handler began; the handler learns of it."""
    RESET_AFTER = "reset_after"
    """It breaks when the handler is done; the answer is lost."""
    SILENT_BEFORE = "silent_before"
    """The request is taken, not executed, and never answered."""
    SILENT_AFTER = "silent_after"
    """It is executed, and the answer never arrives."""
    HTTP_429 = "http_429"
    """An engine's, with a `Retry-After` of `seconds`. As the next four, it is answered without executing anything."""
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
    """The handler fails, and says so in the gym's own envelope."""
    NO_REWARD = "no_reward"
    """The verifier's answer has null for its reward."""
    OVERFLOW = "overflow"
    """The engine says that the context is full."""
    CRASH = "crash"
    """The server's process dies shortly after the call arrived, and is up again after `seconds`."""


@dataclass(frozen=True, slots=True)
class CallFault:
    """The `nth` call of a route (from 1, over the whole life of the world) comes to harm."""

    place: Place
    nth: int
    harm: Harm
    seconds: float = 0.0

    def __str__(self) -> str:
        how_long = f" ({self.seconds:g} s)" if self.seconds else ""
        return f"{self.place[0]} {self.place[1]}, call {self.nth}: {self.harm}{how_long}"


class Blow(StrEnum):
    """What befalls the collector."""

    DIES_WRITING = "dies_writing"
    """Its process dies at its `at`-th operation on `file`, or on any; of a write, `share` of the bytes are done."""
    KILLED = "killed"
    """Its process dies `at` seconds after the world began."""
    INTERRUPTED = "interrupted"
    """It is asked to end `at` seconds after the world began, and again `share` of `SECOND_INTERRUPT_WITHIN_S` later."""


SECOND_INTERRUPT_WITHIN_S = 40.0


@dataclass(frozen=True, slots=True)
class CollectorFault:
    """The collector is hit."""

    blow: Blow
    at: float
    share: float = 0.0
    file: str = ""
    """What the name of the file has in it, its draft's included; empty for every file."""

    def __str__(self) -> str:
        if self.blow is Blow.DIES_WRITING:
            where = self.file or "any file"
            return f"collector: dies at operation {self.at:g} on {where}, {100 * self.share:.0f} % of it done"
        return f"collector: {self.blow} at {self.at:g} s"


Fault: TypeAlias = CallFault | CollectorFault

_RETRIED = frozenset(
    {
        Harm.SLOW,
        Harm.REFUSED,
        Harm.RESET_BEFORE,
        Harm.RESET_DURING,
        Harm.RESET_AFTER,
        Harm.HTTP_429,
        Harm.HTTP_502,
        Harm.HTTP_503,
        Harm.HTTP_504,
        Harm.LATE_504,
    }
)
"""What a call that may be repeated gets over by itself."""

_ANSWERS_OF_A_TOOL = frozenset(
    {
        Harm.HTTP_429,
        Harm.HTTP_500,
        Harm.HTTP_502,
        Harm.HTTP_503,
        Harm.HTTP_504,
        Harm.LATE_504,
        Harm.CUT_JSON,
        Harm.NONSENSE,
        Harm.FAILS,
    }
)
"""What the policy gets to read in a tool's place."""

SHORT_OUTAGE_S = 20.0
"""An engine that is away for so long is waited for."""

_GOT_OVER: dict[Place, frozenset[Harm]] = {
    RUN: frozenset({Harm.SLOW, Harm.REFUSED}),
    ASK: _RETRIED | {Harm.CRASH},
    SEED: _RETRIED,
    TOOL: _ANSWERS_OF_A_TOOL | {Harm.SLOW, Harm.REFUSED},
    VERIFY: _RETRIED,
    CLOSE: frozenset(Harm) - {Harm.CRASH},
    GENERATE: _RETRIED | {Harm.CRASH},
}

HARMS_OF: dict[Place, tuple[Harm, ...]] = {
    RUN: tuple(harm for harm in Harm if harm not in (Harm.NO_REWARD, Harm.OVERFLOW, Harm.FAILS)),
    ASK: tuple(harm for harm in Harm if harm not in (Harm.NO_REWARD, Harm.OVERFLOW)),
    SEED: tuple(harm for harm in Harm if harm not in (Harm.NO_REWARD, Harm.OVERFLOW)),
    TOOL: tuple(harm for harm in Harm if harm not in (Harm.NO_REWARD, Harm.OVERFLOW)),
    VERIFY: tuple(harm for harm in Harm if harm is not Harm.OVERFLOW),
    CLOSE: tuple(harm for harm in Harm if harm not in (Harm.NO_REWARD, Harm.OVERFLOW)),
    GENERATE: tuple(harm for harm in Harm if harm not in (Harm.NO_REWARD, Harm.FAILS)),
    PREFLIGHT: (Harm.REFUSED, Harm.RESET_BEFORE, Harm.SILENT_BEFORE, Harm.HTTP_500),
    DISCOVER: (Harm.REFUSED, Harm.RESET_BEFORE, Harm.SILENT_BEFORE, Harm.HTTP_500),
    MEASURE: (Harm.RESET_AFTER, Harm.SILENT_BEFORE, Harm.HTTP_500, Harm.CUT_JSON),
}
"""What can happen to the calls of each route."""


_COSTS_S = 10.0
"""What getting over a call's fault takes, about: the waits before it is sent again."""


def seconds_lost_by(fault: CallFault) -> float:
    """How much later an attempt may be that gets over this fault."""
    return fault.seconds + _COSTS_S


def is_got_over(fault: CallFault) -> bool:
    """Whether an attempt that meets this fault, and few others, must not fail of it (unless its time runs out)."""
    if fault.place == GENERATE and fault.harm is Harm.CRASH:
        return fault.seconds <= SHORT_OUTAGE_S
    return fault.harm in _GOT_OVER.get(fault.place, ())


class CallFaults:
    """The call faults of a plan while it is played: which of them the next call of a route meets."""

    def __init__(self, faults: Iterable[Fault]) -> None:
        self._faults = {(fault.place, fault.nth): fault for fault in faults if isinstance(fault, CallFault)}
        self._calls: Counter[Place] = Counter()

    def meet(self, place: Place) -> CallFault | None:
        """Count a call; the fault that it meets, if any."""
        self._calls[place] += 1
        return self._faults.pop((place, self._calls[place]), None)

    def heal(self) -> None:
        """From now on nothing goes wrong."""
        self._faults.clear()
