"""The outputs of a session's book: starts, deliveries, and the counts of both."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field, fields
from typing import Any, NamedTuple

from nemo_gym.rollouts.sessions.groups import CancelReason, MetricSpread, TaskGroup
from nemo_gym.rollouts.sessions.options import SessionOptions
from nemo_gym.rollouts.sessions.staleness import Judged

_MUCH = 0.1


class MemberStart(NamedTuple):
    """A rollout to start."""

    group: TaskGroup
    repeat: int


class GroupDelivery(NamedTuple):
    """A group, or the cancellation of one, as it is handed over."""

    group: TaskGroup
    judged: Judged
    expected_version: int
    """The version that is expected to consume it."""
    spread: MetricSpread | None


class Known(NamedTuple):
    """The last round in which a key was submitted."""

    digest: str
    round: int


@dataclass(slots=True)
class SessionCounters:
    """Counts of a session's groups, and the cost of its policies."""

    submitted: int = 0
    admitted: int = 0
    delivered: int = 0
    cancelled: Counter[str] = field(default_factory=Counter)
    """Cancellations by reason."""
    consumed: int = 0
    refused: int = 0
    """Groups that the trainer did not train on, because they had become stale."""
    started_rollouts: int = 0
    failed_rollouts: int = 0
    dropped_rollouts: int = 0
    withheld_rollouts: int = 0
    masked_groups: int = 0
    """Groups with tokens below the floor."""
    sampled_rollouts: int = 0
    sampled_tokens: int = 0
    trained_rollouts: int = 0
    trained_tokens: int = 0
    """Of delivered rollouts, masked tokens included."""
    wasted_tokens: int = 0
    """Of cancelled groups."""
    oldest_consumed: int = 0
    """The largest staleness of a consumed group."""

    def to_json(self) -> dict[str, Any]:
        """Return the counts as plain data."""
        counts = {each.name: getattr(self, each.name) for each in fields(self)}
        return {**counts, "cancelled": dict(self.cancelled)}

    def measure_bias(self, sampled: float | None) -> dict[str, float | None]:
        """Return the mean tokens of all rollouts, `sampled`, and of the delivered ones."""
        return {
            "sampled": sampled,
            "trained": self.trained_tokens / self.trained_rollouts if self.trained_rollouts else None,
        }

    def advise(self, options: SessionOptions, sampled: float | None) -> Iterator[str]:
        """Yield what the session's policies cost, where that is above a tenth, with the other choice.

        `sampled`: the mean tokens of all rollouts.
        """
        groups = self.delivered + self.cancelled.total()
        stale = self.cancelled[CancelReason.STALE] + self.refused
        if groups and stale > _MUCH * groups:
            yield (
                f"{stale / groups:.0%} of the groups were stale and dropped: `then: mask` drops none, and a larger "
                "bound or fewer groups in flight make fewer stale"
            )
        if self.delivered and self.masked_groups > _MUCH * self.delivered:
            yield (
                f"{self.masked_groups / self.delivered:.0%} of the groups have masked tokens: `order: fifo` with "
                "`then: wait` masks none, and leaves more of the engine idle"
            )
        means = self.measure_bias(sampled)
        if means["sampled"] and means["trained"] and means["trained"] < (1 - _MUCH) * means["sampled"]:
            yield (
                f"delivered rollouts have {means['trained']:.0f} tokens, and sampled ones {means['sampled']:.0f}: "
                f"dropping by age prefers short ones; `order: {options.order}` with `then: mask` keeps all"
            )
