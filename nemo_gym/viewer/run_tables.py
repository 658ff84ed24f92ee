"""Runs × environments, the comparison of two runs, and a ranking, as the page reads them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from nemo_gym.failures import ConfigError, InputError
from nemo_gym.rollouts.lookback.comparison import compare
from nemo_gym.rollouts.lookback.rank_plot import draw_ranking
from nemo_gym.rollouts.lookback.ranking import rank_runs
from nemo_gym.rollouts.lookback.run_table import RunTable, read_run_table
from nemo_gym.viewer.companions import show_path
from nemo_gym.viewer.runs import Run

_MOST_PROBLEMS = 20


def build_table(runs: Sequence[Run]) -> dict[str, Any]:
    """Return the table of runs as JSON, each with its id, and the damaged lines that are left out.

    Raises `InputError` for a run with a file that is not read.
    """
    table, problems = _read_table(runs)
    return _name_runs(table, runs) | _count_problems(problems)


def build_tables(runs: Sequence[Run], chosen: Iterable[Sequence[int]]) -> Iterator[dict[str, Any]]:
    """Yield the tables of some of the runs each, by their places, without reading a run twice.

    Raises `InputError` as `build_table` does.
    """
    table, problems = _read_table(runs)
    for places in chosen:
        named = _name_runs(table.select(places), [runs[place] for place in places])
        yield named | _count_problems(problems)


def _read_table(runs: Sequence[Run]) -> tuple[RunTable, list[str]]:
    for run in runs:
        refuse_unreadable(run, run.files.manifest)
    problems: list[str] = []
    return read_run_table([run.files.rows for run in runs], problems=problems), problems


def _name_runs(table: RunTable, runs: Sequence[Run]) -> dict[str, Any]:
    found = table.to_json()
    for shown, run in zip(found["runs"], runs, strict=True):
        shown["id"] = run.id
    return found


def compare_runs(before: Run, after: Run) -> dict[str, Any]:
    """Return the comparison as JSON, with the damaged lines that are left out.

    Raises `InputError` for a run with a file that is not read.
    """
    for run in (before, after):
        refuse_unreadable(run)
    problems: list[str] = []
    compared = compare(before.files.rows, after.files.rows, problems=problems).as_json()
    return {**compared, **_count_problems(problems)}


def build_ranking(runs: Sequence[Run]) -> dict[str, Any]:
    """Return the ranking as JSON, with its plot. Raises `InputError` for a run with a file that is not read."""
    for run in runs:
        refuse_unreadable(run, run.files.manifest)
    try:
        ranking = rank_runs([run.files.rows for run in runs])
    except ConfigError as error:
        raise InputError(
            error.failure.message, code=error.failure.code, remedy=error.failure.remedy
        ) from error
    return ranking.as_json() | {"plot": draw_ranking(ranking)}


def _count_problems(problems: Sequence[str]) -> dict[str, Any]:
    shown = [show_path(each) for each in problems[:_MOST_PROBLEMS]]
    return {"unreadable": len(problems), "problems": shown}


def refuse_unreadable(run: Run, *others: Path) -> None:
    """Raise `InputError` if a file of rows of the run, or one of `others`, is not read."""
    files = run.files
    for path in (files.rows, files.failures, files.materialized_inputs, *others):
        if (fault := run.fault(path)) is not None:
            raise InputError(f"{show_path(path.name)} {fault}", code="unreadable_file")
