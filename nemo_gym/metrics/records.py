"""The data that metrics read from a row: task and rollout index, outcome, numbers and answer.

A row is scored if a verifier gave it a reward: its outcome is `completed` or `truncated`, it has no failure class (a
row of a failed judge has reward 0 and a failure class), and `reward` is a finite number. All other rows are failures:
they affect coverage and outcome counts, and no mean includes them.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from nemo_gym.failures import SCORED_OUTCOMES, InputError, Outcome
from nemo_gym.json_objects import member
from nemo_gym.names import (
    ATTEMPT_INDEX_KEY,
    FAILURE_CLASS_KEY,
    MASKED_KEY,
    OUTCOME_KEY,
    RESERVED_PREFIX,
    REWARD_KEY,
    ROLLOUT_INDEX_KEY,
    TAMPERABLE_KEY,
    TASK_INDEX_KEY,
    TIMING_KEY,
)

MASKED_KEYS = (MASKED_KEY, "mask_sample")
"""The gym's key, and the ecosystem's key with the same meaning."""
REWARD_COMPONENTS = "reward_components"
_NUMBERS = (int, float)  # and booleans, which are integers
_LARGEST = sys.float_info.max


@dataclass(frozen=True, slots=True)
class RolloutRecord:
    """The data of one attempt."""

    task: int
    rollout: int
    attempt: int = 0
    outcome: str = Outcome.COMPLETED.value
    failure: str | None = None
    """The failure class, for counting."""
    measurements: Mapping[str, float] = field(default_factory=dict)
    """The row's finite numbers by name; empty if the row is not scored."""
    answer: str | None = None
    is_scored: bool = True


def read_record(row: Mapping[str, Any], *, answer_key: str | None = None) -> RolloutRecord:
    """Return the record of a scored or failed row.

    Raises:
        InputError: `_ng_task_index` or `_ng_rollout_index` is missing or not an integer.
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
    """Return the numbers of a scored row: usage, reward components and the row's own, which take precedence."""
    measurements = _numbers(member(row, "response", "usage"))
    components = row.get(REWARD_COMPONENTS)
    if components is not None:
        for name, number in _numbers(components).items():
            measurements[f"{REWARD_COMPONENTS}/{name}"] = number
    for name, number in _numbers(row).items():
        if not name.startswith(RESERVED_PREFIX):
            measurements[name] = number
    return measurements


def is_failed(row: Mapping[str, Any]) -> bool:
    """Return whether the row is marked as failed, so that none of its numbers is a score."""
    return (
        row.get(FAILURE_CLASS_KEY) is not None
        or str(row.get(OUTCOME_KEY) or Outcome.COMPLETED) not in SCORED_OUTCOMES
    )


def is_scored(row: Mapping[str, Any]) -> bool:
    """Return whether a verifier gave this row its reward."""
    return not is_failed(row) and finite_number(row.get(REWARD_KEY)) is not None


def is_masked(row: Mapping[str, Any]) -> bool:
    """Return whether trainers should skip the row. Its score still counts in metrics."""
    return any(row.get(key) for key in MASKED_KEYS)


def is_tamperable(row: Mapping[str, Any]) -> bool:
    """Return whether the answer could have forged its reward, because it ran beside its verifier."""
    return bool(row.get(TAMPERABLE_KEY))


def outcome_of(row: Mapping[str, Any]) -> str:
    """Return the outcome of the attempt. A row without one is completed if it has a reward, and failed otherwise."""
    if row.get(FAILURE_CLASS_KEY) is not None:
        return Outcome.FAILED.value
    outcome = row.get(OUTCOME_KEY)
    if outcome is None:
        return (Outcome.COMPLETED if is_scored(row) else Outcome.FAILED).value
    return str(outcome)


def finite_number(value: object) -> float | None:
    """Return the value as a float, booleans as 0 and 1; None for NaN, infinities and other types."""
    if not isinstance(value, _NUMBERS):
        return None
    return float(value) if -_LARGEST <= value <= _LARGEST else None


def read_seconds(row: Mapping[str, Any]) -> float | None:
    """Return the seconds that a row's rollout took; None for a row without timing."""
    return finite_number(member(row, TIMING_KEY, "total"))


def canonical_answer(answer: object) -> str | None:
    """Return the answer as text for voting: a string unchanged, any other value as JSON with sorted keys."""
    if answer is None or isinstance(answer, str):
        return answer
    return json.dumps(answer, sort_keys=True, default=repr)


def _read_index(row: Mapping[str, Any], key: str, default: int | None = None) -> int:
    index = row.get(key, default)
    if isinstance(index, bool) or not isinstance(index, int):
        raise InputError(
            f"a row has {key} = {index!r}; it must be an integer",
            code="bad_row_index",
            param=key,
            remedy="Aggregate rows as the collector wrote them.",
        )
    return index


def _numbers(mapping: object) -> dict[str, float]:
    """Return the finite numbers of an object, as `finite_number` does; empty for other types."""
    if not isinstance(mapping, Mapping):
        return {}
    return {
        name: float(value)
        for name, value in mapping.items()
        if isinstance(value, _NUMBERS) and -_LARGEST <= value <= _LARGEST
    }
