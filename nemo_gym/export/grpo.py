"""GRPO: rollouts with their advantage within their group, the rollouts of a task by one agent, as token segments.

One row per rollout: `group_id`, `rollout_index`, `reward`, `advantage`, the group's figures, and `segments` with
`input_ids`, `loss_mask`, `logprobs` (null where nothing was sampled), `grammar_mask` (1 for tokens
sampled under a grammar) and `reason`. The advantage is the difference
from the mean reward of the group's scored rollouts, divided by the sample standard deviation (Shao et al. 2024,
*DeepSeekMath*) or not (`scale=none`; Liu et al. 2025, *Understanding R1-Zero-Like Training*). Failed attempts are not
in the mean: rewards [1, 3, 2, failed] have a baseline of 2. Filters choose the exported rows, not the baseline.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Literal

from pydantic import Field

from nemo_gym.export._token_options import LOSSES_OF_TOKENS, TokenOptions
from nemo_gym.export.formats import ExportRecord, Format
from nemo_gym.export.report import LeftOut
from nemo_gym.export.rollouts import Group, ScoredRollout
from nemo_gym.tokens.segments import Segment


class GrpoOptions(TokenOptions):
    scale: Literal["group", "none"] = Field(
        "group", description="Divide by the group's standard deviation, or not."
    )
    keep_equal_groups: bool = Field(
        True, description="Keep tasks whose rollouts all have the same reward, and therefore advantage 0."
    )


class Grpo(Format[GrpoOptions]):
    name = "grpo"
    summary = "rollouts with reward, advantage and token segments, in groups"
    options_type = GrpoOptions
    losses = LOSSES_OF_TOKENS
    example = "ng_export +format=grpo +input=rollouts.jsonl +output=data/grpo.jsonl.zst"

    def rows(self, group: Group) -> Iterator[ExportRecord]:
        reason = self._unusable(group)
        if reason is not None:
            for rollout in group.selected:
                self.report.leave_out(rollout, reason)
            return
        for rollout, segments in self.report.suitable(group.selected, self.options.read_segments):
            self.report.export(self.options.find_losses(rollout))
            yield {
                "group_id": group.name,
                "rollout_index": rollout.repeat,
                "environment": rollout.environment,
                **rollout.origin_column,
                "outcome": rollout.outcome.value,
                "reward": rollout.reward,
                "advantage": self._advantage(rollout, group),
                "group_size": len(group.members),
                "group_mean": group.mean,
                "group_std": group.deviation,
                "policy_versions": rollout.policy_versions,
                "segments": [_segment(segment) for segment in segments],
            }

    def _unusable(self, group: Group) -> LeftOut | None:
        """The reason why a group gives no training signal, if any."""
        if len(group.members) < 2:
            return LeftOut.NO_BASELINE
        if group.has_equal_rewards and not self.options.keep_equal_groups:
            return LeftOut.EQUAL_REWARDS
        return None

    def _advantage(self, rollout: ScoredRollout, group: Group) -> float:
        if group.has_equal_rewards:
            return 0.0
        distance = rollout.reward - group.mean
        return distance / group.deviation if self.options.scale == "group" else distance


def _segment(segment: Segment) -> dict[str, Any]:
    return {
        "input_ids": segment.token_ids,
        "loss_mask": segment.loss_mask,
        "logprobs": segment.logprobs,
        "grammar_mask": segment.grammar_mask,
        "reason": segment.reason.value if segment.reason else None,
    }
