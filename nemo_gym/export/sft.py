"""SFT: each finished answer as a supervised example.

TRL's `SFTTrainer` reads the rows, and so does every trainer with the same columns.
- `form=messages`: `messages` with `tool_calls`, and `tools` as JSON text (tools of different shapes don't fit into one
  column otherwise).
- `form=tokens`: `input_ids`, `labels` that equal them where the policy sampled and are -100 elsewhere, and
  `grammar_mask` (1 for tokens sampled under a grammar); one row per segment. The trainer applies no chat template, so
  it trains on exactly the sampled tokens. (TRL ignores a `completion_mask` by default; trainers built on
  transformers use `labels` as given.)
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

from pydantic import Field

from nemo_gym.export._conversation import LOSSES_OF_TEXT, TextFormat, TextOptions
from nemo_gym.export._token_options import LOSSES_OF_TOKENS, TokenOptions
from nemo_gym.export.formats import FINISHED, SOLVED, ExportRecord
from nemo_gym.export.rollouts import Group
from nemo_gym.tokens.segments import Segment

IGNORED_LABEL = -100
"""The label that PyTorch's cross entropy ignores."""


class SftOptions(TextOptions, TokenOptions):
    form: Literal["messages", "tokens"] = Field("messages", description="Messages, or ids with labels.")


class Sft(TextFormat[SftOptions]):
    name = "sft"
    summary = "finished answers as messages with tools, or as ids with labels (TRL's SFTTrainer)"
    options_type = SftOptions
    outcomes = FINISHED
    min_reward = SOLVED
    merges_equal_rows = learns_answers = True
    losses = (*LOSSES_OF_TEXT, *LOSSES_OF_TOKENS)
    example = "ng_export +format=sft +input=rollouts.jsonl +output=data/sft.jsonl +min_reward=1"

    def rows(self, group: Group) -> Iterator[ExportRecord]:
        return (self._token_rows if self.options.form == "tokens" else self._message_rows)(group)

    def _message_rows(self, group: Group) -> Iterator[ExportRecord]:
        for _, chat in self.whole_chats(group):
            self.report.export(chat.losses_of_sft)
            yield {"messages": chat.messages, **chat.tools_column}

    def _token_rows(self, group: Group) -> Iterator[ExportRecord]:
        for rollout, segments in self.report.suitable(group.selected, self.options.read_segments):
            self.report.export(self.options.find_losses(rollout))
            for segment in segments:
                yield {
                    "input_ids": segment.token_ids,
                    "labels": _labels(segment),
                    "grammar_mask": segment.grammar_mask,
                }


def _labels(segment: Segment) -> list[int]:
    bits = zip(segment.token_ids, segment.loss_mask, strict=True)
    return [token if bit else IGNORED_LABEL for token, bit in bits]
