"""The verdict of a row about its attempt: outcome, reward, failure. Every reader decides by these functions.

A row is scored if a verifier gave it a reward: it has no failure class (a row of a failed judge has reward 0 and a
failure class), `reward` is a finite number and no Boolean, and its outcome is `completed` or `truncated`. A row without
an outcome is one of another gym; it is truncated if its response is incomplete. All other rows are failures.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from enum import StrEnum
from typing import Any, TypeGuard

from nemo_gym.failures import SCORED_OUTCOMES, Boundary, Failure, Outcome
from nemo_gym.json_objects import LARGEST_FLOAT, describe_kind, finite_number, member
from nemo_gym.rows.forms import AnyRow
from nemo_gym.rows.keys import (
    ANSWER_FAULT_DETAIL_KEY,
    ANSWER_FAULT_KEY,
    END_REASON_KEY,
    FAILED_AT_KEY,
    FAILURE_CLASS_KEY,
    FAILURE_ERROR_KEY,
    FAILURE_KEY,
    FAILURE_MESSAGE_KEY,
    FOREIGN_KEY,
    JUDGE_ERROR_KEY,
    MASK_SAMPLE_KEY,
    MASKED_KEY,
    NO_PERSIST_KEY,
    OUTCOME_KEY,
    RESPONSE_KEY,
    REWARD_KEY,
    TAMPERABLE_KEY,
    TERMINAL_KEY,
)

__all__ = ["EndReason", "read_reward"]

_ERROR_TEXT_KEYS = ("error", JUDGE_ERROR_KEY, FAILURE_MESSAGE_KEY, FAILURE_ERROR_KEY)
_LONGEST_FAULT = 160
"""Characters."""
NOT_PERSISTED = "not_persisted"
"""The failure class of a row that is not to be written and names no class."""


class EndReason(StrEnum):
    """The reason why the policy loop ended."""

    FINAL_ANSWER = "final_answer"
    TERMINATED = "terminated"
    """The environment ended the episode."""
    USER_DONE = "user_done"
    """The simulated user ended the conversation."""
    TRUNCATED = "truncated"
    """The environment truncated the episode."""
    MAX_STEPS = "max_steps"
    MAX_TURNS = "max_turns"
    MAX_OUTPUT_TOKENS = "max_output_tokens"
    CONTENT_FILTER = "content_filter"
    CONTEXT_OVERFLOW = "context_overflow"
    BUDGET = "budget"
    """The rollout's budget of tokens, money or seconds was spent."""
    TIMED_OUT = "timed_out"
    """An agent's program took too long."""
    RESOURCE_LIMIT = "resource_limit"
    """An agent's program used too much memory, output or disk space."""
    AGENT_EXITED = "agent_exited"
    """An agent's program ended with an error, after calls of the model."""

    @property
    def outcome(self) -> Outcome:
        return Outcome.COMPLETED if self in _COMPLETED else Outcome.TRUNCATED

    @classmethod
    def from_response(cls, response: Mapping[str, Any]) -> EndReason:
        """Return the reason in a finished Responses object."""
        details = response.get("incomplete_details")
        if not details:
            return cls.FINAL_ANSWER
        reason = details.get("reason")
        return cls.CONTENT_FILTER if reason == "content_filter" else cls.MAX_OUTPUT_TOKENS


_COMPLETED = frozenset({EndReason.FINAL_ANSWER, EndReason.TERMINATED, EndReason.USER_DONE})
_REASONS = frozenset(EndReason)


def is_reward(value: object) -> TypeGuard[int | float]:
    """Return whether a value can be a reward: a finite number, and no Boolean."""
    return (
        not isinstance(value, bool)
        and isinstance(value, (int, float))
        and -LARGEST_FLOAT <= value <= LARGEST_FLOAT
    )


def has_verdict(keys: Collection[str]) -> bool:
    """Return whether keys, some of which are those of the gym, are those of a scored or failed row."""
    return {RESPONSE_KEY, REWARD_KEY} <= {*keys} or not {OUTCOME_KEY, FAILURE_CLASS_KEY}.isdisjoint(keys)


def is_failed(row: AnyRow) -> bool:
    """Return whether the row is marked as failed, so that none of its numbers is a score."""
    stated = row.get(OUTCOME_KEY)
    return row.get(FAILURE_CLASS_KEY) is not None or not (stated is None or _is_scored_outcome(stated))


def is_result(row: AnyRow) -> bool:
    """Return whether a row is of a rollout, whatever became of it. A task row is none."""
    return any(key in row for key in (REWARD_KEY, RESPONSE_KEY, OUTCOME_KEY, FAILURE_CLASS_KEY))


def is_scored(row: AnyRow) -> bool:
    """Return whether a verifier gave this row its reward."""
    return not is_failed(row) and is_reward(row.get(REWARD_KEY))


def read_answer_fault(row: AnyRow) -> str | None:
    """Return in a line how an answer broke its verifier; None if it did not."""
    if not row.get(ANSWER_FAULT_KEY):
        return None
    return " ".join(str(row.get(ANSWER_FAULT_DETAIL_KEY)).split())[:_LONGEST_FAULT]


def read_reward(row: AnyRow) -> float | None:
    """Return the reward of a scored row; None for any other row."""
    return float(row[REWARD_KEY]) if is_scored(row) else None


