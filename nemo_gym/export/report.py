"""What became of every rollout that an export read: exported, or left out for one named reason.

Nothing is dropped in silence. A target that can't carry a rollout at all leaves it *out*; one that carries it with
something missing has a *loss*. Both are counted, each with its sentence and, for what was left out, an example.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Protocol, TypeVar


class LeftOut(StrEnum):
    """Why a rollout is in no row of the export."""

    UNREADABLE = "unreadable"
    FAILED = "failed"
    UNSCORED = "unscored"
    MASKED = "masked"
    OUTCOME = "outcome"
    ENVIRONMENT = "environment"
    REWARD = "reward"
    LENGTH = "length"
    UNKNOWN_LENGTH = "unknown_length"
    NO_TOKENS = "no_tokens"
    NO_ANSWER = "no_answer"
    UNCONVERTIBLE = "unconvertible"
    MULTIMODAL = "multimodal"
    MALFORMED_ARGUMENTS = "malformed_arguments"
    REWRITTEN_HISTORY = "rewritten_history"
    PREFILLED_ANSWER = "prefilled_answer"
    UNPAIRED = "unpaired"
    PROMPTS_DIFFER = "prompts_differ"
    NO_BASELINE = "no_baseline"
    EQUAL_REWARDS = "equal_rewards"
    SHORT_GROUP = "short_group"
    SURPLUS = "surplus"
    TURN_ORDER = "turn_order"
    ILLEGAL_FIELD = "illegal_field"
    REPEATED_TASK = "repeated_task"
    OTHER_TOOLS = "other_tools"
    EMPTY_OBJECT = "empty_object"


SENTENCES: dict[LeftOut, str] = {
    LeftOut.UNREADABLE: "the last line of a file was cut off",
    LeftOut.FAILED: "the attempt failed, which is no score",
    LeftOut.UNSCORED: "no verifier gave a finite reward",
    LeftOut.MASKED: "its environment or agent marked it as not to be trained on (`_ng_masked`, `mask_sample`)",
    LeftOut.OUTCOME: "the outcome is not among +outcomes",
    LeftOut.ENVIRONMENT: "the agent is not among +environments",
    LeftOut.REWARD: "the reward is outside +min_reward and +max_reward",
    LeftOut.LENGTH: "the length is outside +min_output_tokens and +max_output_tokens",
    LeftOut.UNKNOWN_LENGTH: "the row tells no number of output tokens to filter by",
    LeftOut.NO_TOKENS: "no model call has token ids to train on",
    LeftOut.NO_ANSWER: "the policy said nothing",
    LeftOut.UNCONVERTIBLE: "an item or tool has no counterpart in chat messages",
    LeftOut.MULTIMODAL: "the target takes text alone",
    LeftOut.MALFORMED_ARGUMENTS: "a tool call's arguments are not a JSON object",
    LeftOut.REWRITTEN_HISTORY: "the agent rewrote its history, so that the messages are not what the policy saw",
    LeftOut.PREFILLED_ANSWER: "the answer goes on with a message of the prompt",
    LeftOut.UNPAIRED: "no rollout of its task makes a pair with it",
    LeftOut.PROMPTS_DIFFER: "rollouts of the task begin with another prompt",
    LeftOut.NO_BASELINE: "the only scored rollout of its task, so that there is no advantage",
    LeftOut.EQUAL_REWARDS: "all rollouts of the task have the same reward",
    LeftOut.SHORT_GROUP: "its task has fewer usable rollouts than the group's size",
    LeftOut.SURPLUS: "its task has more usable rollouts than the group's size",
    LeftOut.TURN_ORDER: "the turns do not follow one another as the target asks",
    LeftOut.ILLEGAL_FIELD: "a name or field that the target refuses",
    LeftOut.OTHER_TOOLS: "its tools have another shape than the first ones, which one column can't hold: "
    "export each environment by itself, by +environments",
    LeftOut.EMPTY_OBJECT: "an object of a tool's schema is empty, which a column of Parquet can't hold",
    LeftOut.REPEATED_TASK: "its task is exported once, with an earlier rollout",
}


class Loss(StrEnum):
    """What the target can't carry of a rollout that is exported all the same."""

    REASONING = "reasoning"
    UNSAMPLED_TURNS = "unsampled_turns"
    TRAILING_OUTPUTS = "trailing_outputs"
    TEXT_BESIDE_CALLS = "text_beside_calls"
    JOINED_OUTPUTS = "joined_outputs"
    MASKED_CALLS = "masked_calls"
    LATER_SEGMENTS = "later_segments"
    POLICY_VERSION = "policy_version"


