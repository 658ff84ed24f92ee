"""`docs/performance.md`: its tables and plots are written from the kept results, never by hand.

    python -m perf.page

Between `<!-- figures: NAME -->` and `<!-- end of figures -->` stands what this module writes: the goals with what is
reached of them (NAME `goals`), the list of benchmarks (`benchmarks`), or the figures of one benchmark.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from perf.catalogue import BENCHMARKS, Panel
from perf.chart import Plot, svg_of
from perf.goals import GOALS, Goal
from perf.measure import REPOSITORY, FigurePath, leaves
from perf.results import FOLDER, Result, comparable, read

PAGE = REPOSITORY / "docs" / "performance.md"
PLOTS = "performance"
"""The folder of the plots, beside the page."""
_BLOCK = re.compile(r"(<!-- figures: (\S+) -->\n).*?(<!-- end of figures -->)", re.DOTALL)
_NOTHING_KEPT = "Nothing is kept yet: `make bench`.\n"


def main() -> None:
    page, plots = rendered(PAGE.read_text(encoding="utf-8"), FOLDER)
    PAGE.write_text(page, encoding="utf-8")
    for name, svg in plots.items():
        path = PAGE.parent / PLOTS / f"{name}.svg"
        path.parent.mkdir(exist_ok=True)
        path.write_text(svg, encoding="utf-8")


def rendered(page: str, results: Path) -> tuple[str, dict[str, str]]:
    """The page with all its blocks written anew, and the plots by benchmark. Raises `KeyError` for a strange block."""
    kept = {name: read(name, results) for name in BENCHMARKS}
    blocks: dict[str, Callable[[], str]] = {
        "goals": lambda: goals_table({name: found[-1] for name, found in kept.items() if found}),
        "benchmarks": benchmarks_table,
        **{name: (lambda name=name: _figures_of(name, kept[name])) for name in BENCHMARKS},  # type: ignore[misc]
    }
    written = _BLOCK.sub(lambda match: match[1] + blocks[match[2]]() + match[3], page)
    return written, {name: plot for name, found in kept.items() if (plot := _plot_of(name, found))}


def benchmarks_table() -> str:
    rows = [[f"`python -m perf {name}`", shown.summary] for name, shown in BENCHMARKS.items()]
    return _table(["command", "what it measures"], rows)


def goals_table(latest: Mapping[str, Result]) -> str:
    rows = [[goal.text, _bound(goal), *_reached(goal, latest.get(goal.benchmark))] for goal in GOALS]
    return _table(["", "goal", "measured", "reached"], rows)


def _bound(goal: Goal) -> str:
    return f"{'at most' if goal.at_most else 'at least'} {number(goal.bound)}{goal.unit}"


def _reached(goal: Goal, result: Result | None) -> tuple[str, str]:
    value = goal.value_in(result.figures) if result else None
    if value is None:
        return "", ""
    return f"{number(value)}{goal.unit}", "yes" if goal.is_reached_by(value) else "no"


# --- The figures of a benchmark ---------------------------------------------------------------------------------


def _figures_of(name: str, results: Sequence[Result]) -> str:
    if not results:
        return _NOTHING_KEPT
    last = results[-1]
    machine = last.circumstances["machine"]
    told = ", ".join(f"{key} {value}" for key, value in last.settings.items())
    about = (
        f"`{last.commit}`, {last.circumstances['at'][:10]}; {machine['processor']}, {machine['cores']} cores, "
        f"Python {last.circumstances['versions']['python']}; {told}; {last.seconds:.0f} s.\n\n"
    )
    image = f"\n![{name} over the commits]({PLOTS}/{name}.svg)\n" if BENCHMARKS[name].panels else ""
    return about + figures_table(last.figures, BENCHMARKS[name].columns) + image


def figures_table(figures: Mapping[str, Any], columns: Mapping[str, str] | None) -> str:
    """A row for each group of figures that has one of the columns (default: all that are numbers)."""
    groups: dict[FigurePath, dict[str, float]] = {}
    for (*above, name), value in leaves(figures):
        is_number = isinstance(value, int | float) and not isinstance(value, bool)
        if is_number and (columns is None or name in columns):
            groups.setdefault(tuple(above), {})[name] = value
    found = {name for group in groups.values() for name in group}
    order = (
        list(columns) if columns is not None else list(dict.fromkeys(n for g in groups.values() for n in g))
    )
    headings = {name: (columns or {}).get(name, name.replace("_", " ")) for name in order if name in found}
    depth = max(map(len, groups), default=0)
    rows = [
        [
            *path,
            *[""] * (depth - len(path)),
            *(number(group[name]) if name in group else "" for name in headings),
        ]
        for path, group in groups.items()
    ]
    return _table([*[""] * depth, *headings.values()], _without_repetition(rows, depth))


def _without_repetition(rows: list[list[str]], depth: int) -> list[list[str]]:
    """A name that stands above already is not said again, but for the last of a row's names."""
    shown, before = [], [""] * depth
    for row in rows:
        path = row[:depth]
        same = next((i for i in range(depth) if path[i] != before[i]), depth)
        same = min(same, depth - 1)
        shown.append([""] * same + row[same:])
        before = path
    return shown


def number(value: float) -> str:
    """With as many digits as can be relied on."""
    if isinstance(value, int) or value == int(value):
        return f"{value:,.0f}"
    if abs(value) >= 100:
        return f"{value:,.0f}"
    return f"{value:.1f}" if abs(value) >= 10 else f"{value:.2f}" if abs(value) >= 1 else f"{value:.2g}"


def _table(headings: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [headings, ["---"] * len(headings), *rows]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


# --- The plots --------------------------------------------------------------------------------------------------


def _plot_of(name: str, results: list[Result]) -> str | None:
    if not results or not BENCHMARKS[name].panels:
        return None
    shown = comparable(results)
    plots = [_plot(panel, shown) for panel in BENCHMARKS[name].panels]
    return svg_of([result.commit for result in shown], plots)


def _plot(panel: Panel, results: Sequence[Result]) -> Plot:
    tables = [dict(leaves(result.figures)) for result in results]
    curves = {label: [table.get(path) for table in tables] for label, path in panel.curves.items()}
    return Plot(panel.title, {label: curve for label, curve in curves.items() if any(curve)}, panel.goal)


if __name__ == "__main__":
    main()
