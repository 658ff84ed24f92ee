"""Questions about stored rows of attempts, for drivers of collections that environments bring themselves."""

from __future__ import annotations

import os
from contextlib import closing
from pathlib import Path

from nemo_gym.json_objects import finite_number
from nemo_gym.rollouts.output.files import RunFiles
from nemo_gym.rollouts.output.journal import JUDGE_INVALID, fail_rows
from nemo_gym.rollouts.output.packed_file import append_to
from nemo_gym.rollouts.run.options import RunLimits
from nemo_gym.rows.forms import AnyRow
from nemo_gym.rows.timing import read_seconds
from nemo_gym.rows.verdict import is_terminal, read_failure_class

_ATTEMPTS_VARIABLE = "NEMO_GYM_MAX_ROLLOUT_ATTEMPTS"
_REPAIRABLE = frozenset({"timeout_exceeded", "reference_missing", "eval_missing", "transport_ineligible"})
"""Classes whose cause may be gone in a later run: the load of an attempt, or files that are repaired meanwhile."""
_UNUSABLE = "skipped"


def get_max_rollout_attempts() -> int:
    """Return the most attempts at a rollout over all runs: `NEMO_GYM_MAX_ROLLOUT_ATTEMPTS`, by default 3."""
    given = os.environ.get(_ATTEMPTS_VARIABLE, "")
    return int(given) if given.isdigit() and int(given) > 0 else RunLimits().max_attempts


def is_terminal_failure(record: AnyRow, *, retry_terminal_timeouts: bool = False) -> bool:
    """Return whether a resumed run must not repeat a failed attempt.

    The row says so itself. With `retry_terminal_timeouts`, timeouts and missing files are repeated nevertheless, and
    skipped tasks are not.
    """
    failure_class = read_failure_class(record)
    if retry_terminal_timeouts and failure_class in _REPAIRABLE:
        return False
    return is_terminal(record) or (retry_terminal_timeouts and failure_class == _UNUSABLE)


def observed_elapsed(record: AnyRow) -> float | None:
    """Return the seconds of an attempt; None if its row does not have them."""
    found = (finite_number(record.get("elapsed_seconds")), read_seconds(record))
    return next((seconds for seconds in found if seconds is not None and seconds > 0), None)


def migrate_invalid_judge_main_rows(output_fpath: Path) -> int:
    """Move the rows with `invalid_judge_response` from the scored rows to the failures, and return their number."""
    files = RunFiles.from_output(Path(output_fpath))
    if not files.rows.is_file():
        return 0
    with closing(append_to(files.rows)) as rows:
        return fail_rows(rows, files, JUDGE_INVALID)
