"""Plots of figures over commits, as SVG written by hand: a panel a unit, a curve a figure, dashed where the goal is."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from html import escape

_WIDTH, _HEIGHT = 440, 270
_LEFT, _RIGHT, _TOP, _BOTTOM = 52, 16, 36, 84
_COLUMNS = 2
_COLORS = ("#2563eb", "#dc2626", "#059669", "#d97706", "#7c3aed", "#0891b2")
_TICKS = 4
_MOST_LABELS = 6
_STYLE = (
    "text{font-family:system-ui,sans-serif;font-size:11px;fill:#374151}"
    ".title{font-size:13px;font-weight:600;fill:#111827}.grid{stroke:#e5e7eb}.goal{stroke:#6b7280;stroke-dasharray:5 4}"
)


@dataclass(frozen=True, slots=True)
class Plot:
    """One panel: values of each curve at each commit; None where a commit has none."""

    title: str
    curves: Mapping[str, Sequence[float | None]]
    goal: float | None = None

    def top(self) -> float:
        values = [value for curve in self.curves.values() for value in curve if value is not None]
        return _round_up(max([*values, self.goal or 0.0]) * 1.05 or 1.0)


def svg_of(commits: Sequence[str], plots: Sequence[Plot]) -> str:
    """The panels in two columns."""
    rows = math.ceil(len(plots) / _COLUMNS)
    width, height = _WIDTH * min(len(plots), _COLUMNS), _HEIGHT * rows
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" viewBox="0 0 {width} {height}">',
        f"<style>{_STYLE}</style>",
        '<rect width="100%" height="100%" fill="white"/>',
    ]
    for number, plot in enumerate(plots):
        x, y = _WIDTH * (number % _COLUMNS), _HEIGHT * (number // _COLUMNS)
        parts += [f'<g transform="translate({x} {y})">', *_panel(commits, plot), "</g>"]
    return "\n".join([*parts, "</svg>"]) + "\n"


def _panel(commits: Sequence[str], plot: Plot) -> Iterator[str]:
    top = plot.top()
    yield f'<text class="title" x="{_LEFT}" y="20">{escape(plot.title)}</text>'
    for tick in range(_TICKS + 1):
        value = top * tick / _TICKS
        y = _y(value, top)
        yield f'<line class="grid" x1="{_LEFT}" x2="{_WIDTH - _RIGHT}" y1="{y}" y2="{y}"/>'
        yield f'<text x="{_LEFT - 6}" y="{y + 4}" text-anchor="end">{value:g}</text>'
    if plot.goal is not None:
        y = _y(plot.goal, top)
        yield f'<line class="goal" x1="{_LEFT}" x2="{_WIDTH - _RIGHT}" y1="{y}" y2="{y}"/>'
        yield f'<text x="{_WIDTH - _RIGHT}" y="{y - 4}" text-anchor="end">goal {plot.goal:g}</text>'
    yield from _commit_labels(commits)
    for number, (name, values) in enumerate(plot.curves.items()):
        color = _COLORS[number % len(_COLORS)]
        yield from _curve(values, top, color)
        yield from _legend(name, number, color)


def _commit_labels(commits: Sequence[str]) -> Iterator[str]:
    step = max(1, math.ceil(len(commits) / _MOST_LABELS))
    for index in range(len(commits) - 1, -1, -step):
        x = _x(index, len(commits))
        yield f'<text x="{x}" y="{_HEIGHT - _BOTTOM + 16}" text-anchor="middle">{escape(commits[index][:7])}</text>'


def _curve(values: Sequence[float | None], top: float, color: str) -> Iterator[str]:
    points = [
        (_x(index, len(values)), _y(value, top)) for index, value in enumerate(values) if value is not None
    ]
    line = " ".join(f"{x},{y}" for x, y in points)
    yield f'<polyline points="{line}" fill="none" stroke="{color}" stroke-width="1.8"/>'
    for x, y in points:
        yield f'<circle cx="{x}" cy="{y}" r="3" fill="{color}"/>'


def _legend(name: str, number: int, color: str) -> Iterator[str]:
    x = _LEFT + (number % 2) * (_WIDTH - _LEFT - _RIGHT) // 2
    y = _HEIGHT - _BOTTOM + 36 + 16 * (number // 2)
    yield f'<rect x="{x}" y="{y - 9}" width="10" height="10" rx="2" fill="{color}"/>'
    yield f'<text x="{x + 15}" y="{y}">{escape(name)}</text>'


def _x(index: int, count: int) -> float:
    width = _WIDTH - _LEFT - _RIGHT
    margin = 24
    share = 0.5 if count == 1 else index / (count - 1)
    return round(_LEFT + margin + share * (width - 2 * margin), 1)


def _y(value: float, top: float) -> float:
    height = _HEIGHT - _TOP - _BOTTOM
    return round(_TOP + height * (1 - value / top), 1)


def _round_up(value: float) -> float:
    """The next of 1, 1.2, 1.6, 2, 2.4, 3.2, 4, 6, 8 times a power of ten: four ticks of it are short numbers."""
    power = 10.0 ** math.floor(math.log10(value))
    steps = (1, 1.2, 1.6, 2, 2.4, 3.2, 4, 6, 8, 10)
    return next(step * power for step in steps if step * power >= value * (1 - 1e-9))
