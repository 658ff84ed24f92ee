"""Runs × environments in a terminal and as Markdown: what `ng_compare` prints of several runs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from nemo_gym.rollouts.lookback.run_table import Cell, PairedDifference, RunTable, TableRun
    from nemo_gym.rollouts.output.run_facts import KeyDifference

_MOST_KEYS = 30
"""Keys of the configuration that are listed."""
_LONGEST_VALUE = 60
_SHORT = "*"
_LEFT = ("run", "before", "after", "spent by", "name")
"""Columns of text."""
_ALWAYS = ("run", "mean", "95 % interval")
_FAMILY = {True: "pass", False: "best"}
_LEAST_SECONDS = 0.0005
_RANKS = {"failed": 2, "tasks": 2, "cost": 2, "calls": 2, "tokens": 3, "seconds": 3, "cached": 3}
_RANK_OF_COMMON_K, _RANK_OF_K, _RANK_OF_PHASE = 1, 4, 5


class ShownTable(NamedTuple):
    """A table of strings."""

    titles: list[str]
    rows: list[list[str]]


def list_tables(table: RunTable, environment: str) -> Iterator[ShownTable]:
    """Yield the tables of an environment: the figures of each run, and the paired differences of any two.

    Failures, tokens and seconds are left out if no run has any.
    """
    cells = {run.label: run.cells[environment] for run in table.runs if environment in run.cells}
    own = [*cells.values()]
    ks = sorted({cell.largest_k for cell in own} - {1})
    is_pass = all(cell.is_pass for cell in own)
    columns = {
        "run": [*cells],
        "mean": [_write_mean(cell.mean) for cell in own],
        "95 % interval": [_write_interval(cell) for cell in own],
        **{f"{_FAMILY[is_pass]}@{k}": [_write_best(cell, k, is_pass=is_pass) for cell in own] for k in ks},
        "failed": [f"{cell.failed:,}" for cell in own],
        "tokens": ["-" if cell.tokens is None else f"{cell.tokens:,.0f}" for cell in own],
        "cost": ["-" if cell.cost is None else f"{cell.cost:,.6f}" for cell in own],
        "seconds": [_write_seconds(cell.seconds) for cell in own],
        **{
            f"{phase} s": [_write_seconds(cell.phases.get(phase)) for cell in own]
            for phase in dict.fromkeys(phase for cell in own for phase in cell.phases)
        },
    }
    known = {title: texts for title, texts in columns.items() if title in _ALWAYS or {*texts} - {"-", "0"}}
    yield ShownTable([*known], [list(row) for row in zip(*known.values(), strict=True)])
    pairs = [list(_write_pair(pair)) for pair in table.pairs if pair.environment == environment]
    if pairs:
        yield ShownTable(["before", "after", "difference", "95 % interval", "tasks"], pairs)


def list_sections(table: RunTable) -> Iterator[tuple[str, Iterator[ShownTable]]]:
    """Yield the tables with their headings: those of each environment, and the expenses of runs that count them."""
    for environment in table.environments:
        yield environment, list_tables(table, environment)
    if rows := [row for run in table.runs if run.spent for row in _write_expenses(run)]:
        titles = ["run", "spent by", "name", "calls", "input", "cached", "output", "cost", "time"]
        yield "spent, failed attempts too", iter([ShownTable(titles, rows)])


def describe_runs(table: RunTable) -> Iterator[str]:
    """Yield a line for each run: its file, model, environments, sampling, date and tags."""
    for run in table.runs:
        facts = run.facts
        words = (
            run.path.name,
            "" if facts.model and facts.model in run.label else ", ".join(facts.models),
            ", ".join(facts.environments),
            ", ".join(f"{name} {value}" for name, value in facts.sampling.items()),
            run.started_at or "",
            ", ".join(facts.tags),
        )
        yield f"{run.label}: {' · '.join(filter(None, words))}"


def describe_differences(differences: Sequence[KeyDifference]) -> Iterator[str]:
    """Yield a line for each key of the configuration in which the runs differ."""
    for key, values in differences[:_MOST_KEYS]:
        yield f"{key}:"
        yield f"  {' | '.join(map(_shorten, values))}"
    if len(differences) > _MOST_KEYS:
        yield f"… and {len(differences) - _MOST_KEYS:,} more keys (--json has all)"


def draw_tables(table: RunTable, width: int | None) -> Iterator[str]:
    """Yield the lines of the tables and of the differing keys, in `width` columns of a terminal."""
    from nemo_gym.tables import Column, fold_text, table_lines

    for line in describe_runs(table):
        yield from fold_text(line, width).splitlines()
    for heading, tables in list_sections(table):
        yield f"\n{heading}"
        for titles, rows in tables:
            common = next((title for title in titles if "@" in title), None)
            columns = [
                Column(title, rank=_rank(title, common), is_number=title not in _LEFT) for title in titles
            ]
            yield from (line.plain for line in table_lines(columns, rows, width))
    yield ""
    for line in _describe_marks(table):
        yield from fold_text(line, width).splitlines()
    if table.differences:
        yield "the runs differ in:"
        yield from (fold_text(f"  {line}", width) for line in describe_differences(table.differences))
    for run in table.runs:
        yield from (fold_text(f"note: {note}", width) for note in run.account.notes())


def write_markdown(table: RunTable) -> Iterator[str]:
    """Yield the same as Markdown."""
    yield from (f"- {line}" for line in describe_runs(table))
    for heading, tables in list_sections(table):
        yield f"\n### {heading}\n"
        for titles, rows in tables:
            yield f"| {' | '.join(titles)} |"
            yield f"|{''.join('---|' if title in _LEFT else '---:|' for title in titles)}"
            yield from (f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in row)} |" for row in rows)
            yield ""
    yield from (f"{line}\n" for line in _describe_marks(table))
    yield from (
        f"{line}" if line.startswith(" ") else f"- {line}" for line in describe_differences(table.differences)
    )


def _describe_marks(table: RunTable) -> Iterator[str]:
    from nemo_gym.tables import INTERVAL_MEANING

    yield "mean: of all rollouts; difference: of the means of the tasks that both runs have, each with the same weight"
    cells = [cell for run in table.runs for cell in run.cells.values()]
    if any(1 < k <= cell.largest_k for cell in cells for k in cell.short_tasks):
        yield f"{_SHORT} without the tasks that have fewer than k rewards"
    yield INTERVAL_MEANING


def _write_expenses(run: TableRun) -> Iterator[list[str]]:
    from nemo_gym.rollouts.output.expenses import list_expenses, write_seconds

    for part in list_expenses(run.spent or {}):
        counts = (part.calls, part.input, part.cached, part.output)
        cost = "-" if part.cost is None else f"{part.cost:,.4f}"
        seconds = "-" if part.seconds is None else write_seconds(part.seconds)
        yield [run.label, part.kind, part.name, *(f"{count:,}" for count in counts), cost, seconds]


def _write_mean(mean: float | None) -> str:
    from nemo_gym.tables import write_number

    return "-" if mean is None else write_number(mean)


def _write_interval(cell: Cell) -> str:
    if cell.low is None or cell.high is None:
        return "-"
    return f"{_write_mean(cell.low)} to {_write_mean(cell.high)}"


def _write_best(cell: Cell, k: int, *, is_pass: bool) -> str:
    best = cell.best_at.get(k) if k <= cell.largest_k else None
    if best is None:
        return "-"
    shown = f"{100 * best:.1f} %" if is_pass else _write_mean(best)
    return f"{shown}{_SHORT if cell.short_tasks.get(k) else ''}"


def _write_seconds(seconds: float | None) -> str:
    return "-" if seconds is None else "0" if abs(seconds) < _LEAST_SECONDS else f"{seconds:.3g}"


def _write_pair(pair: PairedDifference) -> Iterator[str]:
    yield pair.before
    yield pair.after
    yield f"{pair.difference:+.3f}"
    yield "-" if pair.low is None or pair.high is None else f"{pair.low:+.3f} to {pair.high:+.3f}"
    yield f"{pair.tasks:,}"


def _rank(title: str, common: str | None) -> int:
    """Return the rank of a column. `common`: that of the smallest k, which all runs have."""
    if "@" in title:
        return _RANK_OF_COMMON_K if title == common else _RANK_OF_K
    return _RANK_OF_PHASE if title.endswith(" s") else _RANKS.get(title, 0)


def _shorten(value: str) -> str:
    return value if len(value) <= _LONGEST_VALUE else f"{value[: _LONGEST_VALUE - 1]}…"
