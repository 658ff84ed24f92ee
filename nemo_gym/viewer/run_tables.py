"""Runs × environments, as the page reads them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from nemo_gym.failures import InputError
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
    return {
        **table,
        "unreadable": len(problems),
        "problems": [show_path(each) for each in problems[:_MOST_PROBLEMS]],
    }


def refuse_unreadable(run: Run, *others: Path) -> None:
    """Raise `InputError` if a file of rows of the run, or one of `others`, is not read."""
    files = run.files
    for path in (files.rows, files.failures, files.materialized_inputs, *others):
        if (fault := run.fault(path)) is not None:
            raise InputError(f"{show_path(path.name)} {fault}", code="unreadable_file")
