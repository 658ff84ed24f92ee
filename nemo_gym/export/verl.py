"""verl: Parquet for its two datasets.

- `form=sft`: one row per finished answer, `messages` and `tools`, as `MultiTurnSFTDataset` reads them. verl passes
  tools to the chat template unchanged, and a Parquet column gives every tool the fields of all. With `tools=column` a
  file therefore holds only rollouts whose tools have the same shape as the first one's. With `tools=text` it holds all,
  and verl reads them with `data.custom_cls.path=pkg://nemo_gym.client.verl data.custom_cls.name=TextToolsDataset`.
- `form=rl`: one row per task, `prompt`, `data_source`, `ability`, `reward_model` and `extra_info`, as `RLHFDataset`
  reads them, with the mean reward of the rollouts. The gym gives the reward, so `reward_model` holds no answer.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Literal

import orjson
from pydantic import Field

from nemo_gym.export._conversation import (
    LOSSES_OF_TEXT,
    ChatTranscript,
    TextFormat,
    TextOptions,
    read_conversation,
)
from nemo_gym.export.formats import FINISHED, SOLVED, ExportRecord
from nemo_gym.export.report import LeftOut, Report, Unsuitable
from nemo_gym.export.rollouts import Group, ScoredRollout


class VerlOptions(TextOptions):
    form: Literal["sft", "rl"] = Field("sft", description="Answers for supervised training, or tasks for RL.")
    tools: Literal["column", "text"] = Field(
        "column",
        description="Tools as a nested column, for tools of one shape, or as JSON text, for any tools and "
        "`nemo_gym.client.verl.TextToolsDataset`.",
    )
    arguments: Literal["string"] = Field("string", description="Arguments of tool calls are JSON text.")


class Verl(TextFormat[VerlOptions]):
    name = "verl"
    summary = "Parquet for verl's MultiTurnSFTDataset, or for its RLHFDataset"
    options_type = VerlOptions
    losses = LOSSES_OF_TEXT
    example = "ng_export +format=verl +input=rollouts.jsonl +output=data/verl.parquet +options.form=rl"
    endings = (".parquet",)
    _shape: Any = None
    """The shape of the first tools."""

    def __init__(self, options: VerlOptions, report: Report) -> None:
        super().__init__(options, report)
        if options.form == "sft":
            self.outcomes, self.min_reward = FINISHED, SOLVED
            self.merges_equal_rows = self.learns_answers = True

    def rows(self, group: Group) -> Iterator[ExportRecord]:
        return (self._task_row if self.options.form == "rl" else self._answer_rows)(group)

    def _answer_rows(self, group: Group) -> Iterator[ExportRecord]:
        for _, chat in self.report.suitable(group.selected, self._read):
            self.report.export(chat.losses_of_sft)
            is_text = self.options.tools == "text"
            yield {
                "messages": chat.messages,
                "tools": chat.tools_column.get("tools") if is_text else chat.tools or None,
            }

    def _read(self, rollout: ScoredRollout) -> ChatTranscript:
        chat = read_conversation(rollout, self.options).require_own_turns()
        for tool in chat.tools if self.options.tools == "column" else ():
            shape = _describe_shape(tool)
            if self._shape is None:
                self._shape = shape
            if shape != self._shape:
                raise Unsuitable(LeftOut.OTHER_TOOLS, tool["function"]["name"])
        return chat

    def _task_row(self, group: Group) -> Iterator[ExportRecord]:
        for rollout, chat in self.first_chat(group):
            yield {
                "data_source": rollout.environment,
                "prompt": chat.prompt,
                "ability": "tools" if chat.tools else "chat",
                "reward_model": {"style": "nemo_gym", "ground_truth": ""},
                "extra_info": {
                    "index": rollout.task_number,
                    **rollout.origin_column,
                    "mean_reward": group.mean,
                    "rollouts": len(group.members),
                    "tools": orjson.dumps(chat.tools).decode(),
                },
            }


def _describe_shape(value: Any) -> Any:
    """The field names, in their order, and types of a JSON value."""
    if isinstance(value, dict):
        if not value:
            raise Unsuitable(LeftOut.EMPTY_OBJECT)
        return tuple((name, _describe_shape(each)) for name, each in value.items())
    if isinstance(value, list):
        return frozenset(_describe_shape(each) for each in value)
    return type(value).__name__
