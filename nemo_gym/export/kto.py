"""KTO: single answers, each labelled as desirable or not.

TRL's `KTOTrainer` reads the rows: `prompt` and `completion` as messages, `label`, and `tools` as JSON text. A truncated
answer with a high reward is left out unless `label_truncated` is set. Equal answers of a task whose labels differ are
left out, whatever their agents. Those of several inputs, and of tasks that repeat a prompt, are exported and counted.
"""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Iterator

from pydantic import Field

from nemo_gym.export._conversation import (
    LOSSES_OF_TEXT,
    ChatTranscript,
    TextFormat,
    TextOptions,
    read_conversation,
)
from nemo_gym.export.formats import ExportRecord
from nemo_gym.export.report import LeftOut, Report, Unsuitable
from nemo_gym.export.rollouts import Group, ScoredRollout
from nemo_gym.failures import Outcome
from nemo_gym.json_objects import dump_json

_DIGEST_BYTES = 12


class KtoOptions(TextOptions):
    threshold: float = Field(0.5, description="The lowest reward of a desirable answer.")
    label_truncated: bool = Field(False, description="Whether a truncated answer may be labelled desirable.")


class Kto(TextFormat[KtoOptions]):
    name = "kto"
    summary = "answers labelled as desirable or not (TRL's KTOTrainer)"
    options_type = KtoOptions
    merges_equal_rows = learns_answers = True
    joins_agents = True  # a row names no agent
    losses = LOSSES_OF_TEXT
    example = "ng_export +format=kto +input=rollouts.jsonl +output=data/kto.jsonl +options.threshold=1"

    def __init__(self, options: KtoOptions, report: Report) -> None:
        super().__init__(options, report)
        self._labels: dict[bytes, bool] = {}
        """The first exported label of each answer."""

    def rows(self, group: Group) -> Iterator[ExportRecord]:
        answers = [
            (rollout, chat, _digest(chat))
            for rollout, chat in self.report.suitable(group.selected, self._read)
        ]
        labels: defaultdict[bytes, set[bool]] = defaultdict(set)
        for rollout, _, digest in answers:
            labels[digest].add(self._is_desirable(rollout))
        for rollout, chat, digest in answers:
            if len(labels[digest]) > 1:
                self.report.leave_out(rollout, LeftOut.CONTRADICTORY)
                continue
            label = self._is_desirable(rollout)
            self.report.contradictions += self._labels.setdefault(digest, label) is not label
            self.report.export(chat.losses)
            yield {
                "prompt": chat.prompt,
                "completion": chat.completion,
                "label": label,
                **chat.tools_column,
            }

    def _read(self, rollout: ScoredRollout) -> ChatTranscript:
        is_truncated = rollout.outcome is not Outcome.COMPLETED
        if is_truncated and self._is_desirable(rollout) and not self.options.label_truncated:
            raise Unsuitable(LeftOut.OUTCOME, "it is truncated and has a high reward")
        return read_conversation(rollout, self.options)

    def _is_desirable(self, rollout: ScoredRollout) -> bool:
        return rollout.reward >= self.options.threshold


def _digest(chat: ChatTranscript) -> bytes:
    """Return the digest of an answer with its prompt and tools."""
    return hashlib.blake2b(
        dump_json([chat.prompt, chat.completion, chat.tools]), digest_size=_DIGEST_BYTES
    ).digest()
