"""DPO: pairs of a better and a worse answer to the same prompt.

TRL's `DPOTrainer` reads the rows: `prompt`, `chosen` and `rejected` as messages, tool turns included, and `tools` as
JSON text. Failed attempts are in no pair: a failure is not a worse answer. Equal answers are in no pair, whatever their
rewards. A truncated answer may be rejected, and
chosen only with `choose_truncated`. Both answers of a pair are of one agent. With several inputs, such as runs of two
models, `across_runs` also pairs answers of different runs and agents to the same task.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Literal, NamedTuple

from pydantic import Field

from nemo_gym.export._conversation import LOSSES_OF_TEXT, ChatTranscript, TextFormat, TextOptions
from nemo_gym.export.formats import ExportRecord
from nemo_gym.export.report import LeftOut, Report
from nemo_gym.export.rollouts import Group, ScoredRollout
from nemo_gym.failures import Outcome
from nemo_gym.json_objects import dump_json

_ROUNDING = 1e-9
"""The relative difference up to which rewards are equal, as in `Group.has_equal_rewards`."""


class DpoOptions(TextOptions):
    pairs: Literal["best_worst", "all", "length_matched"] = Field(
        "best_worst",
        description="The best and the worst answer; all pairs at least `margin` apart; or of those the pairs with the "
        "smallest difference in length, each answer in at most one pair.",
    )
    margin: float = Field(0.0, ge=0.0, description="The smallest difference between the rewards of a pair.")
    across_runs: bool = Field(
        False,
        description="Also pair answers of several inputs and agents to one task. The task rows beside the inputs tell "
        "which tasks are the same: those whose input and fields are equal.",
    )
    choose_truncated: bool = Field(False, description="Whether a truncated answer may be chosen.")


class PairCandidate(NamedTuple):
    """A rollout that can be in a pair."""

    rollout: ScoredRollout
    chat: ChatTranscript

    @property
    def reward(self) -> float:
        return self.rollout.reward

    @property
    def length(self) -> int:
        """Output tokens where the engine counted them, else bytes of JSON."""
        counted = self.rollout.output_tokens
        return counted if counted is not None else len(dump_json(self.chat.completion))


class Pair(NamedTuple):
    chosen: PairCandidate
    rejected: PairCandidate

    @property
    def is_of_equals(self) -> bool:
        """Return whether both answers are the same text, so that there is nothing to prefer."""
        return self.chosen.chat.completion == self.rejected.chat.completion

    @property
    def length_difference(self) -> int:
        return abs(self.chosen.length - self.rejected.length)


class Dpo(TextFormat[DpoOptions]):
    name = "dpo"
    summary = "pairs of a better and a worse answer to one prompt (TRL's DPOTrainer)"
    options_type = DpoOptions
    merges_equal_rows = learns_answers = True
    losses = LOSSES_OF_TEXT
    example = (
        "ng_export +format=dpo +input=rollouts.jsonl +output=data/dpo.jsonl "
        "+options.pairs=length_matched +options.margin=0.5"
    )

    def __init__(self, options: DpoOptions, report: Report) -> None:
        super().__init__(options, report)
        self.joins_inputs = self.joins_agents = options.across_runs

    def rows(self, group: Group) -> Iterator[ExportRecord]:
        answers = self._keep_first_prompt([PairCandidate(*each) for each in self.chats(group)])
        fitting = [Pair(a, b) for a in answers for b in answers if self._fits(a, b)]
        possible = [pair for pair in fitting if not pair.is_of_equals]
        self.report.equal_pairs += len(fitting) - len(possible)
        chosen_pairs = self._choose(possible)
        equal = _names_in(fitting) - _names_in(possible)
        self._report(answers, possible, chosen_pairs, equal, self._explain_unpaired(group))
        for chosen, rejected in chosen_pairs:
            yield {
                "prompt": chosen.chat.prompt,
                "chosen": chosen.chat.completion,
                "rejected": rejected.chat.completion,
                **chosen.chat.tools_column,
            }

    def _explain_unpaired(self, group: Group) -> LeftOut:
        """Return the reason for leaving out the rollouts of a group that are in no pair."""
        if not self.options.across_runs:
            return LeftOut.UNPAIRED
        is_alone = len({each.file for each in group.members}) == 1
        return LeftOut.ONE_RUN if is_alone else LeftOut.UNPAIRED_ANYWHERE

    def _keep_first_prompt(self, answers: list[PairCandidate]) -> list[PairCandidate]:
        """Return the answers to the same prompt as the first; leave out the others."""
        kept = []
        for answer in answers:
            first = answers[0].chat
            if answer.chat.prompt == first.prompt and answer.chat.tools == first.tools:
                kept.append(answer)
            else:
                self.report.leave_out(answer.rollout, LeftOut.PROMPTS_DIFFER)
        return kept

    def _choose(self, pairs: list[Pair]) -> list[Pair]:
        if self.options.pairs == "all":
            return pairs
        if self.options.pairs == "best_worst":
            return [max(pairs, key=lambda pair: pair.chosen.reward - pair.rejected.reward)] if pairs else []
        return _each_once(sorted(pairs, key=lambda pair: pair.length_difference))

    def _fits(self, chosen: PairCandidate, rejected: PairCandidate) -> bool:
        is_complete = chosen.rollout.outcome is Outcome.COMPLETED
        if not (is_complete or self.options.choose_truncated) or not _is_better(chosen, rejected):
            return False
        difference, margin = chosen.reward - rejected.reward, self.options.margin
        return difference >= margin or math.isclose(difference, margin, rel_tol=_ROUNDING)

    def _report(
        self,
        answers: list[PairCandidate],
        possible: list[Pair],
        pairs: list[Pair],
        equal: set[str],
        unpaired: LeftOut,
    ) -> None:
        paired, fitting = _names_in(pairs), _names_in(possible)
        are_equal = not any(_is_better(a, b) for a in answers for b in answers)
        if len(answers) > 1 and are_equal and unpaired is LeftOut.UNPAIRED:
            unpaired = LeftOut.NO_DIFFERENCE
        for answer in answers:
            rollout, chat = answer
            if rollout.name in paired:
                self.report.export(chat.losses)
            elif rollout.name in fitting:
                self.report.leave_out(rollout, LeftOut.OTHER_PAIR)
            elif rollout.name in equal:
                self.report.leave_out(rollout, LeftOut.EQUAL_ANSWERS)
            elif self.options.margin and any(
                _is_better(*pair) for other in answers for pair in ((answer, other), (other, answer))
            ):
                self.report.leave_out(rollout, LeftOut.BELOW_MARGIN)
            else:
                self.report.leave_out(rollout, unpaired)


def _is_better(one: PairCandidate, other: PairCandidate) -> bool:
    """Return whether a reward is higher than another by more than rounding."""
    return one.reward > other.reward and not math.isclose(one.reward, other.reward, rel_tol=_ROUNDING)


def _names_in(pairs: list[Pair]) -> set[str]:
    return {answer.rollout.name for pair in pairs for answer in pair}


def _each_once(pairs: list[Pair]) -> list[Pair]:
    """Return pairs in their order, skipping those whose rollouts are taken."""
    taken: set[str] = set()
    chosen = []
    for pair in pairs:
        names = {answer.rollout.name for answer in pair}
        if not names & taken:
            taken |= names
            chosen.append(pair)
    return chosen
