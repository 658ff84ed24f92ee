"""The data that metrics read from a row: task and rollout index, outcome, numbers and answer.

`nemo_gym.rows.verdict` decides which rows are scored. All other rows are failures: they affect coverage and outcome
counts, and no mean includes them.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from nemo_gym.failures import InputError, Outcome
from nemo_gym.json_objects import LARGEST_FLOAT, finite_number
from nemo_gym.names import RESERVED_PREFIX
from nemo_gym.rows.forms import AnyRow
from nemo_gym.rows.keys import (
    ANSWER_FAULT_KEY,
    ATTEMPT_INDEX_KEY,
    COST_KEY,
    REWARD_COMPONENTS_KEY,
    REWARD_KEY,
    ROLLOUT_INDEX_KEY,
    SPENT_KEY,
    TASK_INDEX_KEY,
    TOOL_ERRORS_KEY,
)
from nemo_gym.rows.parts import read_spent, read_token_sum, read_usage
from nemo_gym.rows.timing import measure_times
from nemo_gym.rows.tool_errors import count_failed_calls
from nemo_gym.rows.verdict import is_reward, is_scored, read_failure_class, read_outcome

ANSWER_FAULTS: Final = "answer_faults"
"""The measurement that is 1 for an answer that broke its verifier; 0 for the other rollouts of such a run."""
_NUMBERS = (int, float)  # and booleans, which are integers


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


def read_record(row: AnyRow, *, answer_key: str | None = None) -> RolloutRecord:
    """Return the record of a scored or failed row.

    Raises:
        InputError: `_ng_task_index` or `_ng_rollout_index` is missing or not an integer.
    """
    scored = is_scored(row)
    return RolloutRecord(
        task=_read_index(row, TASK_INDEX_KEY),
        rollout=_read_index(row, ROLLOUT_INDEX_KEY),
        attempt=_read_index(row, ATTEMPT_INDEX_KEY, default=0),
        outcome=read_outcome(row).value,
        failure=read_failure_class(row),
        measurements=read_measurements(row) if scored else {},
        answer=canonical_answer(row.get(answer_key)) if scored and answer_key is not None else None,
        is_scored=scored,
    )


def read_measurements(row: AnyRow) -> dict[str, float]:
    """Return the numbers of a row: usage, times, expenses, reward components, faults, failed calls.

    Its own numbers win.
    """
    measurements = _read_numbers(read_usage(row)) | measure_times(row)
    components = row.get(REWARD_COMPONENTS_KEY)
    if components is not None:
        for name, number in _read_numbers(components).items():
            measurements[f"{REWARD_COMPONENTS_KEY}/{name}"] = number
    if row.get(ANSWER_FAULT_KEY):
        measurements[ANSWER_FAULTS] = 1.0
    if TOOL_ERRORS_KEY in row:
        measurements |= count_failed_calls(row)
    if SPENT_KEY in row:
        measurements |= _read_expenses(row)
    for name, number in _read_numbers(row).items():
        if not name.startswith(RESERVED_PREFIX):
            measurements[name] = number
    if not is_reward(row.get(REWARD_KEY)):
        measurements.pop(REWARD_KEY, None)
    return measurements


def _read_expenses(row: AnyRow) -> dict[str, float]:
    """Return `cost`, and `spent_tokens/<model server>`, those of prompts and answers together."""
    counted = ((server, read_token_sum(counts)) for server, counts in read_spent(row).items())
    found = {f"spent_tokens/{server}": float(tokens) for server, tokens in counted if tokens is not None}
    cost = finite_number(row.get(COST_KEY))
    return found if cost is None else found | {"cost": cost}


def canonical_answer(answer: object) -> str | None:
    """Return the answer as text for voting: a string unchanged, any other value as JSON with sorted keys."""
    if answer is None or isinstance(answer, str):
        return answer
    return json.dumps(answer, sort_keys=True, default=repr)


def _read_index(row: AnyRow, key: str, default: int | None = None) -> int:
    index = row.get(key, default)
    if isinstance(index, bool) or not isinstance(index, int):
        raise InputError(
            f"a row has {key} = {index!r}; it must be an integer",
            code="bad_row_index",
            param=key,
            remedy="Aggregate rows as the collector wrote them.",
        )
    return index


def _read_numbers(mapping: object) -> dict[str, float]:
    """Return the finite numbers of an object, as `finite_number` does; empty for other types."""
    if not isinstance(mapping, Mapping):
        return {}
    return {
        name: float(value)
        for name, value in mapping.items()
        if isinstance(value, _NUMBERS) and -LARGEST_FLOAT <= value <= LARGEST_FLOAT
    }
