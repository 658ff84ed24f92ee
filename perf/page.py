"""Generates the tables and plots of `docs/performance.md` from the kept results.

    python -m perf.page
    python -m perf.page --release     # exits with 1 if figures are older than the code

A block between `<!-- figures: NAME -->` and `<!-- end of figures -->` holds the goals with the measured figures
(NAME `goals`), the list of benchmarks (`benchmarks`), the projection (`projection`), or the figures of one benchmark. A
figure that was measured with other code than that of the checkout is marked.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from perf.catalogue import BENCHMARKS
from perf.goals import GOALS, Goal
from perf.measure import REPOSITORY, FigurePath, digest_code, leaves
from perf.plot import draw
from perf.projection import project
from perf.results import Result, comparable, read

PAGE = REPOSITORY / "docs" / "performance.md"
PLOTS = "performance"
"""The folder of the plots, beside the page."""
_BLOCK = re.compile(r"(<!-- figures: (\S+) -->\n).*?(<!-- end of figures -->)", re.DOTALL)


def main() -> None:
    kept = {name: read(name) for name in BENCHMARKS}
    code = digest_code()
    if sys.argv[1:] == ["--release"]:
        sys.exit(refuse_old_figures(kept, code))
    PAGE.write_text(rendered(PAGE.read_text(encoding="utf-8"), kept, code), encoding="utf-8")
    for name, results in kept.items():
        if results and BENCHMARKS[name].panels:
            draw(comparable(results), BENCHMARKS[name].panels, PAGE.parent / PLOTS / f"{name}.svg")


def refuse_old_figures(kept: Mapping[str, Sequence[Result]], code: str) -> str | None:
    """Return the message that refuses a release whose page has figures of other code than `code`."""
    old = [name for name, results in kept.items() if results and is_old(results[-1], code)]
    return f"figures older than the code: {', '.join(old)}. Measure them: make bench." if old else None


def is_old(result: Result, code: str) -> bool:
    """Return whether a result was measured with other code than that with the digest `code`."""
    return bool(result.get("code") != code)


def rendered(page: str, kept: Mapping[str, Sequence[Result]], code: str) -> str:
    """Return the page with all blocks regenerated. Raises `KeyError` for an unknown block."""

    def block(name: str) -> str:
        if name == "benchmarks":
            return table(
                ["command", "measures"],
                [[f"`python -m perf {each}`", shown.summary] for each, shown in BENCHMARKS.items()],
            )
        if name == "projection":
            return projection_table(kept)
        return goals_table(kept, code) if name == "goals" else _figures_of(name, kept[name], code)

    return _BLOCK.sub(lambda match: match[1] + block(match[2]) + match[3], page)


def projection_table(kept: Mapping[str, Sequence[Result]]) -> str:
    """Return the projection from the last results of rollouts and of the collector, with their commits."""
    sources = [kept.get(name, ()) for name in ("rollouts", "collector")]
    if not all(sources):
        return "No result is kept yet: `make bench`.\n"
    load, collector = (results[-1] for results in sources)
    rows = [
        [
            str(each.cores),
            each.workers,
            number(each.rollouts_per_s),
            each.bottleneck,
            ", ".join(f"{name} {number(cores)}" for name, cores in each.cores_of.items()),
        ]
        for each in project(load["figures"], collector["figures"])
    ]
    headings = ["cores", "processes", "rollouts/s", "first bottleneck", "cores busy"]
    return f"From `{load['commit']}` and `{collector['commit']}`.\n\n" + table(headings, rows)


def goals_table(kept: Mapping[str, Sequence[Result]], code: str) -> str:
    rows = [[goal.text, _bound(goal), *_reached(goal, kept.get(goal.benchmark, ()), code)] for goal in GOALS]
    return table(["", "goal", "measured", "reached"], rows)


def _bound(goal: Goal) -> str:
    return f"{'at most' if goal.at_most else 'at least'} {number(goal.bound)}{goal.unit}"


def _reached(goal: Goal, results: Sequence[Result], code: str) -> tuple[str, str]:
    value = goal.value_in(results[-1]["figures"]) if results else None
    if value is None:
        return "", ""
    mark = ", by older code" if is_old(results[-1], code) else ""
    return f"{number(value)}{goal.unit}", ("yes" if goal.is_reached_by(value) else "no") + mark


def _figures_of(name: str, results: Sequence[Result], code: str) -> str:
    if not results:
        return "No result is kept yet: `make bench`.\n"
    last = results[-1]
    settings = ", ".join(f"{key} {value}" for key, value in last["settings"].items())
    about = (
        f"`{last['commit']}`, {last['at'][:10]}; {last['machine']['processor']}, {last['machine']['cores']} cores, "
        f"Python {last['versions']['python']}; {settings}; {last['seconds']:.0f} s."
        f"{' **The code has changed since.**' if is_old(last, code) else ''}\n\n"
    )
    image = f"\n![{name} over the commits]({PLOTS}/{name}.svg)\n" if BENCHMARKS[name].panels else ""
    return about + figures_table(last["figures"], BENCHMARKS[name].columns) + image


def figures_table(figures: Mapping[str, Any], columns: Mapping[str, str] | None) -> str:
    """Return one row per group of figures that has any of the columns (default: all numeric ones)."""
    groups: dict[FigurePath, dict[str, float]] = {}
    for (*above, name), value in leaves(figures):
        is_number = isinstance(value, int | float) and not isinstance(value, bool)
        if is_number and (columns is None or name in columns):
            groups.setdefault(tuple(above), {})[name] = value
    found = dict.fromkeys(name for group in groups.values() for name in group)
    shown = columns or {name: name.replace("_", " ") for name in found}
    headings = {name: heading for name, heading in shown.items() if name in found}
    rows = [
        [", ".join(path), *(number(group[name]) if name in group else "" for name in headings)]
        for path, group in groups.items()
    ]
    return table(["", *headings.values()], rows)


def number(value: float) -> str:
    """Format with three significant digits, and all digits before the decimal point."""
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"


def table(headings: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a Markdown table."""
    lines = [headings, ["---"] * len(headings), *rows]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


if __name__ == "__main__":
    main()
