"""The counters of a run, shown by the progress line and the closing table."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

from nemo_gym.failures import Outcome
from nemo_gym.rollouts.run._window import AutoWindow
from nemo_gym.rollouts.run.answer import Failed, Scored
from nemo_gym.rollouts.run.failure_groups import FailureGroups
from nemo_gym.rows.identity import RolloutId
from nemo_gym.rows.verdict import read_end_reason


class Aim(Protocol):
    """The present knowledge of a run with `until`."""

    def describe(self) -> str: ...


class Expenses(Protocol):
    """The expenses of a run with budgets or prices."""

    def measure(self) -> dict[str, float]:
        """Return `tokens`, `cost` and `seconds` by now."""


@dataclass(slots=True)
class RewardTotal:
    """The rewards of one agent's rows."""

    rows: int = 0
    total: float = 0.0

    @property
    def mean(self) -> float | None:
        """Return the mean reward to 12 significant digits, to which the sum is exact; None without a row."""
        return float(f"{self.total / self.rows:.12g}") if self.rows else None

    def add(self, reward: float) -> None:
        """Add the reward of a row."""
        self.rows += 1
        self.total += reward


@dataclass(slots=True)
class RunCounters:
    """Counts of rollouts. All except the first two are of this start of the run."""

    planned: int
    """Rollouts of the plan."""
    finished_before: int = 0
    """Rollouts that had a row before this start."""
    in_flight: int = 0
    is_stopping: bool = False
    """True if no further rollout starts, although some are left."""
    has_control: bool = False
    """True if `gym ctl` reaches the run."""
    is_paused: bool = False
    """True while a request of control lets nothing start."""
    completed: int = 0
    truncated: int = 0
    failed: int = 0
    """Rollouts that failed finally."""
    cancelled: int = 0
    """Rollouts that were cancelled because the run ended."""
    discarded: int = 0
    """Rollouts whose agent requested that no row be written."""
    retries: int = 0
    """Attempts after the first."""
    failures: Counter[str] = field(default_factory=Counter)
    """Rollouts that failed finally, by the class of the last failure."""
    failure_groups: FailureGroups = field(default_factory=FailureGroups)
    """The same failures by cause."""
    outages: dict[str, Mapping[str, str]] = field(default_factory=dict)
    """By server: the endpoints that it waits for, with the cause."""
    truncations: Counter[str] = field(default_factory=Counter)
    """Truncated rollouts, by the reason."""
    rewards: dict[str, RewardTotal] = field(default_factory=dict)
    """By agent: rollouts of two agents are no sample of one policy, so no figure is of both."""
    auto: AutoWindow | None = None
    """The window of `num_samples_in_parallel=auto`."""
    aim: Aim | None = None
    """The aim of `until`. The rollouts of the plan are then those that it is expected to take."""
    expenses: Expenses | None = None
    """The expenses of a run that counts them."""

    @property
    def scored(self) -> int:
        """Rows written by this start of the run."""
        return self.completed + self.truncated

    @property
    def settled(self) -> int:
        """Rollouts of the plan that are finished, failed or discarded."""
        return self.finished_before + self.scored + self.failed + self.discarded

    @property
    def mean_rewards(self) -> dict[str, float]:
        """Return the mean reward of each agent with a row."""
        return {agent: own.mean for agent, own in sorted(self.rewards.items()) if own.mean is not None}

    def note_scored(self, agent: str, scored: Scored) -> None:
        if scored.outcome is Outcome.TRUNCATED:
            self.truncated += 1
            self.truncations[read_end_reason(scored.row) or "an unknown reason"] += 1
        else:
            self.completed += 1
        self.rewards.setdefault(agent, RewardTotal()).add(scored.reward)

    def note_failed(self, identity: RolloutId, failed: Failed) -> None:
        self.failed += 1
        self.failures[failed.failure_class] += 1
        self.failure_groups.note(identity, failed.failure_class, failed.failure)

    def take_back_failed(self, failed: Failed) -> None:
        """Forget the final failure of a rollout that is attempted again."""
        self.failed -= 1
        self.failures[failed.failure_class] -= 1
        self.failures += Counter()  # without the classes that have no failure left
        self.failure_groups.take_back(failed.failure_class, failed.failure)
