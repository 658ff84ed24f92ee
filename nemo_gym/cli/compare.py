"""`ng_compare`: compare two runs of the same tasks."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from pydantic import Field

from nemo_gym.cli._run_table import draw_tables, write_markdown
from nemo_gym.cli.command import EXIT_CODES, Command, ExitCode, Keys

if TYPE_CHECKING:
    from nemo_gym.failures import ConfigError
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
    from nemo_gym.rollouts.lookback.comparison import compare
    from nemo_gym.rollouts.lookback.run_table import read_run_table

    table = read_run_table([Path(run) for run in keys.runs], score=keys.score)
    if len(keys.runs) > 2:
        return _print_table(table, keys)
    found = compare(*map(Path, keys.runs), score=keys.score)
    if found.difference is None:
        raise _refuse(keys, keys.runs[0], keys.runs[1], found.other_agents)
    if keys.as_json:
        print(json.dumps({"score": keys.score, **found.as_json(), "table": table.to_json()}, indent=2))
    elif keys.markdown:
        print("\n".join([*write_markdown(table), *_markdown(found, keys)]))
    else:
        _print(found, keys)
        print()
        _print_lines(table)
    return _find_exit_code([("the difference", found.difference)], keys)


def _refuse(keys: CompareKeys, before: str, after: str, agents: Sequence[str] = ()) -> ConfigError:
    from nemo_gym.failures import ConfigError

    several = f": several agents ({', '.join(agents)}) attempt a task, and none is in both" if agents else ""
    return ConfigError(
        f"no task has the score {keys.score!r} in both {before} and {after}{several}",
        code="nothing_to_compare",
        param="runs",
        remedy="Compare runs of the same dataset and agents, or set +score= to a number of their rows.",
    )


def _find_exit_code(differences: Sequence[tuple[str, float]], keys: CompareKeys) -> int:
    """Return the exit code by the printed differences, and name those below `fail_below`."""
    bound = keys.fail_below
    below = [] if bound is None else [each for each in differences if each[1] < bound]
    for name, difference in below:
        print(f"{name}, {difference:+.14g}, is below {bound:g}", file=sys.stderr)
    return ExitCode.FATAL if below else ExitCode.COMPLETE


def _print_table(table: RunTable, keys: CompareKeys) -> int:
    """Print the table of several runs. With `fail_below`, no run may be that much worse than the first."""
    first, *others = (run.label for run in table.runs)
    pairs = [pair for pair in table.pairs if pair.before == first]
    alone = [label for label in others if label not in {pair.after for pair in pairs}]
    if keys.fail_below is not None and alone:
        raise _refuse(keys, first, alone[0])
    if keys.as_json:
        print(json.dumps(table.to_json(), indent=2))
    elif keys.markdown:
        print("\n".join(write_markdown(table)))
    else:
        _print_lines(table)
    names = [f"{pair.environment}: the difference of {pair.after} from {first}" for pair in pairs]
    return _find_exit_code([*zip(names, (pair.difference for pair in pairs), strict=True)], keys)


def _print_lines(table: RunTable) -> None:
    from nemo_gym.tables import terminal_width

    for line in draw_tables(table, terminal_width()):
        print(line)


def _headline(found: RunComparison, keys: CompareKeys) -> Iterator[tuple[str, str]]:
    from nemo_gym.rollouts.lookback.task_clusters import describe_uneven

    yield "before", f"{found.before:.4g}  {keys.runs[0]}"
    yield "after", f"{found.after:.4g}  {keys.runs[1]}"
    interval = found.interval
    bounds = f"  [{interval.low:+.4g}, {interval.high:+.4g}] 95 %" if interval else ""
    yield "difference", f"{found.difference:+.4g}{bounds}"
    gains = sum(pair.difference > 0 for pair in found.changed)
    losses = len(found.changed) - gains
    same = len(found.pairs) - len(found.changed)
    yield "tasks", f"{len(found.pairs):,} paired: {losses:,} worse, {gains:,} better, {same:,} equal"
    if found.agents:
        yield "agents", f"over {', '.join(found.agents)}, in both runs; not {', '.join(found.other_agents)}"
    if found.unscored:
        yield "no score", f"{len(found.unscored):,} tasks in one of the runs: {_list_indices(found.unscored)}"
    for name, tasks in (("only before", found.only_before), ("only after", found.only_after)):
        if tasks:
            yield name, f"{len(tasks):,} tasks: {_list_indices(tasks)}"
    if found.joined:
        yield "note", describe_uneven(found.joined)
    yield from (("note", note) for account in found.accounts for note in account.notes())


def _list_indices(tasks: tuple[TaskPair, ...] | tuple[TaskAttempts, ...]) -> str:
    indices = [str(_index(task)) for task in tasks[:_MOST_LISTED]]
    return ", ".join(indices) + (", …" if len(tasks) > _MOST_LISTED else "")


def _index(task: TaskPair | TaskAttempts) -> int:
    return task.before.index if isinstance(task, tuple) else task.index


_COLUMNS = ("task", "before", "after", "difference")


def _list_columns(found: RunComparison) -> tuple[str, ...]:
    """Return the columns of numbers, and the agent's if there are several."""
    agents = {pair.before.agent for pair in found.pairs}
    return (*_COLUMNS, "agent") if len(agents) > 1 else _COLUMNS


def _changes(found: RunComparison, keys: CompareKeys) -> Iterator[list[str]]:
    has_agents = "agent" in _list_columns(found)
    shown = found.changed[: keys.changes]
    titles = _cut_beginnings(shown)
    for pair in shown:
        before, after = (f"{task.mean:.4g}" for task in pair)
        agent = [pair.before.agent] if has_agents else []
        yield [
            str(pair.before.index),
            before,
            after,
            f"{pair.difference:+.4g}",
            *agent,
            titles[pair.before.agent](pair.before.title),
        ]


def _cut_beginnings(pairs: Sequence[TaskPair]) -> dict[str, Callable[[str], str]]:
    """Return for each agent a function that cuts the words with which all titles of its tasks begin."""
    from nemo_gym.tables import build_cut

    titles: dict[str, list[str]] = {}
    for pair in pairs:
        titles.setdefault(pair.before.agent, []).append(pair.before.title)
    return {agent: build_cut(own) for agent, own in titles.items()}


def _print(found: RunComparison, keys: CompareKeys) -> None:
    from nemo_gym.tables import Column, fold_text, table_lines, terminal_width

    for name, text in _headline(found, keys):
        print(fold_text(f"{name:<12}{text}", terminal_width()))
    if not found.changed or not keys.changes:
        return
    numbers = [Column(name, is_number=name != "agent") for name in _list_columns(found)]
    columns = [*numbers, Column("question", shortest=_NARROWEST_QUESTION)]
    print()
    for line in table_lines(columns, list(_changes(found, keys)), terminal_width()):
        print(line.plain)


def _markdown(found: RunComparison, keys: CompareKeys) -> Iterator[str]:
    for name, text in _headline(found, keys):
        yield f"- **{name}:** {text}"
    if found.changed and keys.changes:
        yield ""
        columns = _list_columns(found)
        yield f"| {' | '.join(columns)} | question |"
        yield f"|{''.join('---|' if name == 'agent' else '---:|' for name in columns)}---|"
        for row in _changes(found, keys):
            yield f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in row)} |"


main = COMMAND.entry_point(compare_runs)
