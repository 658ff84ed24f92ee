"""A ranking as one HTML file for a model card: the table, the plot, and every difference beyond doubt."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from html import escape
from pathlib import Path

from nemo_gym.rollouts.lookback.rank_plot import draw_ranking
from nemo_gym.rollouts.lookback.ranking import OVERALL, RankedModel, Ranking, rank_runs
from nemo_gym.rollouts.output.atomic import write_atomically
from nemo_gym.rollouts.output.inputs import refuse_inputs
from nemo_gym.tables import write_number


def write_ranking(paths: Sequence[Path], output: Path) -> None:
    """Write the page of the runs with the scored rows `paths`. Raises `ConfigError` as `rank_runs` does."""
    refuse_inputs([output], paths)
    write_atomically(output, (part.encode() for part in render_ranking(rank_runs(paths))))


def render_ranking(ranking: Ranking) -> Iterator[str]:
    """Yield the text of the page. It has no script and makes no request."""
    yield '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
    yield '<meta http-equiv="Content-Security-Policy" content="default-src \'none\'">'
    yield '<meta name="viewport" content="width=device-width"><title>Ranking</title></head><body><h1>Ranking</h1>\n'
    yield draw_ranking(ranking)
    columns = [*([OVERALL] if len(ranking.environments) > 1 else []), *ranking.environments]
    titles = ["Model", "Rank", "Ranks left open", *columns, "Run's identity"]
    yield f"<table><tr>{''.join(f'<th>{escape(title)}</th>' for title in titles)}</tr>\n"
    for model in ranking.models:
        yield f"<tr>{''.join(f'<td>{escape(cell)}</td>' for cell in _cells(model, columns))}</tr>\n"
    yield "</table>\n"
    shown = [pair for pair in ranking.pairs if pair.is_shown]
    yield f"<p>{len(shown)} of {len(ranking.pairs)} differences are beyond doubt: p below 0.05 after the adjustment "
    yield f"<code>{escape(ranking.adjustment)}</code>.</p>\n<ul>"
    for pair in shown:
        better, worse = (pair.first, pair.second) if pair.difference > 0 else (pair.second, pair.first)
        size = f"by {write_number(abs(pair.difference))} (p = {pair.adjusted:.2g})"
        yield f"<li>{escape(f'{pair.environment}: {better} is better than {worse} {size}')}</li>"
    yield f"</ul>\n{''.join(f'<p>{escape(note)}</p>' for note in ranking.notes)}</body></html>\n"


def _cells(model: RankedModel, columns: Sequence[str]) -> Iterator[str]:
    yield model.label
    yield str(model.rank.rank)
    yield f"{model.rank.best} to {model.rank.worst}"
    for name in columns:
        interval = model.intervals.get(name)
        limits = f" ({write_number(interval.low)} to {write_number(interval.high)})" if interval else ""
        yield f"{write_number(model.means[name])}{limits}"
    yield model.identity or "-"
