"""The values of turns, estimated by forks: the mean reward of the forks of a parent after a turn, with an interval.

A fork runs its tools again, so the value is that of the history, not of a state that no observation has shown. Forks
that failed have no reward and are left out.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from nemo_gym.json_objects import object_in
from nemo_gym.metrics.estimators import clip_interval, confidence_interval, mean, sample_standard_deviation
from nemo_gym.rows.parts import read_fork_group
from nemo_gym.rows.verdict import read_reward
from nemo_gym.statistics.distributions import find_rate_interval
from nemo_gym.tables import write_count

if TYPE_CHECKING:
    from nemo_gym.rollouts.lookback.forks import Parent
    from nemo_gym.rollouts.lookback.stored import StoredRun

_MOST_TOLD = 10


class ForkValue(NamedTuple):
    """The value of a turn of a parent."""

    group: str
    """`<task>.<repeat>@<turn>` of the parent."""
    forks: int
    mean: float
    low: float
    high: float
    """The limits of an interval with a confidence of 95 %."""

    def __str__(self) -> str:
        forks = write_count(self.forks, "fork", "forks")
        return f"{self.group}: {self.mean:.3f} ({self.low:.3f} to {self.high:.3f}) of {forks}"


def estimate_value(group: str, rewards: list[float]) -> ForkValue:
    """Return the value from the rewards of a group of forks, of which there is at least one.

    The interval of rewards that are 0 or 1 is that of Clopper and Pearson; of others that of Student's t.
    """
    center, count = mean(rewards), len(rewards)
    if all(reward in (0, 1) for reward in rewards):
        low, high = find_rate_interval(sum(rewards), count)
        return ForkValue(group, count, center, low, high)
    if count == 1:
        return ForkValue(group, count, center, -math.inf, math.inf)
    error = (sample_standard_deviation(rewards) or 0.0) / math.sqrt(count)
    interval = clip_interval(confidence_interval(center, error, count), min(rewards), max(rewards))
    return ForkValue(group, count, center, interval.low, interval.high)


def read_values(rows: Path) -> list[ForkValue]:
    """Return the values that a file of forks estimates, by group."""
    rewards: dict[str, list[float]] = {}
    if rows.exists():
        with rows.open("rb") as lines:
            for line in lines:
                row = object_in(line)
                reward = read_reward(row) if row is not None else None
                if row is not None and reward is not None:
                    rewards.setdefault(read_fork_group(row), []).append(reward)
    return [estimate_value(group, rewards[group]) for group in sorted(rewards)]


def describe_values(values: Iterable[ForkValue]) -> Iterator[str]:
    """Yield a note for the closing table."""
    values = list(values)
    if values:
        told = "; ".join(map(str, values[:_MOST_TOLD]))
        more = f"; and {len(values) - _MOST_TOLD:,} more" if len(values) > _MOST_TOLD else ""
        yield f"mean reward after the shared calls, with its 95 % interval: {told}{more}"


def describe_left_out(run: StoredRun, parents: Sequence[Parent]) -> Iterator[str]:
    """Yield what is missing among the forks of several tasks, and forks in which nothing is drawn."""
    forked = {parent.identity for parent in parents}
    tasks, repeats = ({each.task for each in forked}, {each.repeat for each in forked})
    missing = sorted(each for each in {*run.scored} - forked if each.repeat in repeats)
    if len(tasks) > 1 and missing:
        yield (
            f"scored rollouts without a record, which are not forked: {len(missing):,} (first: {missing[0]}); their "
            "records were deleted, or never made"
        )
    if copies := sum(not parent.later_calls for parent in parents):
        yield (
            f"forks after the last call repeat their parents, and are no draws: those of {copies:,} of "
            f"{len(parents):,} parents"
        )
