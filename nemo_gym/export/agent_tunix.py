"""Agent-Tunix: rows for Google Tunix's GRPO learners (JAX).

- `form=trajectories`: one row per rollout, with the fields of Tunix's trajectories in `Token` mode: `prompt_tokens`,
  then `conversation_tokens` with `conversation_masks` (1 where the policy sampled), `old_logprobs` and
  `grammar_masks` (1 where it sampled under a grammar), beside
  `conversation_text`, `trajectory_reward`, `policy_version`, `group_id`, `pair_index` and `original_input`. The learner
  reshapes rewards to (groups, `num_generations`), so every group has exactly that many consecutive rows.
- `form=tasks`: one row per task, `prompts`, `question` and `answer` as text: the dataset of Agent-Tunix, whose learner
  samples itself.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Literal

from pydantic import Field

from nemo_gym.export._conversation import ChatTranscript, TextFormat, TextOptions, read_conversation
from nemo_gym.export._token_options import LOSSES_OF_TOKENS, TokenOptions
from nemo_gym.export.formats import ExportRecord
from nemo_gym.export.report import LeftOut, Loss, Report
from nemo_gym.export.rollouts import Group, RolloutFiles, ScoredRollout
from nemo_gym.tokens.segments import Segment

ANSWER_KEYS = ("expected_answer", "answer", "ground_truth", "target")
"""Fields in which environments keep the expected answer; the first one present is used."""


class AgentTunixOptions(TextOptions, TokenOptions):
    form: Literal["trajectories", "tasks"] = Field("trajectories", description="Rollouts, or tasks.")
    num_generations: int = Field(
        description="The group size, as in Tunix's GRPOConfig; by default the largest number of an agent's rollouts "
        "of a task.",
        ge=2,
    )


class AgentTunix(TextFormat[AgentTunixOptions]):
    name = "agent_tunix"
    summary = "trajectories in groups, or tasks, for Google Tunix's GRPO learners (JAX)"
    options_type = AgentTunixOptions
    losses = (
        Loss.REASONING,
        Loss.TRAILING_OUTPUTS,
        *LOSSES_OF_TOKENS,
        Loss.LATER_SEGMENTS,
        Loss.POLICY_VERSION,
    )
    example = "ng_export +format=agent_tunix +input=rollouts.jsonl +output=data/tunix.jsonl"

    @classmethod
    def defaults(cls, files: RolloutFiles) -> Mapping[str, Any]:
        return {"num_generations": max(2, files.count_largest_group())}

    def __init__(self, options: AgentTunixOptions, report: Report) -> None:
        super().__init__(options, report)
        self.joins_agents = options.form == "tasks"  # a row of a task names no agent

    def rows(self, group: Group) -> Iterator[ExportRecord]:
        return (self._task_row if self.options.form == "tasks" else self._trajectories)(group)

    def _trajectories(self, group: Group) -> Iterator[ExportRecord]:
        read = list(self.report.suitable(group.selected, self._read))
        size = self.options.num_generations
        for rollout, _ in read if len(read) < size else read[size:]:
            self.report.leave_out(rollout, LeftOut.SHORT_GROUP if len(read) < size else LeftOut.SURPLUS)
        for place, (rollout, (chat, segments)) in enumerate(read[:size] if len(read) >= size else ()):
            self.report.export(self._losses(rollout, chat, segments))
            yield {
                "group_id": group.name,
                "pair_index": place,
                **_tokens(segments[0]),
                "conversation_text": chat.messages,
                "trajectory_reward": rollout.reward,
                "policy_version": _version(rollout) or 0,
                "status": "SUCCEEDED" if rollout.outcome == "completed" else "MAX_STEPS_REACHED",
                "original_input": {key: [value] for key, value in _task(rollout, chat).items()},
            }

    def _read(self, rollout: ScoredRollout) -> tuple[ChatTranscript, list[Segment]]:
        return read_conversation(rollout, self.options), self.options.read_segments(rollout)

    def _losses(
        self, rollout: ScoredRollout, chat: ChatTranscript, segments: list[Segment]
    ) -> Iterator[Loss]:
        yield from (loss for loss in chat.losses if loss is not Loss.UNSAMPLED_TURNS)  # the mask marks them
        yield from self.options.find_losses(rollout)
        if len(segments) > 1:
            yield Loss.LATER_SEGMENTS
        if _version(rollout) is None:
            yield Loss.POLICY_VERSION

    def _task_row(self, group: Group) -> Iterator[ExportRecord]:
        for rollout, chat in self.first_chat(group):
            yield _task(rollout, chat)


def _tokens(segment: Segment) -> ExportRecord:
    """Split the segment before its first sampled token. Logprobs of other tokens are 0, as Tunix writes them."""
    start = segment.loss_mask.index(1)
    return {
        "prompt_tokens": segment.token_ids[:start],
        "conversation_tokens": segment.token_ids[start:],
        "conversation_masks": segment.loss_mask[start:],
        "old_logprobs": [0.0 if logprob is None else logprob for logprob in segment.logprobs[start:]],
        "grammar_masks": segment.grammar_mask[start:],
    }


def _task(rollout: ScoredRollout, chat: ChatTranscript) -> dict[str, str]:
    """A task of an Agent-Tunix dataset: all fields are text, so that they can be batched."""
    users = [message["content"] for message in chat.prompt if message["role"] == "user"]
    answer = next((rollout.row[key] for key in ANSWER_KEYS if rollout.row.get(key) is not None), "")
    return {
        "prompts": "\n\n".join(message["content"] for message in chat.prompt),
        "question": users[-1] if users else "",
        "answer": answer if isinstance(answer, str) else str(answer),
    }


def _version(rollout: ScoredRollout) -> int | None:
    """The policy's version at the start of the rollout, if it is a number."""
    versions = rollout.policy_versions
    return versions[0] if versions and isinstance(versions[0], int) else None
