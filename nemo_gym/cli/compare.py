"""`ng_compare`: compare two runs of the same tasks."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from pydantic import Field

from nemo_gym.cli.command import EXIT_CODES, Command, ExitCode, Keys

if TYPE_CHECKING:
    from nemo_gym.rollouts.lookback.comparison import RunComparison, TaskAttempts, TaskPair

_MOST_LISTED = 10
_NARROWEST_QUESTION = 10
"""Columns of the terminal."""


class CompareKeys(Keys):
    runs: list[str] = Field(
        min_length=2, max_length=2, description="The scored rows of both runs: before, after."
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
    summary="Compare two runs of the same tasks: the difference with its interval, and the tasks that changed.",
    example="ng_compare +runs=[results/before.jsonl,results/after.jsonl] +fail_below=-0.02",
    keys=CompareKeys,
    exit_codes={**EXIT_CODES, ExitCode.FATAL: "failed, or the difference is below `fail_below`"},
)


def compare_runs(keys: CompareKeys) -> int:
    from nemo_gym.failures import ConfigError
    from nemo_gym.rollouts.lookback.comparison import compare

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
        print(json.dumps({"score": keys.score, **found.as_json()}, indent=2))
    elif keys.markdown:
        print("\n".join(_markdown(found, keys)))
    else:
        _print(found, keys)
    is_below = keys.fail_below is not None and found.difference < keys.fail_below
    return ExitCode.FATAL if is_below else ExitCode.COMPLETE


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
