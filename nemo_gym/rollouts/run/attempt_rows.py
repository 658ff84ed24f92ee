"""Questions about stored rows of attempts, for drivers of collections that environments bring themselves."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import orjson

from nemo_gym.names import ATTEMPT_INDEX_KEY, FAILURE_CLASS_KEY, ROLLOUT_INDEX_KEY, TASK_INDEX_KEY, TIMING_KEY
from nemo_gym.rollouts.output.atomic import replacing
from nemo_gym.rollouts.output.files import failures_path_for
from nemo_gym.rollouts.run.answer import NG_TERMINAL_KEY
from nemo_gym.rollouts.run.options import RunLimits

_ATTEMPTS_VARIABLE = "NEMO_GYM_MAX_ROLLOUT_ATTEMPTS"
_REPAIRABLE = frozenset({"timeout_exceeded", "reference_missing", "eval_missing", "transport_ineligible"})
"""Classes whose cause may be gone in a later run: the load of an attempt, or files that are repaired meanwhile."""
_UNUSABLE = "skipped"
_MOVED_KEY = "_ng_moved_row"
"""In a failure: the identity of the scored row that it was before."""


def get_max_rollout_attempts() -> int:
    """Return the most attempts at a rollout over all runs: `NEMO_GYM_MAX_ROLLOUT_ATTEMPTS`, by default 3."""
    given = os.environ.get(_ATTEMPTS_VARIABLE, "")
    return int(given) if given.isdigit() and int(given) > 0 else RunLimits().max_attempts


def is_terminal_failure(record: Mapping[str, Any], *, retry_terminal_timeouts: bool = False) -> bool:
    """Return whether a resumed run must not repeat a failed attempt.

    The row says so itself. With `retry_terminal_timeouts`, timeouts and missing files are repeated nevertheless, and
    skipped tasks are not.
    """
    failure_class = record.get(FAILURE_CLASS_KEY)
    if retry_terminal_timeouts and failure_class in _REPAIRABLE:
        return False
    return bool(record.get(NG_TERMINAL_KEY)) or (retry_terminal_timeouts and failure_class == _UNUSABLE)


def observed_elapsed(record: Mapping[str, Any]) -> float | None:
    """Return the seconds of an attempt; None if its row does not have them."""
    timing = record.get(TIMING_KEY)
    found = (record.get("elapsed_seconds"), timing.get("total") if isinstance(timing, Mapping) else None)
    seconds = next((each for each in found if isinstance(each, int | float) and each > 0), None)
    return float(seconds) if seconds is not None and math.isfinite(seconds) else None


def migrate_invalid_judge_main_rows(output_fpath: Path) -> int:
    """Move the rows with `invalid_judge_response` from the scored rows to the failures, and return their number.

    The failures are written first, and a row that is among them already is not written again.
    """
    output = Path(output_fpath)
    lines = output.read_bytes().splitlines(keepends=True) if output.is_file() else []
    invalid = [line for line in lines if b"invalid_judge_response" in line and _is_invalid(line)]
    if not invalid:
        return 0
    failures = failures_path_for(output)
    moved = _moved_rows(failures)
    with failures.open("ab") as file:
        for line in invalid:
            row = orjson.loads(line)
            name = _name_of(row)
            if name not in moved:
                row |= {FAILURE_CLASS_KEY: "judge_invalid", NG_TERMINAL_KEY: False, _MOVED_KEY: name}
                row.pop("reward", None)
                file.write(orjson.dumps(row) + b"\n")
    left_out = set(invalid)
    with replacing(output) as file:
        file.writelines(line for line in lines if line not in left_out)
    return len(invalid)


def _is_invalid(line: bytes) -> bool:
    return orjson.loads(line).get("invalid_judge_response") is True


def _moved_rows(failures: Path) -> set[str]:
    lines = failures.read_bytes().splitlines() if failures.is_file() else []
    return {str(orjson.loads(line)[_MOVED_KEY]) for line in lines if _MOVED_KEY.encode() in line}


def _name_of(row: Mapping[str, Any]) -> str:
    keys = ("stage_index", TASK_INDEX_KEY, ROLLOUT_INDEX_KEY, ATTEMPT_INDEX_KEY)
    return "/".join(str(row.get(key) or 0) for key in keys)