LOSSES: dict[Loss, str] = {
    Loss.REASONING: "reasoning is not carried",
    Loss.UNSAMPLED_TURNS: "assistant turns that the policy did not write can't be told from its own",
    Loss.TRAILING_OUTPUTS: "what follows the policy's last turn is not carried",
    Loss.TEXT_BESIDE_CALLS: "text or reasoning beside a tool call is not carried",
    Loss.JOINED_OUTPUTS: "outputs of parallel tool calls are one JSON list",
    Loss.MASKED_CALLS: "model calls without usable ids are not trained on",
    Loss.LATER_SEGMENTS: "what follows a rewrite of the token prefix is not carried",
    Loss.POLICY_VERSION: "the policy's version is unknown and stands as 0",
}


class Unsuitable(Exception):
    """A rollout that the target can't carry."""

    def __init__(self, reason: LeftOut, detail: str = "") -> None:
        super().__init__(detail or SENTENCES[reason])
        self.reason = reason
        self.detail = detail


class Named(Protocol):
    """What the report needs to know of a rollout."""

    @property
    def name(self) -> str: ...


_Rollout = TypeVar("_Rollout", bound=Named)
_Made = TypeVar("_Made")


@dataclass(slots=True)
class Report:
    """The counts of one export. `read` is the sum of `exported` and everything left out."""

    read: int = 0
    """Rollouts in the input."""
    exported: int = 0
    """Rollouts that are in a row at least."""
    rows: Counter[str] = field(default_factory=Counter)
    """Rows written, by file."""
    duplicates: int = 0
    """Rows that were not written because an equal one had been."""
    left_out: Counter[LeftOut] = field(default_factory=Counter)
    examples: dict[LeftOut, str] = field(default_factory=dict)
    """The first rollout left out for each reason, and what there is to say of it."""
    losses: Counter[Loss] = field(default_factory=Counter)
    """Rollouts exported with a loss."""

    def leave_out(self, rollout: Named | str, reason: LeftOut, detail: str = "") -> None:
        """Count a rollout that is in no row."""
        self.left_out[reason] += 1
        if reason not in self.examples:
            name = rollout if isinstance(rollout, str) else rollout.name
            self.examples[reason] = f"{name}: {detail}" if detail else name

    def export(self, losses: Iterable[Loss] = ()) -> None:
        """Count a rollout that is in a row, and what its rows don't carry of it."""
        self.exported += 1
        self.losses.update(set(losses))

    def suitable(
        self, rollouts: Iterable[_Rollout], make: Callable[[_Rollout], _Made]
    ) -> Iterator[tuple[_Rollout, _Made]]:
        """Each rollout with what `make` makes of it; those that `make` finds `Unsuitable` are left out."""
        for rollout in rollouts:
            try:
                made = make(rollout)
            except Unsuitable as error:
                self.leave_out(rollout, error.reason, error.detail)
            else:
                yield rollout, made

    def to_json(self) -> dict[str, Any]:
        return {
            "read": self.read,
            "exported": self.exported,
            "rows": dict(self.rows),
            "duplicates": self.duplicates,
            "left_out": {
                reason.value: {"rollouts": count, "why": SENTENCES[reason], "example": self.examples[reason]}
                for reason, count in self.left_out.most_common()
            },
            "losses": {
                loss.value: {"rollouts": count, "what": LOSSES[loss]}
                for loss, count in self.losses.most_common()
            },
        }

    def lines(self) -> Iterator[str]:
        """The report for a person."""
        yield f"{self.exported:,} of {self.read:,} rollouts exported"
        for path, count in self.rows.items():
            yield f"{count:>9,}  rows in {path}"
        if self.duplicates:
            yield f"{self.duplicates:>9,}  rows were equal to an earlier one, and not written"
        if self.left_out:
            yield f"{self.left_out.total():,} left out:"
        for reason, count in self.left_out.most_common():
            yield f"{count:>9,}  {reason}: {SENTENCES[reason]} (first: {self.examples[reason]})"
        if self.losses:
            yield "exported with a loss:"
        for loss, count in self.losses.most_common():
            yield f"{count:>9,}  {loss}: {LOSSES[loss]}"
