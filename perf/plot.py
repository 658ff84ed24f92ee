"""Plots of results.

Over the commits: one panel per unit, one curve per figure, a dashed line at the goal. Of one result: bars.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from perf.catalogue import Panel
from perf.measure import Figures, leaves
from perf.results import Result

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_STYLE = {"svg.fonttype": "none", "svg.hashsalt": "perf", "font.size": 9}
_PANEL_INCHES = (4.6, 3.4)


def draw(results: Sequence[Result], panels: Sequence[Panel], path: Path) -> None:
    """Write the panels as one SVG. A commit without a figure is a gap in its curve."""
    from matplotlib import rc_context
    from matplotlib.figure import Figure

    commits = [result["commit"][:7] for result in results]
    tables = [dict(leaves(result["figures"])) for result in results]
    columns = min(len(panels), 2)
    rows = math.ceil(len(panels) / columns)
    width, height = _PANEL_INCHES
    with rc_context(_STYLE):  # type: ignore[arg-type]  # its stubs list the keys
        figure = Figure(figsize=(width * columns, height * rows), layout="constrained")
        for number, panel in enumerate(panels, 1):
            axis = figure.add_subplot(rows, columns, number)
            for label, figure_path in panel.curves.items():
                axis.plot(commits, [table.get(figure_path, math.nan) for table in tables], "o-", label=label)
            if panel.goal is not None:
                axis.axhline(panel.goal, color="gray", linestyle="--", label=f"goal {panel.goal:g}")
            axis.set(title=panel.title, ylim=(0, None))
            axis.tick_params("x", rotation=45)
            axis.legend(fontsize="small")
        _save(figure, path)


def draw_bars(groups: Figures, names: Mapping[str, str], title: str, path: Path) -> None:
    """Write one SVG with horizontal bars: a place per group of figures, a bar per name with its label."""
    from matplotlib import rc_context
    from matplotlib.figure import Figure

    height = 0.8 / len(names)
    with rc_context(_STYLE):  # type: ignore[arg-type]  # its stubs list the keys
        figure = Figure(figsize=(7, 0.45 * len(groups) + 1), layout="constrained")
        axis = figure.add_subplot()
        for number, (name, label) in enumerate(names.items()):
            places = [place + number * height for place in range(len(groups))]
            axis.barh(places, [group[name] for group in groups.values()], height, label=label)
        axis.set_yticks([place + (len(names) - 1) * height / 2 for place in range(len(groups))], list(groups))
        axis.invert_yaxis()
        axis.set(title=title, xlim=(0, 1))
        axis.legend(fontsize="small")
        _save(figure, path)


def _save(figure: Figure, path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, metadata={"Date": None})
