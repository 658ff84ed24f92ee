"""The outcome of every rollout that an export read: exported, or left out for one named reason.

No rollout is dropped silently. A rollout that the target cannot represent at all is *left out*. A rollout that it
represents in part is exported with a *loss*. Both are counted, each with an explanation and, for rollouts left out,
the first example.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Protocol, Self, TypeVar

ORIGIN = ("dataset", "source", "license", "split")
"""The parts of a task folder's origin that the report counts by."""


class _Explained(StrEnum):
    """A name in the report and its explanation."""

    explanation: str

    def __new__(cls, name: str, explanation: str) -> Self:
        member = str.__new__(cls, name)
        member._value_ = name
        member.explanation = explanation
        return member


class LeftOut(_Explained):
    """The reason why a rollout is in no row of the export."""

    UNREADABLE = "unreadable", "the last line of a file is truncated"
    FAILED = "failed", "the attempt failed; a failure is not a score"
    UNSCORED = "unscored", "no verifier gave a finite reward"
    MASKED = (
        "masked",
        "its environment or agent excluded it from training (`_ng_masked`, `mask_sample`)",
    )
    FOREIGN = (
        "foreign",
        "another program made its trajectory, and not every model call has its tokens (`_ng_foreign`)",
    )
    TAMPERABLE = (
        "tamperable",
        "its answer ran beside its verifier and could have forged the reward: +allow_tamperable=true exports it",
    )
    BROKE_VERIFIER = (
        "broke_verifier",
        "its answer broke `verify`, so that its reward judges no text (`answer_fault`)",
    )
    OUTCOME = "outcome", "the outcome is not among +outcomes"
    ENVIRONMENT = "environment", "the agent is not among +environments"
    REWARD = "reward", "the reward is outside +min_reward and +max_reward"
    LOW_REWARD = (
        "low_reward",
        "a supervised example has a reward of at least 1, unless +min_reward or +max_reward is set",
    )
    LENGTH = "length", "the length is outside +min_output_tokens and +max_output_tokens"
    UNKNOWN_LENGTH = "unknown_length", "the row has no number of output tokens to filter by"
    NO_TOKENS = (
        "no_tokens",
        "no model call has token ids to train on: collect with "
        "`--model-type vllm_model/vllm_model_for_training`, or with return_token_id_information: true of vllm_model",
    )
    GRAMMAR = "grammar", "all its tokens were sampled under a grammar, and +options.grammar_tokens is context"
    NO_ANSWER = (
        "no_answer",
        "the policy's last message has neither text nor a tool call, or it wrote none",
    )
    UNCONVERTIBLE = "unconvertible", "an item or tool has no counterpart in chat messages"
    MULTIMODAL = "multimodal", "the target takes text only"
    MALFORMED_ARGUMENTS = "malformed_arguments", "a tool call's arguments are not a JSON object"
    REWRITTEN_HISTORY = (
        "rewritten_history",
        "the agent rewrote its history, so the messages are not what the policy saw",
    )
    SHARED_TURNS = (
        "shared_turns",
        "it is a fork, and this format would train the turns that it shares with its parent again: choose a format "
        "with tokens or prompts",
    )
    PREFILLED_ANSWER = "prefilled_answer", "the answer continues a message of the prompt"
    UNPAIRED = (
        "unpaired",
        "no rollout of its task by its agent in the same input makes a pair with it: attempt each task several times, "
        "or pair rollouts of several inputs and agents by +options.across_runs=true",
    )
    NO_DIFFERENCE = (
        "no_difference",
        "all usable rollouts of its task have the same reward, so none is better: more attempts, another sampling "
        "temperature or other tasks can differ, and +options.across_runs=true pairs with several inputs and agents",
    )
    UNPAIRED_ANYWHERE = (
        "unpaired_anywhere",
        "no rollout of its task in any input makes a pair with it: attempt each task several times",
    )
    ONE_RUN = (
        "one_run",
        "no other input has a scored rollout of its task, with an equal task row, and none of its own run makes a "
        "pair: attempt each task several times",
    )
    EQUAL_ANSWERS = (
        "equal_answers",
        "its answer equals those of all rollouts of its task with which it could make a pair: a trainer would learn to "
        "prefer a text to itself",
    )
    CONTRADICTORY = (
        "contradictory",
        "an equal answer to the same prompt, of another rollout of its task, has the other label",
    )
    OTHER_PAIR = (
        "other_pair",
        "other rollouts of its task make the exported pairs: +options.pairs=all exports all",
    )
    BELOW_MARGIN = (
        "below_margin",
        "its reward differs by less than +options.margin from those of all other usable rollouts of its task",
    )
    PROMPTS_DIFFER = "prompts_differ", "rollouts of the task start with different prompts"
    NO_BASELINE = (
        "no_baseline",
        "the only scored rollout of its task by its agent, so there is no advantage",
    )
    EQUAL_REWARDS = "equal_rewards", "all rollouts of the task have the same reward"
    SHORT_GROUP = "short_group", "its task has fewer usable rollouts than the group size"
    SURPLUS = "surplus", "its task has more usable rollouts than the group size"
    TURN_ORDER = "turn_order", "the turns are not in the order that the target requires"
    ILLEGAL_FIELD = "illegal_field", "the target rejects a name or field"
    OTHER_TOOLS = (
        "other_tools",
        "its tools have another shape than the first ones, which one column can't hold: "
        "add +options.tools=text, or export each environment separately, with +environments",
    )
    EMPTY_OBJECT = (
        "empty_object",
        "an object in a tool's schema is empty, which a Parquet column can't hold: add +options.tools=text",
    )
    REPEATED_TASK = "repeated_task", "its task is exported once, with an earlier rollout"


