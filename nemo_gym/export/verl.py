"""verl: Parquet for its two datasets.

- `form=sft`: a finished answer a row, `messages` and `tools`, as `MultiTurnSFTDataset` reads them. verl hands tools to
  the chat template as it finds them, and a column of Parquet gives every tool the fields of all: only rollouts whose
  tools have the shape of the first one's can be in a file.
- `form=rl`: a task a row, `prompt`, `data_source`, `ability`, `reward_model` and `extra_info`, as `RLHFDataset` reads
  them: what to train on next, with what the rollouts came to. The gym gives the reward, so that `reward_model` holds
  no answer.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Literal

import orjson
from pydantic import Field

from nemo_gym.export._conversation import LOSSES_OF_TEXT, ChatTranscript, TextOptions, conversation_of
from nemo_gym.export._formats import FINISHED, Format, Row
from nemo_gym.export._rollouts import Group, ScoredRollout
from nemo_gym.export.report import LeftOut, Unsuitable
from nemo_gym.failures import SCORED_OUTCOMES, Outcome


class VerlOptions(TextOptions):
    form: Literal["sft", "rl"] = Field("sft", description="Answers to learn, or tasks to train on.")
    arguments: Literal["string"] = Field("string", description="Arguments of tool calls are JSON text.")


class Verl(Format[VerlOptions]):
    name = "verl"
    summary = "Parquet for verl's MultiTurnSFTDataset, or for its RLHFDataset"
    options_type = VerlOptions
    losses = LOSSES_OF_TEXT
    example = "ng_export +format=verl +input=rollouts.jsonl +output=data/verl.parquet +options.form=rl"
    _shape: Any = None
    """The shape of the first tools."""

    @property
    def endings(self) -> tuple[str, ...]:
        return (".parquet",)

    @property
    def outcomes(self) -> frozenset[Outcome]:
        return FINISHED if self.options.form == "sft" else SCORED_OUTCOMES

    @property
    def merges_equal_rows(self) -> bool:
        return self.options.form == "sft"

    def rows(self, group: Group) -> Iterator[Row]:
        return (self._task_row if self.options.form == "rl" else self._answer_rows)(group)

    def _answer_rows(self, group: Group) -> Iterator[Row]:
        for _, chat in self.report.suitable(group.selected, self._read_alike):
            self.report.export(chat.losses_of_sft)
            yield {"messages": chat.messages, "tools": chat.tools or None}

    def _read_alike(self, rollout: ScoredRollout) -> ChatTranscript:
        chat = conversation_of(rollout, self.options)
        for tool in chat.tools:
            shape = _shape_of(tool)
            if self._shape is None:
                self._shape = shape
            if shape != self._shape:
                raise Unsuitable(LeftOut.OTHER_TOOLS, tool["function"]["name"])
        return chat

    def _task_row(self, group: Group) -> Iterator[Row]:
        read = self.report.suitable(group.selected, lambda rollout: conversation_of(rollout, self.options))
        for place, (rollout, chat) in enumerate(read):
            if place:
                self.report.leave_out(rollout, LeftOut.REPEATED_TASK)
                continue
            self.report.export()
            yield {
                "data_source": rollout.environment,
                "prompt": chat.prompt,
                "ability": "tools" if chat.tools else "chat",
                "reward_model": {"style": "nemo_gym", "ground_truth": ""},
                "extra_info": {
                    "index": rollout.task_number,
                    "mean_reward": group.mean,
                    "rollouts": len(group.members),
                    "tools": orjson.dumps(chat.tools).decode(),
                },
            }


def _shape_of(value: Any) -> Any:
    """The names, in their order, and kinds in a JSON value, without its texts and numbers."""
    if isinstance(value, dict):
        if not value:
            raise Unsuitable(LeftOut.EMPTY_OBJECT)
        return tuple((name, _shape_of(each)) for name, each in value.items())
    if isinstance(value, list):
        return frozenset(_shape_of(each) for each in value)
    return type(value).__name__
