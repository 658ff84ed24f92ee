"""`ng_compare`: compare two runs of the same tasks."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from pydantic import Field

from nemo_gym.cli._run_table import draw_tables, write_markdown
from nemo_gym.cli.command import EXIT_CODES, Command, ExitCode, Keys

if TYPE_CHECKING:
    from nemo_gym.rollouts.lookback.comparison import RunComparison, TaskAttempts, TaskPair
    from nemo_gym.rollouts.lookback.run_table import RunTable

_MOST_LISTED = 10
_NARROWEST_QUESTION = 10
"""Columns of the terminal."""


class CompareKeys(Keys):
    runs: list[str] = Field(
        min_length=2, description="The scored rows of the runs: before, after; or of several, for a table."
    )
    score: str = Field("reward", description="The number of a row to compare.")
    changes: int = Field(20, ge=0, description="The most changed tasks to list.")
    fail_below: float | None = Field(
        None, description="Exit with 1 if the difference (after - before) is below this number."
    )
    markdown: bool = Field(False, description="Print Markdown.")
    as_json: bool = Field(False, alias="json", description="Print JSON.")


COMMAND = Command(
    name="ng_compare",
    summary="Compare runs of the same tasks: figures by environment, paired differences with their intervals, the "
    "tasks that changed, and the keys of the configuration that differ.",
    example="ng_compare +runs=[results/before.jsonl,results/after.jsonl] +fail_below=-0.02",
    keys=CompareKeys,
    exit_codes={**EXIT_CODES, ExitCode.FATAL: "failed, or the difference is below `fail_below`"},
)


def compare_runs(keys: CompareKeys) -> int:
    from nemo_gym.failures import ConfigError
    from nemo_gym.rollouts.lookback.comparison import compare
    from nemo_gym.rollouts.lookback.run_table import read_run_table

    table = read_run_table([Path(run) for run in keys.runs], score=keys.score)
    if len(keys.runs) > 2:
        return _print_table(table, keys)
    before, after = map(Path, keys.runs)
    found = compare(before, after, score=keys.score)
    if found.difference is None:
        raise ConfigError(
            f"no task has the score {keys.score!r} in both {keys.runs[0]} and {keys.runs[1]}",
            code="nothing_to_compare",
            param="runs",
            remedy="Compare runs of the same dataset, or set +score= to a number of their rows.",
        )
    if keys.as_json:
        print(json.dumps({"score": keys.score, **found.as_json(), "table": table.to_json()}, indent=2))
    elif keys.markdown:
        print("\n".join([*write_markdown(table), *_markdown(found, keys)]))
    else:
        _print(found, keys)
        print()
        _print_lines(table)
    is_below = keys.fail_below is not None and found.difference < keys.fail_below
    return ExitCode.FATAL if is_below else ExitCode.COMPLETE


def _print_table(table: RunTable, keys: CompareKeys) -> int:
    """Print the table of several runs. With `fail_below`, no run may be that much worse than the first."""
    if keys.as_json:
        print(json.dumps(table.to_json(), indent=2))
    elif keys.markdown:
        print("\n".join(write_markdown(table)))
    else:
        _print_lines(table)
    first = table.runs[0].label
    least = min((pair.difference for pair in table.pairs if pair.before == first), default=None)
    is_below = keys.fail_below is not None and least is not None and least < keys.fail_below
    return ExitCode.FATAL if is_below else ExitCode.COMPLETE


def _print_lines(table: RunTable) -> None:
    from nemo_gym.tables import terminal_width

    for line in draw_tables(table, terminal_width()):
        print(line)


def _headline(found: RunComparison, keys: CompareKeys) -> Iterator[tuple[str, str]]:
    yield "before", f"{found.before:.4g}  {keys.runs[0]}"
    yield "after", f"{found.after:.4g}  {keys.runs[1]}"
    interval = found.interval
    bounds = f"  [{interval.low:+.4g}, {interval.high:+.4g}] 95 %" if interval else ""
    yield "difference", f"{found.difference:+.4g}{bounds}"
    gains = sum(pair.difference > 0 for pair in found.changed)
    losses = len(found.changed) - gains
    same = len(found.pairs) - len(found.changed)
    yield "tasks", f"{len(found.pairs):,} paired: {losses:,} worse, {gains:,} better, {same:,} equal"
    if found.unscored:
        yield "no score", f"{len(found.unscored):,} tasks in one of the runs: {_list_indices(found.unscored)}"
    for name, tasks in (("only before", found.only_before), ("only after", found.only_after)):
        if tasks:
            yield name, f"{len(tasks):,} tasks: {_list_indices(tasks)}"
    yield from (("note", note) for account in found.accounts for note in account.notes())


def _list_indices(tasks: tuple[TaskPair, ...] | tuple[TaskAttempts, ...]) -> str:
    indices = [str(_index(task)) for task in tasks[:_MOST_LISTED]]
    return ", ".join(indices) + (", …" if len(tasks) > _MOST_LISTED else "")


def _index(task: TaskPair | TaskAttempts) -> int:
    return task.before.index if isinstance(task, tuple) else task.index


_COLUMNS = ("task", "before", "after", "difference")


def _changes(found: RunComparison, keys: CompareKeys) -> Iterator[tuple[str, str, str, str, str]]:
    for pair in found.changed[: keys.changes]:
        before, after = (f"{task.mean:.4g}" for task in pair)
        yield str(pair.before.index), before, after, f"{pair.difference:+.4g}", pair.before.title


def _print(found: RunComparison, keys: CompareKeys) -> None:
    from nemo_gym.tables import Column, fold_text, table_lines, terminal_width

    for name, text in _headline(found, keys):
        print(fold_text(f"{name:<12}{text}", terminal_width()))
    if not found.changed or not keys.changes:
        return
    numbers = [Column(name, is_number=True) for name in _COLUMNS]
    columns = [*numbers, Column("question", shortest=_NARROWEST_QUESTION)]
    print()
    for line in table_lines(columns, list(_changes(found, keys)), terminal_width()):
        print(line.plain)


def _markdown(found: RunComparison, keys: CompareKeys) -> Iterator[str]:
    for name, text in _headline(found, keys):
        yield f"- **{name}:** {text}"
    if found.changed and keys.changes:
        yield ""
        yield f"| {' | '.join(_COLUMNS)} | question |"
        yield "|---:|---:|---:|---:|---|"
        for row in _changes(found, keys):
            yield f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in row)} |"


main = COMMAND.entry_point(compare_runs)
