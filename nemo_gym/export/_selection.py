"""The filters of an export. A rollout that is filtered out still counts in its group's baseline."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from fnmatch import fnmatchcase

from nemo_gym.export._rollouts import Group, ScoredRollout
from nemo_gym.export.report import LeftOut, Report, Unsuitable
from nemo_gym.export.settings import ExportSettings
from nemo_gym.failures import Outcome
from nemo_gym.rows.verdict import is_tamperable


@dataclass(frozen=True, slots=True)
class Selection:
    """The filters of an export, and the outcomes that it takes."""

    settings: ExportSettings
    outcomes: Collection[Outcome]
    min_reward: float | None = None
    """The lowest reward of the format, for settings without a bound."""

    def select(self, group: Group, report: Report) -> None:
        """Leave out the group's selected rollouts that a filter rejects."""
        wanted = report.suitable(group.selected, lambda rollout: self._check(rollout, report))
        group.selected = [rollout for rollout, _ in wanted]

    def _check(self, rollout: ScoredRollout, report: Report) -> None:
        if rollout.outcome not in self.outcomes:
            raise Unsuitable(LeftOut.OUTCOME)
        wanted = self.settings
        if is_tamperable(rollout.row) and not wanted.allow_tamperable:
            raise Unsuitable(LeftOut.TAMPERABLE)
        if wanted.environments and not any(fnmatchcase(rollout.environment, e) for e in wanted.environments):
            raise Unsuitable(LeftOut.ENVIRONMENT)
        if (reason := self._reject_reward(rollout.reward)) is not None:
            report.rewards[rollout.reward] += 1
            raise Unsuitable(reason)
        if wanted.min_output_tokens is None and wanted.max_output_tokens is None:
            return
        length = rollout.output_tokens
        if length is None:
            raise Unsuitable(LeftOut.UNKNOWN_LENGTH)
        if not _is_within(length, wanted.min_output_tokens, wanted.max_output_tokens):
            raise Unsuitable(LeftOut.LENGTH)

    def _reject_reward(self, reward: float) -> LeftOut | None:
        low, high = self.settings.min_reward, self.settings.max_reward
        if low is None and high is None:
            return None if _is_within(reward, self.min_reward, None) else LeftOut.LOW_REWARD
        return None if _is_within(reward, low, high) else LeftOut.REWARD


def _is_within(value: float, low: float | None, high: float | None) -> bool:
    return (low is None or value >= low) and (high is None or value <= high)
