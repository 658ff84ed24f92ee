"""The verbs of control, and their effects on the state of a run.

    running ──pause──▶ paused
       ▲ ◀──resume──────┘ │
       └─────drain────────┴──▶ draining ──▶ ended

`decide` returns the effects of a request on a state and changes nothing. A dry run is `decide` alone, so it says what
the request would do. A request that changes nothing is accepted, so that every request can be repeated.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from enum import StrEnum
from http import HTTPStatus
from typing import Annotated, Any, Literal

from pydantic import BaseModel, Field

from nemo_gym.failures import InputError
from nemo_gym.rows.identity import RolloutId

MAX_COUNT = (1 << 31) - 1
_ROLLOUT = re.compile(r"(\d{1,18})(?:[-/](\d{1,18}))?")
_SHOWN = 5


class Phase(StrEnum):
    """The state of a run under control."""

    RUNNING = "running"
    PAUSED = "paused"
    """Nothing starts. Rollouts in flight go on, and their clocks stand still."""
    DRAINING = "draining"
    """Nothing starts any more. The run ends with the rollouts in flight."""
    ENDED = "ended"


class ControlVerb(StrEnum):
    """A request to a run."""

    PAUSE = "pause"
    RESUME = "resume"
    DRAIN = "drain"
    CANCEL = "cancel"
    """End the attempts at named rollouts, which have failed then."""
    REQUEUE = "requeue"
    """Attempt failed rollouts again."""
    SET = "set"
    """Change the concurrency, the deadline or the number of attempts."""


_STARTING = frozenset({Phase.RUNNING, Phase.PAUSED})
ALLOWED: Mapping[ControlVerb, frozenset[Phase]] = {
    ControlVerb.PAUSE: _STARTING,
    ControlVerb.RESUME: _STARTING,
    ControlVerb.DRAIN: _STARTING | {Phase.DRAINING},
    ControlVerb.CANCEL: _STARTING | {Phase.DRAINING},
    ControlVerb.REQUEUE: _STARTING,
    ControlVerb.SET: _STARTING,
}
"""The phases in which a verb is accepted."""
_LEADS_TO: Mapping[ControlVerb, Phase] = {
    ControlVerb.PAUSE: Phase.PAUSED,
    ControlVerb.RESUME: Phase.RUNNING,
    ControlVerb.DRAIN: Phase.DRAINING,
}
RESUME_LATER = "The same command with +resume_from_cache=true (gym: --resume) attempts what is missing."


@dataclass(frozen=True, slots=True)
class Tuning:
    """The values that `set` changes, named as the keys of commands."""

    num_samples_in_parallel: int | Literal["auto"]
    max_attempts: int
    rollout_timeout_s: float | None


class ControlRequest(BaseModel, extra="forbid", frozen=True):
    """The body of a request: what a verb is about."""

    rollouts: list[Annotated[str, Field(pattern=rf"^{_ROLLOUT.pattern}$")]] = Field(default_factory=list)
    """`cancel`, `requeue`: rollouts as `task/repeat`, or as `task` for all repeats of a task."""
    failure_class: str | None = None
    """`requeue`: rollouts that failed with this class. Without it and `rollouts`, all failed ones."""
    num_samples_in_parallel: Annotated[int, Field(ge=1, le=MAX_COUNT)] | Literal["auto"] | None = None
    max_attempts: int | None = Field(None, ge=1, le=MAX_COUNT)
    rollout_timeout_s: float | None = Field(None, gt=0, allow_inf_nan=False)
    dry_run: bool = False
    """Answer what would change, and change nothing."""
    by: str = "HTTP"
    """The program that asks, for the run's events."""

    @property
    def tuned(self) -> dict[str, Any]:
        """The values that `set` changes."""
        return {name: value for name, value in self if name in Tuning.__slots__ and value is not None}

    def names(self, identity: RolloutId) -> bool:
        """Return whether the request names a rollout."""
        return any(
            identity.task == int(match[1]) and match[2] in (None, str(identity.repeat))
            for match in map(_ROLLOUT.fullmatch, self.rollouts)
            if match is not None
        )


@dataclass(frozen=True, slots=True)
class ControlState:
    """The part of a run's state on which effects depend."""

    phase: Phase
    tuning: Tuning
    in_flight: Mapping[RolloutId, float] = field(default_factory=dict)
    """Seconds since each attempt in flight began."""
    failed: Mapping[RolloutId, str] = field(default_factory=dict)
    """The class of each final failure of this start of the run."""
    requeue_refusal: str | None = None
    """Why this run requeues nothing; None if it does."""

    def count_failed(self) -> dict[str, int]:
        """Return the number of final failures of each class, by name."""
        return dict(sorted(Counter(self.failed.values()).items()))


@dataclass(frozen=True, slots=True)
class Effects:
    """The changes that a request makes."""

    phase: Phase
    tuning: Tuning
    cancelled: tuple[RolloutId, ...] = ()
    requeued: tuple[RolloutId, ...] = ()
    changes: tuple[str, ...] = ()
    """The changes as sentences; none if nothing changes."""


