"""What the metrics keep of one row of a run: whose attempt it was, how it ended, its numbers and its answer.

A row counts as scored when a verifier gave it a reward: its outcome is one that may carry a reward, it has no
failure class (a failed judge answers with a reward of 0 and such a class), and `reward` is a finite number.
Everything else is a failure, which coverage and outcome counts tell of and which no mean includes.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from nemo_gym.failures import SCORED_OUTCOMES, InputError, Outcome
from nemo_gym.names import (
    ATTEMPT_INDEX_KEY,
    FAILURE_CLASS_KEY,
    MASKED_KEY,
    OUTCOME_KEY,
    RESERVED_PREFIX,
    REWARD_KEY,
    ROLLOUT_INDEX_KEY,
    TASK_INDEX_KEY,
)

MASKED_KEYS = (MASKED_KEY, "mask_sample")
"""Ours, and the ecosystem's word for the same."""
REWARD_COMPONENTS = "reward_components"


@dataclass(frozen=True, slots=True)
class RolloutRecord:
    """One attempt as the metrics see it."""

    task: int
    rollout: int
    attempt: int = 0
    outcome: str = Outcome.COMPLETED.value
    failure: str | None = None
    """The failure class, for counting."""
    measurements: Mapping[str, float] = field(default_factory=dict)
    """The row's finite numbers by name; empty unless the row is scored."""
    answer: str | None = None
    is_scored: bool = True


def read_record(row: Mapping[str, Any], *, answer_key: str | None = None) -> RolloutRecord:
    """The record of a scored or failed row.

    Raises:
        InputError: the row lacks a whole-numbered `_ng_task_index` or `_ng_rollout_index`.
    """
    scored = is_scored(row)
    failure = row.get(FAILURE_CLASS_KEY)
    return RolloutRecord(
        task=_read_index(row, TASK_INDEX_KEY),
        rollout=_read_index(row, ROLLOUT_INDEX_KEY),
        attempt=_read_index(row, ATTEMPT_INDEX_KEY, default=0),
        outcome=outcome_of(row),
        failure=None if failure is None else str(failure),
        measurements=read_measurements(row) if scored else {},
        answer=canonical_answer(row.get(answer_key)) if scored and answer_key is not None else None,
        is_scored=scored,
    )


def read_measurements(row: Mapping[str, Any]) -> dict[str, float]:
    """The numbers of a scored row: the usage of the response, the components of the reward, and the row's own, which
    win."""
    response = row.get("response")
    measurements = _numbers(response.get("usage")) if isinstance(response, Mapping) else {}
    for name, number in _numbers(row.get(REWARD_COMPONENTS)).items():
        measurements[f"{REWARD_COMPONENTS}/{name}"] = number
    for name, number in _numbers(row).items():
        if not name.startswith(RESERVED_PREFIX):
            measurements[name] = number
    return measurements


def is_failed(row: Mapping[str, Any]) -> bool:
    """Whether the row says that its attempt failed, so that no number of it is a score."""
    return (
        row.get(FAILURE_CLASS_KEY) is not None
        or (row.get(OUTCOME_KEY) or Outcome.COMPLETED) not in SCORED_OUTCOMES
    )


def is_scored(row: Mapping[str, Any]) -> bool:
    """Whether a verifier gave this row its reward."""
    return not is_failed(row) and finite_number(row.get(REWARD_KEY)) is not None


def is_masked(row: Mapping[str, Any]) -> bool:
    """Whether the row says that trainers should leave it out. Its score counts in metrics all the same."""
    return any(row.get(key) for key in MASKED_KEYS)


def outcome_of(row: Mapping[str, Any]) -> str:
    """How the attempt ended; a row that doesn't say so completed if it has a reward, and failed if not."""
    if row.get(FAILURE_CLASS_KEY) is not None:
        return Outcome.FAILED.value
    outcome = row.get(OUTCOME_KEY)
    if outcome is None:
        return (Outcome.COMPLETED if is_scored(row) else Outcome.FAILED).value
    return str(outcome)


def finite_number(value: object) -> float | None:
    """The value as a float, booleans as 0 and 1; None for anything else, NaN and the infinities included."""
    if not isinstance(value, (bool, int, float)):
        return None
    return float(value) if -sys.float_info.max <= value <= sys.float_info.max else None


def canonical_answer(answer: object) -> str | None:
    """The answer as the text it votes by: a string as it is, anything else as JSON with sorted keys."""
    if answer is None or isinstance(answer, str):
        return answer
    return json.dumps(answer, sort_keys=True, default=repr)


def _read_index(row: Mapping[str, Any], key: str, default: int | None = None) -> int:
    index = row.get(key, default)
    if isinstance(index, bool) or not isinstance(index, int):
        raise InputError(
            f"a row has {key} = {index!r}, which has to be a whole number",
            code="bad_row_index",
            param=key,
            remedy="Aggregate rows as the collector wrote them.",
        )
    return index


def _numbers(mapping: object) -> dict[str, float]:
    """The finite numbers of an object; none of anything else."""
    if not isinstance(mapping, Mapping):
        return {}
    return {name: number for name, value in mapping.items() if (number := finite_number(value)) is not None}
