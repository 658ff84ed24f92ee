"""A group: all rollouts of one task that share a baseline, from its admission until it is consumed.

    waiting ──▶ running ──▶ ready ──▶ delivered ──▶ ended
                   └──────────┴──▶ cancelled ──┘▲

Every admitted group comes out exactly once: delivered as a group, or as a cancellation with its reason and its cost. A
failed rollout is apart from those with a score, and is never a zero.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, NamedTuple


class GroupPhase(StrEnum):
    """The state of a group."""

    WAITING = "waiting"
    """Submitted; none of its rollouts has started."""
    RUNNING = "running"
    READY = "ready"
    """All of its rollouts are settled, and enough are scored."""
    DELIVERED = "delivered"
    """Handed over with a cursor, as a group or as a cancellation."""
    ENDED = "ended"
    """Consumed."""


TRANSITIONS: Mapping[GroupPhase, frozenset[GroupPhase]] = {
    GroupPhase.WAITING: frozenset({GroupPhase.RUNNING, GroupPhase.READY}),
    GroupPhase.RUNNING: frozenset({GroupPhase.READY}),
    GroupPhase.READY: frozenset({GroupPhase.DELIVERED}),
    GroupPhase.DELIVERED: frozenset({GroupPhase.ENDED}),
    GroupPhase.ENDED: frozenset(),
}


class CancelReason(StrEnum):
    """Why an admitted group comes out without rollouts to train on."""

    ASKED = "asked"
    """A request cancelled it."""
    TOO_FEW = "too_few"
    """Fewer of its rollouts were scored than `min_members`."""
    ZERO_VARIANCE = "zero_variance"
    """Its metric does not vary, so it teaches nothing."""
    STALE = "stale"
    """It was sampled by versions below the bound of staleness."""
    SURPLUS = "surplus"
    """The step had its useful groups."""
    ENDED = "ended"
    """The session ended before all of its rollouts had."""


class Versions(NamedTuple):
    """The versions of the policy that sampled something."""

    oldest: int
    newest: int


@dataclass(frozen=True, slots=True)
class Member:
    """A settled rollout of a group."""

    repeat: int
    versions: Versions
    metric: float | None = None
    """The raw metric; None for a rollout that failed or is excluded from training."""
    tokens: int = 0
    """Sampled tokens."""
    seconds: float = 0.0
    failure: Mapping[str, Any] | None = None
    """The failure of a rollout without a score."""

    @property
    def is_usable(self) -> bool:
        """Whether it has a score to train on."""
        return self.metric is not None


@dataclass(slots=True, eq=False)
class TaskGroup:
    """The rollouts of one task in one round."""

    number: int
    """Its number in the session, which is the `_ng_task_index` of its rows."""
    key: str
    round: int
    size: int
    task: Any = None
    """The task as submitted."""
    phase: GroupPhase = GroupPhase.WAITING
    started_at: list[float] = field(default_factory=list)
    """The seconds at which its rollouts started, by repeat."""
    settled: list[Member] = field(default_factory=list)
    failed: int = 0
    """Those among the settled that have no score."""
    cancelled: CancelReason | None = None
    admitted_version: int = 0
    admitted_at: float = 0.0
    cursor: int | None = None

    def become(self, phase: GroupPhase) -> None:
        """Change the phase. A transition that is not allowed is a defect."""
        assert phase in TRANSITIONS[self.phase], (self.key, self.phase, phase)
        self.phase = phase

    @property
    def started(self) -> int:
        """The number of its rollouts that have started; those below this repeat."""
        return len(self.started_at)

    @property
    def in_flight(self) -> list[int]:
        """The repeats of its rollouts that have started and are not settled."""
        settled = {member.repeat for member in self.settled}
        return [repeat for repeat in range(self.started) if repeat not in settled]

    @property
    def is_cancellable(self) -> bool:
        """Whether it is not out yet."""
        is_out = self.phase in (GroupPhase.DELIVERED, GroupPhase.ENDED)
        return self.cancelled is None and not is_out

    @property
    def usable(self) -> list[Member]:
        return [member for member in self.settled if member.is_usable]

    @property
    def spent(self) -> dict[str, float]:
        """The tokens and seconds of its settled rollouts."""
        return {
            "tokens": sum(member.tokens for member in self.settled),
            "seconds": round(sum(member.seconds for member in self.settled), 3),
        }


class MetricSpread(NamedTuple):
    """The mean and the standard deviation of a metric over the scored rollouts of a group."""

    mean: float
    std: float


def measure_spread(members: Sequence[Member]) -> MetricSpread | None:
    """Return the spread of the usable members; None without any. A failure is not a zero: it is left out."""
    values = [member.metric for member in members if member.metric is not None]
    if not values:
        return None
    mean = sum(values) / len(values)
    return MetricSpread(mean, (sum((value - mean) ** 2 for value in values) / len(values)) ** 0.5)