def decide(state: ControlState, verb: ControlVerb, request: ControlRequest) -> Effects:
    """Return the effects of a request. Raises `InputError` for one that is refused."""
    _check_fields(verb, request)
    if state.phase not in ALLOWED[verb]:
        raise _refuse_phase(verb, state.phase)
    unchanged = Effects(state.phase, state.tuning)
    match verb:
        case ControlVerb.CANCEL:
            return _cancel(state, request, unchanged)
        case ControlVerb.REQUEUE:
            return _requeue(state, request, unchanged)
        case ControlVerb.SET:
            return _tune(state, request, unchanged)
    phase = _LEADS_TO[verb]
    if phase is state.phase:
        return unchanged
    return replace(unchanged, phase=phase, changes=(_describe_phase(phase, len(state.in_flight)),))


def _check_fields(verb: ControlVerb, request: ControlRequest) -> None:
    """Refuse fields that a verb does not have, and a verb without its fields."""
    tuned = request.tuned
    wrong = [
        *(["rollouts"] if request.rollouts and verb not in (ControlVerb.CANCEL, ControlVerb.REQUEUE) else []),
        *(["failure_class"] if request.failure_class and verb is not ControlVerb.REQUEUE else []),
        *(tuned if verb is not ControlVerb.SET else []),
    ]
    if wrong:
        raise _refuse(
            f"`{verb}` has no {', '.join(f'`{name}`' for name in wrong)}", "wrong_field", status=422
        )
    if verb is ControlVerb.SET and not tuned:
        names = ", ".join(f"`{name}`" for name in Tuning.__slots__)
        raise _refuse("`set` needs a value", "no_value", f"Give one or several of {names}.", status=422)
    if verb is ControlVerb.CANCEL and not request.rollouts:
        raise _refuse(
            "`cancel` needs the rollouts to cancel",
            "no_rollout",
            "Name them as task/repeat (gym ctl cancel --rollout 3/0); `gym ctl status` lists those in flight, and "
            "`gym ctl drain` ends the run.",
            status=422,
        )


def _cancel(state: ControlState, request: ControlRequest, unchanged: Effects) -> Effects:
    found = tuple(sorted(filter(request.names, state.in_flight)))
    if not found:
        longest = sorted(state.in_flight, key=lambda each: -state.in_flight[each])
        raise _refuse(
            f"no rollout {_list(request.rollouts)} is in flight",
            "not_in_flight",
            f"Those in flight longest: {_list(map(write_rollout, longest))}." if longest else "None is.",
        )
    changes = tuple(
        f"rollout {write_rollout(each)}, in flight for {state.in_flight[each]:.1f} s, is cancelled and has failed"
        for each in found
    )
    return replace(unchanged, cancelled=found, changes=changes)


def _requeue(state: ControlState, request: ControlRequest, unchanged: Effects) -> Effects:
    if state.requeue_refusal is not None:
        raise _refuse(f"`requeue` is refused: {state.requeue_refusal}", "not_requeued", RESUME_LATER)
    wanted = request.failure_class
    found = tuple(
        identity
        for identity, failure_class in sorted(state.failed.items())
        if (not request.rollouts or request.names(identity)) and wanted in (None, failure_class)
    )
    if not found and (request.rollouts or wanted is not None):
        known = ", ".join(f"{name} ({count})" for name, count in state.count_failed().items()) or "none"
        asked = f"of class {wanted}" if wanted is not None else _list(request.rollouts)
        raise _refuse(f"no rollout {asked} has failed", "none_failed", f"Classes of failures: {known}.")
    if not found:
        return unchanged
    number = f"{len(found)} failed {'rollout is' if len(found) == 1 else 'rollouts are'} attempted again"
    return replace(unchanged, requeued=found, changes=(f"{number}: {_list(map(write_rollout, found))}",))


def _tune(state: ControlState, request: ControlRequest, unchanged: Effects) -> Effects:
    before, tuned = asdict(state.tuning), request.tuned
    changed = {name: value for name, value in tuned.items() if value != before[name]}
    changes = tuple(f"{name}: {before[name]} -> {value}" for name, value in changed.items())
    return replace(unchanged, tuning=replace(state.tuning, **changed), changes=changes)


def _describe_phase(phase: Phase, in_flight: int) -> str:
    left = f"{in_flight} in flight {'goes' if in_flight == 1 else 'go'} on"
    return {
        Phase.PAUSED: f"no rollout starts until `gym ctl resume`; {left}, and their clocks stand still",
        Phase.RUNNING: "rollouts start again",
        Phase.DRAINING: f"no further rollout starts; {left}, and the run ends with them",
    }[phase]


def _refuse_phase(verb: ControlVerb, phase: Phase) -> InputError:
    state = "has ended" if phase is Phase.ENDED else "is draining, which cannot be taken back"
    return _refuse(f"`{verb}` is refused: the run {state}", f"run_{phase}", RESUME_LATER)


def _refuse(
    message: str, code: str, remedy: str | None = None, *, status: int = HTTPStatus.CONFLICT
) -> InputError:
    return InputError(message, code=code, status=status, remedy=remedy)


def write_rollout(identity: RolloutId) -> str:
    """Return a rollout as requests name it."""
    return f"{identity.task}/{identity.repeat}"


def _list(names: Iterable[str]) -> str:
    shown: Sequence[str] = list(names)
    return ", ".join(shown[:_SHOWN]) + (f" and {len(shown) - _SHOWN} more" if len(shown) > _SHOWN else "")


def describe_state(state: ControlState) -> Iterator[str]:
    """Yield a state as lines for a person."""
    tuning = asdict(state.tuning)
    yield f"{state.phase}: {len(state.in_flight)} in flight, {len(state.failed)} failed"
    yield ", ".join(f"{name} {value}" for name, value in tuning.items())
