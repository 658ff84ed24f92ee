"""The result of an attempt: a row to keep, or a failure to note.

An agent's answer is parsed once. The bytes it came in are kept, and become the output row by putting the identity
before them; only an answer that carries its identity elsewhere, or over several lines, is written anew.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import orjson

from nemo_gym.failures import SCORED_OUTCOMES, Boundary, Failure, Outcome
from nemo_gym.names import (
    AGENT_REF_KEY,
    ATTEMPT_INDEX_KEY,
    FAILURE_CLASS_KEY,
    OUTCOME_KEY,
    ROLLOUT_INDEX_KEY,
    TASK_INDEX_KEY,
)
from nemo_gym.rollouts.plan.plan import PlannedAttempt
from nemo_gym.rollouts.plan.task_rows import AGENT_TYPE, kind_of

NG_FAILURE_CLASS_KEY: Final = FAILURE_CLASS_KEY
"""In an answer: this attempt failed, and how. In a failure row: by what failures are counted."""
NG_NO_PERSIST_KEY: Final = "_ng_no_persist"
"""In an answer: write nothing; the rollout counts as not attempted."""
NG_TERMINAL_KEY: Final = "_ng_failure_terminal"
"""In an answer: a further attempt is pointless. In a failure row: the run made no further attempt."""
FAILURE_KEY: Final = "_ng_failure"
"""In a failure row: the failure, structured as in an error envelope."""
_IDENTITY_KEYS = frozenset({TASK_INDEX_KEY, ROLLOUT_INDEX_KEY})
_ERROR_TEXT_KEYS = ("error", "_ng_failure_judge_error", "_ng_failure_message", "_ng_failure_error")


@dataclass(frozen=True, slots=True)
class AgentAnswer:
    """An agent's answer with HTTP 200: a JSON object, and the text it was parsed from."""

    row: dict[str, Any]
    encoded: bytes | None = None


AttemptResult = AgentAnswer | Failure


@dataclass(frozen=True, slots=True)
class Scored:
    """An attempt that a verifier scored."""

    row: dict[str, Any]
    line: bytes
    """The output row, on one line, led by its identity."""
    reward: float
    outcome: Outcome


@dataclass(frozen=True, slots=True)
class Failed:
    """An attempt without a score."""

    failure: Failure
    failure_class: str
    row: Mapping[str, Any] = field(default_factory=dict)
    """The agent's answer, if there was one."""
    persist: bool = True

    @property
    def may_succeed_next_time(self) -> bool:
        """Whether another attempt within this run is worth its while: not for a rollout that had all its time."""
        return self.failure.retryable and self.failure.boundary is not Boundary.DEADLINE

    def to_line(self, planned: PlannedAttempt, *, terminal: bool) -> bytes:
        """The failure row: no reward, whatever the agent put there."""
        kept = {key: value for key, value in self.row.items() if key != "reward"}
        identity = {
            TASK_INDEX_KEY: planned.identity.task,
            ROLLOUT_INDEX_KEY: planned.identity.repeat,
            ATTEMPT_INDEX_KEY: planned.attempt_index,
            NG_FAILURE_CLASS_KEY: self.failure_class,
            NG_TERMINAL_KEY: terminal,
            OUTCOME_KEY: Outcome.FAILED,
            AGENT_REF_KEY: {"type": AGENT_TYPE, "name": planned.agent},
            FAILURE_KEY: self.failure.to_wire()["error"],
        }
        return orjson.dumps(identity | {key: value for key, value in kept.items() if key not in identity})


def classify(planned: PlannedAttempt, result: AttemptResult) -> Scored | Failed:
    """Whether `result` is a score, and the row that says so."""
    if isinstance(result, Failure):
        return Failed(result, result.kind)
    row = result.row
    if row.get(NG_FAILURE_CLASS_KEY) is not None or row.get(NG_NO_PERSIST_KEY):
        return _failure_in_answer(row, planned)
    reward = row.get("reward")
    if isinstance(reward, bool) or not isinstance(reward, int | float) or not math.isfinite(reward):
        found = f"its `reward` is {kind_of(reward)}" if "reward" in row else "it has no `reward`"
        return _unscored(f"the answer of agent `{planned.agent}` is not a scored row: {found}", planned, row)
    outcome = outcome_of(row)
    if outcome not in SCORED_OUTCOMES:
        return _unscored(f"agent `{planned.agent}` answered a row whose outcome is `{outcome}`", planned, row)
    added = _what_it_lacks(planned, result, outcome)
    return Scored(
        row | added if added else row, _row_line(planned, result, added), float(reward), Outcome(outcome)
    )


