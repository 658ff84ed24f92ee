"""Two charts as SVG text: bars and a curve.

They are small because the axes are: a few labels, and the figures of each bar and point as its tooltip. A plotting
library would add 50 KB to the page and 100 MB to an installation.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from html import escape
from typing import NamedTuple

from nemo_gym.tables import write_number

_WIDTH, _HEIGHT = 440, 160
_MARGIN = 24
"""Room for the labels below and above the chart."""
_MOST_VALUES = 12
_BINS = 24


class Bar(NamedTuple):
    """A bar of a histogram."""

    label: str
    number: int


def histogram(values: Sequence[float]) -> list[Bar]:
    """Return a bar for each value if there are few, or else for each of 24 intervals of the same width."""
    distinct = sorted(Counter(values).items())
    if len(distinct) <= _MOST_VALUES:
        return [Bar(f"{value:.4g}", count) for value, count in distinct]
    low, high = distinct[0][0], distinct[-1][0]
    width = high / _BINS - low / _BINS
    counts = Counter(min(int((value - low) / width), _BINS - 1) if width else 0 for value in values)
    return [Bar(f"{low + n * width:.4g} to {low + (n + 1) * width:.4g}", counts[n]) for n in range(_BINS)]


def bar_chart(title: str, bars: Sequence[Bar]) -> str:
    """Return a bar chart; every bar of a short one is labelled, else the first and the last."""
    most = max((bar.number for bar in bars), default=0) or 1
    step = _WIDTH / max(len(bars), 1)
    parts = [_text(0, _MARGIN - 8, f"{most:,}", "start")]
    for place, bar in enumerate(bars):
        height = bar.number / most * (_HEIGHT - 2 * _MARGIN)
        x, y = place * step, _HEIGHT - _MARGIN - height
        shape = f'<rect x="{x:.1f}" y="{y:.1f}" width="{max(step - 2, 1):.1f}" height="{height:.1f}">'
        parts.append(f"{shape}<title>{escape(bar.label)}: {bar.number:,}</title></rect>")
        if len(bars) <= _MOST_VALUES:
            parts.append(_text(x + step / 2, _HEIGHT - 6, bar.label, "middle"))
    if len(bars) > _MOST_VALUES:
        parts.append(_text(0, _HEIGHT - 6, bars[0].label, "start"))
        parts.append(_text(_WIDTH, _HEIGHT - 6, bars[-1].label, "end"))
    return _svg(title, parts)


def curve_chart(title: str, points: Mapping[int, float]) -> str:
    """Return a curve of percentages over whole numbers from 1, on a scale from 0 to 100 %."""
    last = max(points)
    places = {
        k: ((k - 1) / max(last - 1, 1) * (_WIDTH - 16) + 8, _compute_y(percent))
        for k, percent in points.items()
    }
    line = " ".join(f"{x:.1f},{y:.1f}" for x, y in places.values())
    parts = [f'<polyline points="{line}"/>', _text(0, _MARGIN - 8, "100 %", "start")]
    for k, (x, y) in places.items():
        parts.append(
            f'<circle cx="{x:.1f}" cy="{y:.1f}" r="4"><title>k = {k}: {write_number(points[k], 1)} %</title></circle>'
        )
    parts += [_text(places[k][0], _HEIGHT - 6, str(k), "middle") for k in {min(points), last}]
    return _svg(title, parts)


def _compute_y(percent: float) -> float:
    share = min(max(percent, 0.0), 100.0) / 100
    return _HEIGHT - _MARGIN - share * (_HEIGHT - 2 * _MARGIN)


def _text(x: float, y: float, text: str, anchor: str) -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{escape(text)}</text>'


def _svg(title: str, parts: Iterable[str]) -> str:
    box = f'viewBox="0 0 {_WIDTH} {_HEIGHT}" role="img" aria-label="{escape(title)}"'
    return f"<figure><figcaption>{escape(title)}</figcaption><svg {box}>{''.join(parts)}</svg></figure>"