class Loss(_Explained):
    """A part of an exported rollout that the target cannot represent."""

    REASONING = "reasoning", "reasoning is omitted"
    UNSAMPLED_TURNS = (
        "unsampled_turns",
        "assistant turns that the policy did not write can't be told from its own",
    )
    TRAILING_OUTPUTS = "trailing_outputs", "items after the policy's last turn are omitted"
    TEXT_BESIDE_CALLS = "text_beside_calls", "text or reasoning beside a tool call is omitted"
    JOINED_OUTPUTS = "joined_outputs", "outputs of parallel tool calls are one JSON list"
    MASKED_CALLS = "masked_calls", "model calls without usable ids are not trained on"
    GRAMMAR_TOKENS = (
        "grammar_tokens",
        "tokens sampled under a grammar are trained on; their log-probabilities are not the model's own",
    )
    LATER_SEGMENTS = "later_segments", "tokens after a rewrite of the token prefix are omitted"
    POLICY_VERSION = "policy_version", "the policy's version is unknown and written as 0"
    EXTRA = (
        "extra",
        "the format has no field for an item, a content or a rewritten history, which only `extra` holds",
    )


class Unsuitable(Exception):
    """A rollout that the target cannot represent."""

    def __init__(self, reason: LeftOut, detail: str = "") -> None:
        super().__init__(detail or reason.explanation)
        self.reason = reason
        self.detail = detail


class NamedRollout(Protocol):
    """The part of a rollout that the report uses."""

    @property
    def name(self) -> str: ...


_MOST_REWARDS = 5
"""The most frequent rewards of left out rollouts, which are printed one by one."""
_Rollout = TypeVar("_Rollout", bound=NamedRollout)
_Made = TypeVar("_Made")


