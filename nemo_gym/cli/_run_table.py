"""Runs × environments in a terminal and as Markdown: what `ng_compare` prints of several runs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from nemo_gym.rollouts.lookback.run_table import Cell, PairedDifference, RunTable
    from nemo_gym.rollouts.output.run_facts import KeyDifference

_MOST_KEYS = 30
"""Keys of the configuration that are listed."""
_LONGEST_VALUE = 60
_SHORT = "*"
_LEFT = ("environment", "run", "before", "after")
"""Columns of text."""


def list_tables(table: RunTable) -> Iterator[tuple[list[str], list[list[str]]]]:
    """Yield the titles and rows of both tables: the cells by environment and run, and the paired differences."""
    ks = sorted({cell.largest_k for run in table.runs for cell in run.cells.values()})
    is_pass = all(cell.is_pass for run in table.runs for cell in run.cells.values())
    family = "pass" if is_pass else "best"
    bests = [f"{family}@{k}" for k in ks if k > 1]
    yield (
        ["environment", "run", "mean", "95 % interval", *bests, "failed", "tokens", "seconds"],
        [
            [name, run.label, *_write_cell(run.cells[name], [k for k in ks if k > 1])]
            for name in table.environments
            for run in table.runs
            if name in run.cells
        ],
    )
    if table.pairs:
        titles = ["environment", "before", "after", "difference", "95 % interval", "tasks"]
        yield titles, [list(_write_pair(pair)) for pair in table.pairs]


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

    for titles, rows in list_tables(table):
        columns = [Column(title, rank=_rank(title), is_number=title not in _LEFT) for title in titles]
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
    for titles, rows in list_tables(table):
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


def _write_cell(cell: Cell, ks: Sequence[int]) -> Iterator[str]:
    from nemo_gym.tables import write_number

    yield "-" if cell.mean is None else write_number(cell.mean)
    yield (
        "-"
        if cell.low is None or cell.high is None
        else f"{write_number(cell.low)} to {write_number(cell.high)}"
    )
    for k in ks:
        mark = _SHORT if cell.short_tasks.get(k) else ""
        yield f"{write_number(cell.best_at[k])}{mark}" if k <= cell.largest_k and k in cell.best_at else "-"
    yield f"{cell.failed:,}"
    yield "-" if cell.tokens is None else f"{cell.tokens:,.0f}"
    yield "-" if cell.seconds is None else f"{cell.seconds:.3g}"


def _write_pair(pair: PairedDifference) -> Iterator[str]:
    yield pair.environment
    yield pair.before
    yield pair.after
    yield f"{pair.difference:+.3f}"
    yield "-" if pair.low is None or pair.high is None else f"{pair.low:+.3f} to {pair.high:+.3f}"
    yield f"{pair.tasks:,}"


def _rank(title: str) -> int:
    return {"tokens": 2, "seconds": 2, "failed": 1}.get(title, 3 if "@" in title else 0)


def _shorten(value: str) -> str:
    return value if len(value) <= _LONGEST_VALUE else f"{value[: _LONGEST_VALUE - 1]}…"
