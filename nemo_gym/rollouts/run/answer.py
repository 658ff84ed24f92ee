"""The result of an attempt: a scored row or a failure.

An agent's answer is parsed once. Its bytes become the output row with the identity in front. Only answers with the
identity elsewhere, with several lines, or with token ids in lists are encoded again.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import orjson

from nemo_gym.failures import Boundary, Failure, Outcome
from nemo_gym.json_objects import dump_json, parse_json
from nemo_gym.rollouts.plan.plan import PlannedAttempt
from nemo_gym.rows.compose import compose_failure_row, name_agent
from nemo_gym.rows.forms import AnyRow, ScoredRow
from nemo_gym.rows.keys import (
    AGENT_REF_KEY,
    ATTEMPT_INDEX_KEY,
    OUTCOME_KEY,
    ROLLOUT_INDEX_KEY,
    TASK_INDEX_KEY,
    VERSION_KEY,
)
from nemo_gym.rows.token_lists import has_lists, write_lists
from nemo_gym.rows.verdict import (
    NOT_PERSISTED,
    describe_failure,
    is_unwanted,
    read_failure_class,
    read_outcome,
    read_reward,
)

_IDENTITY_KEYS = frozenset({TASK_INDEX_KEY, ROLLOUT_INDEX_KEY, VERSION_KEY})
_ADDED_KEYS = frozenset({ATTEMPT_INDEX_KEY, AGENT_REF_KEY})


@dataclass(frozen=True, slots=True)
class AgentAnswer:
    """An agent's answer with HTTP 200: the JSON object and its encoded form."""

    row: dict[str, Any]
    encoded: bytes | None = None


AttemptResult = AgentAnswer | Failure


@dataclass(frozen=True, slots=True)
class Scored:
    """An attempt with a score."""

    row: ScoredRow
    line: bytes
    """The output row on one line, starting with its identity."""
    reward: float
    outcome: Outcome


@dataclass(frozen=True, slots=True)
class Failed:
    """An attempt without a score."""

    failure: Failure
    failure_class: str
    row: AnyRow = field(default_factory=dict)
    """The agent's answer, if there is one."""
    persist: bool = True

    @property
    def is_retryable(self) -> bool:
        """Whether another attempt may succeed. A rollout that reached its time limit is not attempted again."""
        return self.failure.retryable and self.failure.boundary is not Boundary.DEADLINE

    def to_line(self, planned: PlannedAttempt, *, terminal: bool, failed_at: float | None = None) -> bytes:
        """Return the failure row, without a reward. `failed_at` is the time in seconds since 1970."""
        row = compose_failure_row(
            planned.identity,
            planned.attempt_index,
            planned.agent,
            self.failure,
            self.failure_class,
            answer=self.row,
            is_terminal=terminal,
            failed_at=failed_at,
        )
        return dump_json(write_lists(row))


def classify(planned: PlannedAttempt, result: AttemptResult) -> Scored | Failed:
    """Classify the result of an attempt as scored or failed."""
    if isinstance(result, Failure):
        return Failed(result, result.kind)
    row = result.row
    reward = None if is_unwanted(row) else read_reward(row)
    if reward is None:
        failure = describe_failure(row, agent=planned.agent)
        failure_class = read_failure_class(row) or (NOT_PERSISTED if is_unwanted(row) else failure.kind)
        return Failed(failure, failure_class, row, persist=not is_unwanted(row))
    outcome = read_outcome(row)
    added = _collect_missing_members(planned, result, outcome)
    scored = ScoredRow(row | added if added else row)
    return Scored(scored, _row_line(planned, result, added), reward, outcome)


def _collect_missing_members(planned: PlannedAttempt, answer: AgentAnswer, outcome: str) -> dict[str, Any]:
    """Return the members of a row that the answer lacks: other agents may return only their verifier's answer."""
    row, encoded = answer.row, answer.encoded
    is_ours = encoded is not None and encoded.startswith(planned.identity.head())
    if is_ours and row.get(OUTCOME_KEY) is not None and row.keys() >= _ADDED_KEYS:
        return {}
    # An agent of another gym may answer with the result alone, and a stored row has its task too.
    members: dict[str, Any] = {} if is_ours else orjson.loads(planned.row)
    members |= {
        ATTEMPT_INDEX_KEY: planned.attempt_index,
        OUTCOME_KEY: outcome,
        **name_agent(planned.agent),
    }
    lacks_outcome = row.get(OUTCOME_KEY) is None
    return {
        key: value
        for key, value in members.items()
        if (lacks_outcome if key == OUTCOME_KEY else key not in row and key not in _IDENTITY_KEYS)
    }


def _row_line(planned: PlannedAttempt, answer: AgentAnswer, added: dict[str, Any]) -> bytes:
    """Return the row as one line, starting with its identity.

    The bytes of the answer are kept because parsing would change very long numbers, and because encoding a row takes
    about as long as parsing it. A row with lists of token ids is encoded, with the contract's fields.
    """
    head = planned.identity.head()
    rest = None if has_lists(answer.row) else _cut_identity(answer, head)
    if rest is None:
        identity = planned.identity.members()
        # Agents answer without lists if a row has long integers, which `answer.row` has rounded.
        is_exact = answer.encoded is None or has_lists(answer.row)
        row = answer.row if is_exact else parse_json(answer.encoded or b"")
        return dump_json(write_lists(identity | added | row | identity | added))
    members = orjson.dumps(added)[1:-1] + b"," if added else b""
    return head + members + rest


def _cut_identity(answer: AgentAnswer, head: bytes) -> bytes | None:
    """Return the bytes after the identity, or all if there is none; None if the identity is elsewhere."""
    row, encoded = answer.row, answer.encoded
    if encoded is None or b"\n" in encoded or b"\r" in encoded or row.get(OUTCOME_KEY, "") is None:
        return None
    if encoded.startswith(head):
        return encoded[len(head) :]
    return encoded[1:] if _IDENTITY_KEYS.isdisjoint(row) and encoded.startswith(b"{") else None
