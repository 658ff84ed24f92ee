"""Tables and lines for people, which fit a terminal of any width.

A table that is too wide loses whole columns, those with the highest rank first. No cell is cut, except in a column that
has a `shortest` width. Where even the columns of rank 0 do not fit, the first cell of each row has a line of its own.
"""

from __future__ import annotations

import os
import re
import shutil
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import takewhile
from typing import TYPE_CHECKING, TextIO

if TYPE_CHECKING:
    from rich.text import Text

GAP = 2
"""Columns of the terminal between two columns of a table."""
_LINE_START = re.compile(r" *(?:-> |\d+\. )?(?=\S)")
"""Everything to the left of the words of a line: its indentation, arrow or number."""
_PHRASE = re.compile(r"(?:`[^`]*`|\S)+")
"""A word, or words between backquotes, which a user may copy."""
_LONG = 1e9
_LEAST_SHARED = 24
"""Characters of a beginning that is cut."""
_BARS = "▁▂▃▄▅▆▇█"


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a table."""

    title: str
    rank: int = 0
    """Columns with a higher rank are left out before others. Rank 0 is never left out."""
    is_number: bool = False
    shortest: int | None = None
    """Only for the last column: its cells may be cut to so many columns of the terminal. None if they are never cut."""


def write_number(value: float, places: int = 3) -> str:
    """Return a number with `places` decimals; one of more than nine digits with an exponent."""
    return f"{value:.{places}f}" if abs(value) < _LONG else f"{value:.{places}e}"


def write_count(count: int, one: str, many: str) -> str:
    """Return a count with its noun: `1 row`, `1,250 rows`."""
    return f"{count:,} {one if count == 1 else many}"


INTERVAL_MEANING = "intervals: of the mean of all tasks like these, clustered by task"
"""The line below a table of runs: an interval of the mean of these tasks alone would be narrower."""


def write_seconds(seconds: float) -> str:
    """Return seconds with three digits: `0.0123 s`, `1.5 s`, `1,250 s`."""
    return f"{seconds:,.0f} s" if abs(seconds) >= 100 else f"{seconds:.3g} s"


def build_cut(titles: Iterable[str]) -> Callable[[str], str]:
    """Return a function that cuts the words with which all of several titles begin, so that they can be told apart."""
    different = sorted(set(titles))
    pairs = zip(different[0], different[-1], strict=False) if len(different) > 1 else ()
    shared = "".join(one for one, _ in takewhile(lambda pair: pair[0] == pair[1], pairs))
    end = shared.rfind(" ") + 1
    return lambda title: f"…{title[end:]}" if end >= _LEAST_SHARED and len(title) > end else title


def table_lines(
    columns: Sequence[Column], rows: Sequence[Sequence[str | Text]], width: int | None
) -> list[Text]:
    """Return the lines of a table that fits `width` columns of a terminal; None for all columns."""
    from rich.text import Text  # most messages have no table

    cells = [[Text(cell) if isinstance(cell, str) else cell for cell in row] for row in rows]
    header = [Text(column.title, style="dim") for column in columns]
    widths = [max(row[place].cell_len for row in (header, *cells)) for place in range(len(columns))]
    needed = [min(given, column.shortest or given) for column, given in zip(columns, widths, strict=True)]
    kept = _choose_columns(columns, needed, width)
    cut = width if columns[-1].shortest is not None else None
    if width is None or _total(kept, needed) <= width:
        return [_line(row, columns, kept, widths, cut) for row in (header, *cells)]
    first, *others = kept
    lines = [_line(header, columns, others, widths, cut, indent=GAP)]
    for row in cells:
        lines += [row[first], _line(row, columns, others, widths, cut, indent=GAP)]
    return lines


def _choose_columns(columns: Sequence[Column], widths: Sequence[int], width: int | None) -> list[int]:
    """Return the places of the columns that fit."""
    kept = list(range(len(columns)))
    while width is not None and _total(kept, widths) > width:
        last = max(kept, key=lambda place: (columns[place].rank, place))
        if columns[last].rank == 0:
            break
        kept.remove(last)
    return kept


def _total(kept: Sequence[int], widths: Sequence[int]) -> int:
    return sum(widths[place] for place in kept) + GAP * (len(kept) - 1)


def _line(
    cells: Sequence[Text],
    columns: Sequence[Column],
    kept: Sequence[int],
    widths: Sequence[int],
    cut: int | None,
    *,
    indent: int = 0,
) -> Text:
    from rich.text import Text

    line = Text(" " * indent, no_wrap=True, overflow="ignore")
    for place in kept:
        if len(line) > indent:
            line.append(" " * GAP)
        padding = " " * (widths[place] - cells[place].cell_len)
        parts = (padding, cells[place]) if columns[place].is_number else (cells[place], padding)
        for part in parts:
            line.append(part)
    line.rstrip()
    if cut is not None:
        line.truncate(cut, overflow="ellipsis")
    return line


def wrap_phrases(phrases: Iterable[str], width: int | None, gap: int = GAP) -> Iterator[str]:
    """Yield lines of phrases that are `gap` spaces apart. No phrase is broken."""
    line = ""
    for phrase in phrases:
        longer = f"{line}{' ' * gap}{phrase}" if line else phrase
        if line and width is not None and len(longer) > width:
            yield line
            longer = phrase
        line = longer
    if line:
        yield line


def hang_text(title: str, text: str, titles: int, width: int | None) -> Iterator[str]:
    """Yield the lines of `text` beside a title that takes `titles` columns. No word is broken."""
    lines = wrap_phrases(text.split(" "), None if width is None else width - titles, gap=1)
    for line in lines:
        yield f"{title:<{titles}}{line}"
        title = ""


def fold_text(text: str, width: int | None) -> str:
    """Return `text` with lines that fit `width` columns. No word and nothing between backquotes is broken.

    A long line continues to the right of its indentation, arrow or number.
    """
    if width is None:
        return text
    return "\n".join(line for given in text.split("\n") for line in _fold(given, width))


def _fold(line: str, width: int) -> Iterator[str]:
    line = line.rstrip()
    if len(line) <= width:
        yield line
        return
    match = _LINE_START.match(line)
    start = match.group() if match else ""
    for part in wrap_phrases(_PHRASE.findall(line, len(start)), width - len(start), gap=1):
        yield f"{start}{part}"
        start = " " * len(start)


def terminal_width(stream: TextIO | None = None) -> int | None:
    """Return the width of the terminal of `stream` (default: standard output), else `COLUMNS`; None without both."""
    has_width = (stream or sys.stdout).isatty() or os.environ.get("COLUMNS", "").isdecimal()
    return shutil.get_terminal_size().columns if has_width else None


def sparkline(values: Sequence[float | None], low: float, high: float) -> str:
    """Return a bar for each value between `low` and `high`; a blank for None."""
    span = (high - low) or 1.0
    last = len(_BARS) - 1
    return "".join(
        " " if value is None else _BARS[min(last, max(0, int((value - low) / span * len(_BARS))))]
        for value in values
    )
