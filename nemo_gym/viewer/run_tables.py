"""Runs × environments, and the comparison of two runs, as the page reads them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from nemo_gym.failures import InputError
from nemo_gym.rollouts.lookback.comparison import compare
from nemo_gym.rollouts.lookback.run_table import read_run_table
from nemo_gym.viewer.companions import show_path
from nemo_gym.viewer.runs import Run

_MOST_PROBLEMS = 20


def build_table(runs: Sequence[Run]) -> dict[str, Any]:
    """Return the table of runs as JSON, each with its id, and the damaged lines that are left out.

    Raises `InputError` for a run with a file that is not read.
    """
    for run in runs:
        refuse_unreadable(run, run.files.manifest)
    problems: list[str] = []
    table = read_run_table([run.files.rows for run in runs], problems=problems).to_json()
    for shown, run in zip(table["runs"], runs, strict=True):
        shown["id"] = run.id
    return {**table, **_count_problems(problems)}


def compare_runs(before: Run, after: Run) -> dict[str, Any]:
    """Return the comparison as JSON, with the damaged lines that are left out.

    Raises `InputError` for a run with a file that is not read.
    """
    for run in (before, after):
        refuse_unreadable(run)
    problems: list[str] = []
    compared = compare(before.files.rows, after.files.rows, problems=problems).as_json()
    return {**compared, **_count_problems(problems)}


def _count_problems(problems: Sequence[str]) -> dict[str, Any]:
    shown = [show_path(each) for each in problems[:_MOST_PROBLEMS]]
    return {"unreadable": len(problems), "problems": shown}


def refuse_unreadable(run: Run, *others: Path) -> None:
    """Raise `InputError` if a file of rows of the run, or one of `others`, is not read."""
    files = run.files
    for path in (files.rows, files.failures, files.materialized_inputs, *others):
        if (fault := run.fault(path)) is not None:
            raise InputError(f"{show_path(path.name)} {fault}", code="unreadable_file")