def read_outcome(row: AnyRow) -> Outcome:
    """Return the outcome of the attempt."""
    stated = row.get(OUTCOME_KEY)
    if is_scored(row):
        return read_policy_outcome(row) if stated is None else Outcome(stated)
    is_cancelled = stated == Outcome.CANCELLED and row.get(FAILURE_CLASS_KEY) is None
    return Outcome.CANCELLED if is_cancelled else Outcome.FAILED


def read_policy_outcome(row: AnyRow) -> Outcome:
    """Return whether the policy completed its attempt or was truncated, independent of any verdict."""
    reason = row.get(END_REASON_KEY)
    if isinstance(reason, str) and reason in _REASONS:
        return EndReason(reason).outcome
    stated = row.get(OUTCOME_KEY)
    if _is_scored_outcome(stated):
        return Outcome(stated)
    return Outcome.TRUNCATED if is_response_incomplete(row) else Outcome.COMPLETED


def is_response_incomplete(row: AnyRow) -> bool:
    """Return whether the engine or the agent cut the response, as `incomplete_details` says."""
    return bool(member(row, RESPONSE_KEY, "incomplete_details"))


def read_end_reason(row: AnyRow) -> str | None:
    """Return the reason why the attempt ended, an `EndReason` in rows of this gym; None for a row without one."""
    reason = row.get(END_REASON_KEY)
    return None if reason is None else str(reason)


def is_masked(row: AnyRow) -> bool:
    """Return whether trainers should skip the row. Its score still counts in metrics."""
    return bool(row.get(MASKED_KEY) or row.get(MASK_SAMPLE_KEY))


def is_foreign(row: AnyRow) -> bool:
    """Return whether another program made the trajectory of the row, which was read from a file."""
    return isinstance(row.get(FOREIGN_KEY), Mapping)


def may_train(row: AnyRow) -> bool:
    """Return whether the row is of this gym, or every model call of the foreign trajectory has its tokens."""
    return not is_foreign(row) or member(row, FOREIGN_KEY, "tokens") == "whole"


def is_tamperable(row: AnyRow) -> bool:
    """Return whether the answer could have forged its reward, because it ran beside its verifier."""
    return bool(row.get(TAMPERABLE_KEY))


def read_failure_class(row: AnyRow) -> str | None:
    """Return the class by which the failure is counted; None for a row without one, which can be a failure too."""
    stated = row.get(FAILURE_CLASS_KEY)
    return None if stated is None else str(stated)


def read_failure(row: AnyRow) -> Failure | None:
    """Return the failure of a row; None for a scored row."""
    return None if is_scored(row) else describe_failure(row)


def describe_failure(row: AnyRow, *, agent: str | None = None) -> Failure:
    """Return the failure of a row without a score: the one that it states, or else one made of its fields.

    `agent` is the agent that answered the row, for rows that are not stored yet.
    """
    stored = Failure.from_wire({"error": row.get(FAILURE_KEY)})
    if stored is not None:
        return stored
    failure_class = read_failure_class(row)
    if failure_class is None and not row.get(NO_PERSIST_KEY):
        return _build_missing_score(row, agent)
    failure_class = failure_class or NOT_PERSISTED
    message, remedy, peer = (member(row, FAILURE_KEY, name) for name in ("message", "remedy", "peer"))
    detail = next((str(row[key]) for key in _ERROR_TEXT_KEYS if row.get(key)), "no details given")
    return Failure(
        boundary=Boundary.JUDGE if is_judge_class(failure_class) else Boundary.AGENT,
        code=failure_class,
        message=str(message or f"{failure_class}: {detail}"),
        retryable=not is_terminal(row),
        remedy=remedy,
        peer=peer or agent,
    )


def is_judge_class(failure_class: str) -> bool:
    """Return whether a failure class says that only the judge failed."""
    return failure_class.startswith("judge")


def is_judge_failure(row: AnyRow) -> bool:
    """Return whether only the judge failed, so that the stored response can be verified again."""
    return is_judge_class(read_failure_class(row) or "") and isinstance(row.get(RESPONSE_KEY), Mapping)


def is_terminal(row: AnyRow) -> bool:
    """Return whether a failure is final: no other attempt at the rollout is wanted."""
    return bool(row.get(TERMINAL_KEY))


def is_unwanted(row: AnyRow) -> bool:
    """Return whether an agent asks to write no row: the rollout counts as not attempted."""
    return bool(row.get(NO_PERSIST_KEY))


def read_failed_at(row: AnyRow) -> float | None:
    """Return when the collector got the failure, in seconds since 1970; None for a row without it."""
    return finite_number(row.get(FAILED_AT_KEY))


def _is_scored_outcome(value: object) -> TypeGuard[str]:
    return isinstance(value, str) and value in SCORED_OUTCOMES


def _build_missing_score(row: AnyRow, agent: str | None) -> Failure:
    """Return the failure of a row that claims no failure and has no score."""
    answered = f"the answer of agent `{agent}`" if agent else "the row"
    if is_failed(row):
        message = f"{answered} has the outcome `{row[OUTCOME_KEY]}`"
    else:
        found = (
            f"its `reward` is {describe_kind(row[REWARD_KEY])}" if REWARD_KEY in row else "it has no `reward`"
        )
        message = f"{answered} is not a scored row: {found}"
    return Failure(
        boundary=Boundary.VERIFIER,
        code="no_score",
        message=message,
        remedy="`/run` must return the task row with `response` and a finite number as `reward`.",
        peer=agent,
    )
