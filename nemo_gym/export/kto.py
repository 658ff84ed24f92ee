"""KTO: single answers, each labelled as desirable or not.

TRL's `KTOTrainer` reads the rows: `prompt` and `completion` as messages, `label`, and `tools` as JSON text. A truncated
answer with a high reward is left out unless `label_truncated` is set.
"""

from __future__ import annotations

from collections.abc import Iterator

from pydantic import Field

from nemo_gym.export._conversation import (
    LOSSES_OF_TEXT,
    ChatTranscript,
    TextFormat,
    TextOptions,
    read_conversation,
)
from nemo_gym.export._formats import ExportRecord
from nemo_gym.export._rollouts import Group, ScoredRollout
from nemo_gym.export.report import LeftOut, Unsuitable
from nemo_gym.failures import Outcome


class KtoOptions(TextOptions):
    threshold: float = Field(0.5, description="The lowest reward of a desirable answer.")
    label_truncated: bool = Field(False, description="Whether a truncated answer may be labelled desirable.")


class Kto(TextFormat[KtoOptions]):
    name = "kto"
    summary = "answers labelled as desirable or not (TRL's KTOTrainer)"
    options_type = KtoOptions
    merges_equal_rows = True
    losses = LOSSES_OF_TEXT
    example = "ng_export +format=kto +input=rollouts.jsonl +output=data/kto.jsonl +options.threshold=1"

    def rows(self, group: Group) -> Iterator[ExportRecord]:
        for rollout, chat in self.report.suitable(group.selected, self._read):
            self.report.export(chat.losses)
            yield {
                "prompt": chat.prompt,
                "completion": chat.completion,
                "label": self._is_desirable(rollout),
                **chat.tools_column,
            }

    def _read(self, rollout: ScoredRollout) -> ChatTranscript:
        is_truncated = rollout.outcome is not Outcome.COMPLETED
        if is_truncated and self._is_desirable(rollout) and not self.options.label_truncated:
            raise Unsuitable(LeftOut.OUTCOME, "it is truncated and has a high reward")
        return read_conversation(rollout, self.options)

    def _is_desirable(self, rollout: ScoredRollout) -> bool:
        return rollout.reward >= self.options.threshold
