"""The filters of an export. A rollout that is filtered out still counts in its group's baseline."""

from __future__ import annotations

from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from fnmatch import fnmatchcase

from nemo_gym.export._rollouts import Group, ScoredRollout
from nemo_gym.export.report import LeftOut, Report, Unsuitable
from nemo_gym.failures import SCORED_OUTCOMES, Outcome


@dataclass(frozen=True, slots=True)
class Selection:
    """The filters of an export. Bounds are inclusive; None means no bound."""

    outcomes: AbstractSet[Outcome] = SCORED_OUTCOMES
    environments: tuple[str, ...] = ()
    """Names of agents with the wildcards `*` and `?`; empty for all."""
    min_reward: float | None = None
    max_reward: float | None = None
    min_output_tokens: int | None = None
    max_output_tokens: int | None = None

    def select(self, group: Group, report: Report) -> None:
        """Leave out the group's selected rollouts that a filter rejects."""
        group.selected = [rollout for rollout, _ in report.suitable(group.selected, self._check)]

    def _check(self, rollout: ScoredRollout) -> None:
        if rollout.outcome not in self.outcomes:
            raise Unsuitable(LeftOut.OUTCOME)
        if self.environments and not any(fnmatchcase(rollout.environment, e) for e in self.environments):
            raise Unsuitable(LeftOut.ENVIRONMENT)
        if not _within(rollout.reward, self.min_reward, self.max_reward):
            raise Unsuitable(LeftOut.REWARD)
        if self.min_output_tokens is None and self.max_output_tokens is None:
            return
        length = rollout.output_tokens
        if length is None:
            raise Unsuitable(LeftOut.UNKNOWN_LENGTH)
        if not _within(length, self.min_output_tokens, self.max_output_tokens):
            raise Unsuitable(LeftOut.LENGTH)


def _within(value: float, low: float | None, high: float | None) -> bool:
    return (low is None or value >= low) and (high is None or value <= high)