def outcome_of(row: Mapping[str, Any]) -> str:
    """The outcome an answer states; for agents that state none, truncated when the response is incomplete."""
    stated = row.get(OUTCOME_KEY)
    if stated is not None:
        return str(stated)
    response = row.get("response")
    incomplete = isinstance(response, Mapping) and response.get("incomplete_details")
    return Outcome.TRUNCATED if incomplete else Outcome.COMPLETED


def _what_it_lacks(planned: PlannedAttempt, answer: AgentAnswer, outcome: str) -> dict[str, Any]:
    """The members that a row has and the answer has not: agents of others answer what their verifier does, and no
    more of the task row than that."""
    row, encoded = answer.row, answer.encoded
    is_ours = encoded is not None and encoded.startswith(planned.identity.head())
    members: dict[str, Any] = {} if is_ours else orjson.loads(planned.row)
    members |= {
        ATTEMPT_INDEX_KEY: planned.attempt_index,
        OUTCOME_KEY: outcome,
        AGENT_REF_KEY: {"type": AGENT_TYPE, "name": planned.agent},
    }
    lacks_outcome = row.get(OUTCOME_KEY) is None
    return {
        key: value
        for key, value in members.items()
        if (lacks_outcome if key == OUTCOME_KEY else key not in row and key not in _IDENTITY_KEYS)
    }


def _row_line(planned: PlannedAttempt, answer: AgentAnswer, added: dict[str, Any]) -> bytes:
    """The row as one line, led by its identity.

    The text of the answer is kept, because numbers too long for a parser would change, and because to encode a row of
    200 KB of token ids again takes 0.57 ms, beside the 0.91 ms of parsing it.
    """
    head = planned.identity.head()
    rest = _after_identity(answer, head)
    if rest is None:
        identity = {TASK_INDEX_KEY: planned.identity.task, ROLLOUT_INDEX_KEY: planned.identity.repeat}
        return orjson.dumps(identity | answer.row | identity | added)
    members = orjson.dumps(added)[1:-1] + b"," if added else b""
    return head + members + rest


def _after_identity(answer: AgentAnswer, head: bytes) -> bytes | None:
    """The text of the answer behind its identity, if it has one; None where the identity is elsewhere in it."""
    row, encoded = answer.row, answer.encoded
    if encoded is None or b"\n" in encoded or b"\r" in encoded or row.get(OUTCOME_KEY, "") is None:
        return None
    if encoded.startswith(head):
        return encoded[len(head) :]
    has_no_identity = TASK_INDEX_KEY not in row and ROLLOUT_INDEX_KEY not in row
    return encoded[1:] if has_no_identity and encoded.startswith(b"{") else None


def _failure_in_answer(row: Mapping[str, Any], planned: PlannedAttempt) -> Failed:
    """A failure that an agent or verifier states in a row of its own making."""
    stated = row.get(NG_FAILURE_CLASS_KEY)
    failure_class = str(stated) if stated is not None else "not_persisted"
    detail = next((str(row[key]) for key in _ERROR_TEXT_KEYS if row.get(key)), "no detail was given")
    failure = Failure(
        boundary=Boundary.JUDGE if failure_class.startswith("judge") else Boundary.AGENT,
        code=failure_class,
        message=f"{failure_class}: {detail}",
        retryable=not row.get(NG_TERMINAL_KEY),
        peer=planned.agent,
    )
    return Failed(failure, failure_class, row, persist=not row.get(NG_NO_PERSIST_KEY))


def _unscored(message: str, planned: PlannedAttempt, row: Mapping[str, Any]) -> Failed:
    failure = Failure(
        boundary=Boundary.VERIFIER,
        code="no_score",
        message=message,
        remedy="`/run` answers the task row with `response` and a finite number as `reward`.",
        peer=planned.agent,
    )
    return Failed(failure, failure.kind, row)
