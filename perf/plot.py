"""A plot of kept results over the commits: one panel per unit, one curve per figure, a dashed line at the goal."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path

from perf.catalogue import Panel
from perf.measure import leaves
from perf.results import Result

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
        path.parent.mkdir(parents=True, exist_ok=True)
        figure.savefig(path, metadata={"Date": None})
