"""Which rollouts an export takes. What is not taken still counts in its group's baseline."""

from __future__ import annotations

from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from fnmatch import fnmatchcase

from nemo_gym.export._rollouts import Group, ScoredRollout
from nemo_gym.export.report import LeftOut, Report
from nemo_gym.failures import SCORED_OUTCOMES, Outcome


@dataclass(frozen=True, slots=True)
class Selection:
    """The filters of an export; each bound is inclusive, None bounds nothing."""

    outcomes: AbstractSet[Outcome] = SCORED_OUTCOMES
    environments: tuple[str, ...] = ()
    """Names of agents; `*` and `?` stand for any characters. Empty for all."""
    min_reward: float | None = None
    max_reward: float | None = None
    min_output_tokens: int | None = None
    max_output_tokens: int | None = None

    def select(self, group: Group, report: Report) -> None:
        """Leave those of the group's selected rollouts out that a filter rejects."""
        kept = []
        for rollout in group.selected:
            reason = self._reason_against(rollout)
            if reason is None:
                kept.append(rollout)
            else:
                report.leave_out(rollout, reason)
        group.selected = kept

    def _reason_against(self, rollout: ScoredRollout) -> LeftOut | None:
        if rollout.outcome not in self.outcomes:
            return LeftOut.OUTCOME
        if self.environments and not any(fnmatchcase(rollout.environment, e) for e in self.environments):
            return LeftOut.ENVIRONMENT
        if not _within(rollout.reward, self.min_reward, self.max_reward):
            return LeftOut.REWARD
        if self.min_output_tokens is None and self.max_output_tokens is None:
            return None
        length = rollout.output_tokens
        if length is None:
            return LeftOut.UNKNOWN_LENGTH
        within = _within(length, self.min_output_tokens, self.max_output_tokens)
        return None if within else LeftOut.LENGTH


def _within(value: float, low: float | None, high: float | None) -> bool:
    return (low is None or value >= low) and (high is None or value <= high)
