"""`ng_rank`: rank models by their runs, with all differences adjusted for their number."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from pydantic import Field

from nemo_gym.cli.command import EXIT_CODES, Command, ExitCode, Keys

if TYPE_CHECKING:
    from nemo_gym.rollouts.lookback.ranking import ComparedPair, RankedModel, Ranking


class RankKeys(Keys):
    runs: str | list[str] = Field(
        description="The scored rows of the models' runs; or one run of several agents on the same tasks."
    )
    score: str | None = Field(None, description="The number of a row to compare; by default the reward.")
    adjust: Literal["holm", "bonferroni", "benjamini-hochberg", "none"] = Field(
        "holm", description="The adjustment for the number of comparisons."
    )
    baseline: str | None = Field(
        None, description="The run (file) of which regressions are named; exit with 1 if there is one."
    )
    plot: str | None = Field(None, description="A file for the plot (SVG).")
    markdown: bool = Field(False, description="Print Markdown, for a model card.")
    as_json: bool = Field(False, alias="json", description="Print JSON.")


COMMAND = Command(
    name="ng_rank",
    summary="Rank models by their runs: means, ranks with intervals, differences beyond doubt, regressions.",
    example="ng_rank +runs=[results/small.jsonl,results/large.jsonl] +plot=ranks.svg",
    keys=RankKeys,
    exit_codes={**EXIT_CODES, ExitCode.FATAL: "failed, or a model is worse than the baseline"},
)


def rank(keys: RankKeys) -> int:
    from nemo_gym.cli.command import several
    from nemo_gym.failures import ConfigError
    from nemo_gym.rollouts.lookback.rank_plot import draw_ranking
    from nemo_gym.rollouts.lookback.ranking import rank_runs
    from nemo_gym.rollouts.lookback.score_tables import read_tables
    from nemo_gym.rollouts.output.atomic import write_atomically
    from nemo_gym.rollouts.output.inputs import refuse_inputs

    paths = [Path(path) for path in several(keys.runs)]
    if keys.baseline is not None and Path(keys.baseline) not in paths:
        raise ConfigError(
            f"+baseline={keys.baseline} is none of the runs",
            code="baseline",
            remedy=f"Name one of {', '.join(map(str, paths))}.",
        )
    if keys.plot is not None:
        refuse_inputs([Path(keys.plot)], paths)
    ranking = rank_runs(paths, score=keys.score, adjustment=keys.adjust)
    worse: list[ComparedPair] = []
    if keys.baseline is not None:
        labels = {table.path: table.label for table in read_tables(paths, keys.score)}
        worse = ranking.regressions(labels[Path(keys.baseline)])
    if keys.plot is not None:
        write_atomically(Path(keys.plot), draw_ranking(ranking).encode())
    if keys.as_json:
        print(json.dumps({**ranking.as_json(), "regressions": [vars_of(pair) for pair in worse]}, indent=2))
    else:
        for line in _describe(ranking, worse, keys):
            print(line)
    return ExitCode.FATAL if worse else ExitCode.COMPLETE


def vars_of(pair: ComparedPair) -> dict[str, object]:
    """Return a comparison as JSON."""
    from dataclasses import asdict

    return asdict(pair)


def _describe(ranking: Ranking, worse: list[ComparedPair], keys: RankKeys) -> Iterator[str]:
    from nemo_gym.tables import Column, table_lines, terminal_width

    titles, rows = _titles(ranking), [list(_cells(model, ranking)) for model in ranking.models]
    if keys.markdown:
        yield f"| {' | '.join(titles)} |"
        yield f"|{'---|' * len(titles)}"
        yield from (f"| {' | '.join(row)} |" for row in rows)
    else:
        columns = [Column(title, is_number=number > 0) for number, title in enumerate(titles)]
        yield from (line.plain for line in table_lines(columns, rows, terminal_width()))
    yield ""
    shown = [pair for pair in ranking.pairs if pair.is_shown]
    yield (
        f"{len(shown)} of {len(ranking.pairs)} differences are beyond doubt (p < 0.05 after the adjustment "
        f"`{ranking.adjustment}`)."
    )
    yield from (f"- {_tell(pair)}" for pair in shown)
    if keys.baseline is not None:
        yield "" if worse else "No regression is shown."
        yield from (f"regression: {_tell(pair)}" for pair in worse)
    yield from (f"note: {note}" for note in ranking.notes)
    yield "Ranks: the first and the last that the differences beyond doubt leave."


def _titles(ranking: Ranking) -> list[str]:
    overall = ["overall"] if len(ranking.environments) > 1 else []
    return ["model", "rank", *overall, *ranking.environments, "run"]


def _cells(model: RankedModel, ranking: Ranking) -> Iterator[str]:
    from nemo_gym.tables import write_number

    yield model.label
    span = model.rank
    yield str(span.rank) if span.best == span.worst else f"{span.rank} ({span.best}-{span.worst})"
    for name in _titles(ranking)[2:-1]:
        interval = model.intervals.get(name)
        half = f" ±{write_number((interval.high - interval.low) / 2)}" if interval else ""
        yield f"{write_number(model.means[name])}{half}"
    yield model.identity or "-"


def _tell(pair: ComparedPair) -> str:
    from nemo_gym.tables import write_number

    better, other = (pair.first, pair.second) if pair.difference > 0 else (pair.second, pair.first)
    return (
        f"{pair.environment}: {better} is better than {other} by {write_number(abs(pair.difference))} "
        f"(p = {pair.adjusted:.2g}, {pair.tasks:,} tasks)"
    )


main = COMMAND.entry_point(rank)
