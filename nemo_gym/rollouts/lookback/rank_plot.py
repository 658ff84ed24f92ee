"""The plot of a ranking as SVG: a line for each model, with its mean and its interval, and its rank beside it."""

from __future__ import annotations

from html import escape

from nemo_gym.rollouts.lookback.ranking import OVERALL, Ranking
from nemo_gym.tables import write_number

_LABELS, _PLOT, _RANKS = 220, 360, 120
_ROW, _TOP, _BOTTOM = 26, 34, 30


def draw_ranking(ranking: Ranking) -> str:
    """Return the text of the file."""
    column = OVERALL if len(ranking.environments) > 1 else ranking.environments[0]
    bounds = [
        (model.intervals[column].low, model.intervals[column].high)
        if column in model.intervals
        else (model.means[column],) * 2
        for model in ranking.models
    ]
    low = min(0.0, *(each[0] for each in bounds))
    high = max(1.0, *(each[1] for each in bounds))

    def place(value: float) -> float:
        return _LABELS + (value - low) / (high - low) * _PLOT

    height = _TOP + _ROW * len(ranking.models) + _BOTTOM
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_LABELS + _PLOT + _RANKS} {height}" '
        'font-family="system-ui, sans-serif" font-size="13">',
        f"<title>Means with 95 % intervals: {escape(column)}</title>",
        _text(_LABELS + _PLOT + 16, _TOP - 14, "rank (from, to)"),
    ]
    for number, (model, (least, most)) in enumerate(zip(ranking.models, bounds, strict=True)):
        y = _TOP + _ROW * number + _ROW / 2
        center = model.means[column]
        tip = f"{model.label}: {write_number(center)} ({write_number(least)} to {write_number(most)})"
        rank = model.rank
        parts += [
            _text(_LABELS - 12, y + 4, _cut(model.label), "end"),
            f'<line x1="{place(least):.1f}" x2="{place(most):.1f}" y1="{y:.1f}" y2="{y:.1f}" '
            'stroke="#3b76b8" stroke-width="2"/>',
            f'<circle cx="{place(center):.1f}" cy="{y:.1f}" r="5" fill="#3b76b8"><title>{escape(tip)}</title></circle>',
            _text(_LABELS + _PLOT + 16, y + 4, f"{rank.rank} ({rank.best} to {rank.worst})"),
        ]
    for value in (low, (low + high) / 2, high):
        parts.append(_text(place(value), height - 10, f"{value:.3g}", "middle"))
    return "\n".join([*parts, "</svg>"]) + "\n"


def _text(x: float, y: float, text: str, anchor: str = "start") -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" fill="currentColor">{escape(text)}</text>'


def _cut(label: str, most: int = 30) -> str:
    return label if len(label) <= most else f"{label[: most - 1]}…"
