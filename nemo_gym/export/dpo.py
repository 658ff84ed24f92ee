"""DPO: pairs of a better and a worse answer to the same prompt.

Read by TRL's `DPOTrainer`: `prompt`, `chosen` and `rejected` as messages, tool turns included, and `tools` as JSON
text. Failed attempts are in no pair: a failure is no worse answer. An answer that was cut off may be rejected, and
chosen only with `choose_truncated`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal, NamedTuple

import orjson
from pydantic import Field

from nemo_gym.export._conversation import LOSSES_OF_TEXT, ChatTranscript, TextOptions, conversation_of
from nemo_gym.export._formats import Format, Row
from nemo_gym.export._rollouts import Group, ScoredRollout
from nemo_gym.export.report import LeftOut
from nemo_gym.failures import Outcome


class DpoOptions(TextOptions):
    pairs: Literal["best_worst", "all", "length_matched"] = Field(
        "best_worst",
        description="The best with the worst; every two that are `margin` apart; or of those the two whose lengths "
        "are nearest, then the next, each answer in one pair at most.",
    )
    margin: float = Field(0.0, ge=0.0, description="By how much the rewards of a pair differ at least.")
    choose_truncated: bool = Field(False, description="Whether an answer that was cut off may be chosen.")


class PairCandidate(NamedTuple):
    """A rollout that can be half of a pair."""

    rollout: ScoredRollout
    chat: ChatTranscript

    @property
    def reward(self) -> float:
        return self.rollout.reward

    @property
    def length(self) -> int:
        """In tokens where the engine counted them, or else in bytes of JSON."""
        counted = self.rollout.output_tokens
        return counted if counted is not None else len(orjson.dumps(self.chat.completion))


class Pair(NamedTuple):
    chosen: PairCandidate
    rejected: PairCandidate

    @property
    def length_difference(self) -> int:
        return abs(self.chosen.length - self.rejected.length)


class Dpo(Format[DpoOptions]):
    name = "dpo"
    summary = "pairs of a better and a worse answer to one prompt (TRL's DPOTrainer)"
    options_type = DpoOptions
    losses = LOSSES_OF_TEXT
    example = (
        "ng_export +format=dpo +input=rollouts.jsonl +output=data/dpo.jsonl "
        "+options.pairs=length_matched +options.margin=0.5"
    )

    @property
    def merges_equal_rows(self) -> bool:
        return True

    def rows(self, group: Group) -> Iterator[Row]:
        read = self.report.suitable(group.selected, lambda rollout: conversation_of(rollout, self.options))
        answers = self._of_one_prompt([PairCandidate(*each) for each in read])
        pairs = self._pairs(answers)
        self._account(answers, pairs)
        for chosen, rejected in pairs:
            row: Row = {
                "prompt": chosen.chat.prompt,
                "chosen": chosen.chat.completion,
                "rejected": rejected.chat.completion,
            }
            if chosen.chat.tools:
                row["tools"] = orjson.dumps(chosen.chat.tools).decode()
            yield row

    def _of_one_prompt(self, answers: list[PairCandidate]) -> list[PairCandidate]:
        """Those that answer what the first one answers."""
        kept = []
        for answer in answers:
            first = answers[0].chat
            if answer.chat.prompt == first.prompt and answer.chat.tools == first.tools:
                kept.append(answer)
            else:
                self.report.leave_out(answer.rollout, LeftOut.PROMPTS_DIFFER)
        return kept

    def _pairs(self, answers: list[PairCandidate]) -> list[Pair]:
        pairs = [Pair(a, b) for a in answers for b in answers if self._fits(a, b)]
        if self.options.pairs == "all":
            return pairs
        if self.options.pairs == "best_worst":
            return [max(pairs, key=lambda pair: pair.chosen.reward - pair.rejected.reward)] if pairs else []
        return _each_once(sorted(pairs, key=lambda pair: pair.length_difference))

    def _fits(self, chosen: PairCandidate, rejected: PairCandidate) -> bool:
        difference = chosen.reward - rejected.reward
        is_whole = chosen.rollout.outcome is Outcome.COMPLETED
        return (
            (is_whole or self.options.choose_truncated)
            and difference > 0
            and difference >= self.options.margin
        )

    def _account(self, answers: list[PairCandidate], pairs: list[Pair]) -> None:
        paired = {answer.rollout.name for pair in pairs for answer in pair}
        for rollout, chat in answers:
            if rollout.name in paired:
                self.report.export(chat.losses)
            else:
                self.report.leave_out(rollout, LeftOut.UNPAIRED)


def _each_once(pairs: list[Pair]) -> list[Pair]:
    """The first pairs in which no rollout is twice."""
    taken: set[str] = set()
    chosen = []
    for pair in pairs:
        names = {answer.rollout.name for answer in pair}
        if not names & taken:
            taken |= names
            chosen.append(pair)
    return chosen
