"""SFT: each finished answer as an example to learn by heart.

Read by TRL's `SFTTrainer` and whatever takes its columns.
- `form=messages`: `messages` with `tool_calls`, and `tools` as JSON text (tools of different shapes don't fit into one
  column otherwise).
- `form=tokens`: `input_ids`, and `labels` that are the same where the policy sampled and -100 elsewhere; a row for each
  segment. No chat template stands between what was sampled and what is trained on. (TRL ignores a `completion_mask`
  unless it is told otherwise; `labels` it takes as they are, as all that is built on transformers does.)
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

import orjson
from pydantic import Field

from nemo_gym.export._conversation import LOSSES_OF_TEXT, TextOptions, conversation_of
from nemo_gym.export._formats import FINISHED, Format, Row
from nemo_gym.export._rollouts import Group, ScoredRollout
from nemo_gym.export.report import Loss
from nemo_gym.failures import Outcome
from nemo_gym.tokens.segments import Segment

IGNORED_LABEL = -100
"""What PyTorch's cross entropy, and so every trainer on top of it, takes for no label."""


class SftOptions(TextOptions):
    form: Literal["messages", "tokens"] = Field("messages", description="Messages, or ids with labels.")


class Sft(Format[SftOptions]):
    name = "sft"
    summary = "finished answers as messages with tools, or as ids with labels (TRL's SFTTrainer)"
    options_type = SftOptions
    losses = (*LOSSES_OF_TEXT, Loss.MASKED_CALLS)
    example = "ng_export +format=sft +input=rollouts.jsonl +output=data/sft.jsonl +min_reward=1"

    @property
    def outcomes(self) -> frozenset[Outcome]:
        return FINISHED

    @property
    def merges_equal_rows(self) -> bool:
        return True

    def rows(self, group: Group) -> Iterator[Row]:
        return (self._token_rows if self.options.form == "tokens" else self._message_rows)(group)

    def _message_rows(self, group: Group) -> Iterator[Row]:
        for _, chat in self.report.suitable(group.selected, lambda r: conversation_of(r, self.options)):
            self.report.export(chat.losses_of_sft)
            row: Row = {"messages": chat.messages}
            if chat.tools:
                row["tools"] = orjson.dumps(chat.tools).decode()
            yield row

    def _token_rows(self, group: Group) -> Iterator[Row]:
        for rollout, segments in self.report.suitable(group.selected, ScoredRollout.read_segments):
            self.report.export([Loss.MASKED_CALLS] if rollout.has_masked_calls else [])
            for segment in segments:
                yield {"input_ids": segment.token_ids, "labels": _labels(segment)}


def _labels(segment: Segment) -> list[int]:
    bits = zip(segment.token_ids, segment.loss_mask, strict=True)
    return [token if bit else IGNORED_LABEL for token, bit in bits]
