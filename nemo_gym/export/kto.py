"""KTO: single answers, each labelled as desirable or not.

Read by TRL's `KTOTrainer`: `prompt` and `completion` as messages, `label`, and `tools` as JSON text. An answer that
was cut off and yet has a high reward is left out, unless `label_truncated` is set.
"""

from __future__ import annotations

from collections.abc import Iterator

import orjson
from pydantic import Field

from nemo_gym.export._conversation import LOSSES_OF_TEXT, ChatTranscript, TextOptions, conversation_of
from nemo_gym.export._formats import Format, Row
from nemo_gym.export._rollouts import Group, ScoredRollout
from nemo_gym.export.report import LeftOut, Unsuitable
from nemo_gym.failures import Outcome


class KtoOptions(TextOptions):
    threshold: float = Field(0.5, description="The reward from which on an answer is desirable.")
    label_truncated: bool = Field(
        False, description="Whether an answer that was cut off may be called desirable."
    )


class Kto(Format[KtoOptions]):
    name = "kto"
    summary = "answers labelled as desirable or not (TRL's KTOTrainer)"
    options_type = KtoOptions
    losses = LOSSES_OF_TEXT
    example = "ng_export +format=kto +input=rollouts.jsonl +output=data/kto.jsonl +options.threshold=1"

    @property
    def merges_equal_rows(self) -> bool:
        return True

    def rows(self, group: Group) -> Iterator[Row]:
        for rollout, chat in self.report.suitable(group.selected, self._read):
            self.report.export(chat.losses)
            row: Row = {
                "prompt": chat.prompt,
                "completion": chat.completion,
                "label": self._is_desirable(rollout),
            }
            if chat.tools:
                row["tools"] = orjson.dumps(chat.tools).decode()
            yield row

    def _read(self, rollout: ScoredRollout) -> ChatTranscript:
        cut_off = rollout.outcome is not Outcome.COMPLETED
        if cut_off and self._is_desirable(rollout) and not self.options.label_truncated:
            raise Unsuitable(LeftOut.OUTCOME, "it was cut off, and yet its reward is high")
        return conversation_of(rollout, self.options)

    def _is_desirable(self, rollout: ScoredRollout) -> bool:
        return rollout.reward >= self.options.threshold