@dataclass(slots=True)
class Report:
    """The counts of one export. `read` is the sum of `exported` and everything left out."""

    read: int = 0
    """Rollouts in the input."""
    exported: int = 0
    """Rollouts that are in at least one row."""
    rows: Counter[str] = field(default_factory=Counter)
    """Rows written, by file."""
    duplicates: int = 0
    """Rows that were not written because they equal an earlier one."""
    left_out: Counter[LeftOut] = field(default_factory=Counter)
    examples: dict[LeftOut, str] = field(default_factory=dict)
    """The first rollout left out for each reason, with the detail."""
    rewards: Counter[float] = field(default_factory=Counter)
    """The rewards of the rollouts that were left out because of their reward."""
    equal_pairs: int = 0
    """Pairs of equal answers, which are not written."""
    contradictions: int = 0
    """Exported rollouts whose equal answer to the same prompt, in another task or input, has the other label."""
    losses: Counter[Loss] = field(default_factory=Counter)
    """Rollouts exported with a loss."""
    kept_aside: Counter[str] = field(default_factory=Counter)
    """The data that only the format's room for other data holds, by kind."""
    origins: Counter[tuple[str, ...]] = field(default_factory=Counter)
    """Exported rollouts by `ORIGIN` of their task folders."""
    runs: list[dict[str, Any]] = field(default_factory=list)
    """The accounts of the runs of the input, as `RunAccount.to_json`."""

    def leave_out(self, rollout: NamedRollout | str, reason: LeftOut, detail: str = "") -> None:
        """Count a rollout that is in no row."""
        self.left_out[reason] += 1
        if reason not in self.examples:
            name = rollout if isinstance(rollout, str) else rollout.name
            self.examples[reason] = f"{name}: {detail}" if detail else name

    def export(self, losses: Iterable[Loss] = ()) -> None:
        """Count an exported rollout and its losses."""
        self.exported += 1
        self.losses.update(sorted(set(losses)))  # in one order, whatever the hash seed

    def count_origin(self, origin: Mapping[str, str], rollouts: int) -> None:
        """Count the exported rollouts of a task folder; an empty origin is one of another task."""
        if origin and rollouts:
            self.origins[tuple(origin.get(name, "") for name in ORIGIN)] += rollouts

    def suitable(
        self, rollouts: Iterable[_Rollout], make: Callable[[_Rollout], _Made]
    ) -> Iterator[tuple[_Rollout, _Made]]:
        """Yield each rollout with the result of `make`; leave out those for which `make` raises `Unsuitable`."""
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
                reason.value: {"rollouts": count, "why": reason.explanation, "example": self.examples[reason]}
                for reason, count in self.left_out.most_common()
            },
            "left_out_rewards": [
                {"reward": reward, "rollouts": count} for reward, count in sorted(self.rewards.items())
            ],
            "equal_pairs": self.equal_pairs,
            "contradictions": self.contradictions,
            "losses": {
                loss.value: {"rollouts": count, "what": loss.explanation}
                for loss, count in self.losses.most_common()
            },
            "kept_aside": dict(self.kept_aside.most_common()),
            "origins": [
                {**dict(zip(ORIGIN, origin, strict=True)), "rollouts": count}
                for origin, count in self.origins.most_common()
            ],
            "runs": self.runs,
        }

    def lines(self) -> Iterator[str]:
        """Yield the lines of the printed report."""
        yield f"{self.exported:,} of {self.read:,} rollouts exported"
        for path, count in self.rows.items():
            yield f"{count:>9,}  rows in {path}"
        if self.duplicates:
            yield f"{self.duplicates:>9,}  duplicate rows were not written"
        if self.equal_pairs:
            yield f"{self.equal_pairs:>9,}  pairs of equal answers were not written"
        if self.contradictions:
            yield f"{self.contradictions:>9,}  exported answers have the other label in an equal task or another input"
        if self.left_out:
            yield f"{self.left_out.total():,} left out:"
        for reason, count in self.left_out.most_common():
            yield f"{count:>9,}  {reason}: {reason.explanation} (first: {self.examples[reason]})"
        if self.rewards:
            yield f"rewards left out: {self._list_rewards()}"
        if self.losses:
            yield "exported with a loss:"
        for loss, count in self.losses.most_common():
            yield f"{count:>9,}  {loss}: {loss.explanation}"
        for kind, count in self.kept_aside.most_common():
            yield f"{count:>9,}  only in `extra`: {kind}"
        for origin, count in self.origins.most_common():
            named = (f"{name} {text or 'not stated'}" for name, text in zip(ORIGIN, origin, strict=True))
            yield f"{count:>9,}  rollouts of task folders: {', '.join(named)}"
        yield from (f"note: {note}" for run in self.runs for note in run["notes"])

    def _list_rewards(self) -> str:
        shown = self.rewards.most_common(_MOST_REWARDS)
        texts = [f"{reward:.4g} ({count:,} rollouts)" for reward, count in sorted(shown)]
        others = self.rewards.total() - sum(count for _, count in shown)
        return ", ".join([*texts, *([f"others ({others:,} rollouts)"] if others else [])])
