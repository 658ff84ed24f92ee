"""Runs × environments: the figures of a thousand random comparisons are those of an independent oracle."""

from __future__ import annotations

import random
import sys
from collections.abc import Mapping, Sequence
from fractions import Fraction
from functools import cache
from itertools import combinations
from math import sqrt
from pathlib import Path
from typing import Any

import mpmath
import orjson
import pytest

from nemo_gym.failures import ConfigError
from nemo_gym.rollouts.lookback.run_table import Cell, read_run_table
from tests.rollouts.doubles import AGENT
from tests.rollouts.lookback.many_runs import store_models
from tests.rollouts.stored_runs import failure_row, scored_row, store

Scores = dict[int, list[float]]
"""The scores of a run by task."""


@cache
def t_975(degrees: int) -> float:
    """The 97.5 % quantile of Student's t distribution, from the regularized incomplete beta function."""

    def missing(t: Any) -> Any:
        return mpmath.betainc(degrees / 2, 0.5, 0, degrees / (degrees + t * t), regularized=True) - 0.05

    return float(mpmath.findroot(missing, (1.5, 15.0), solver="anderson"))


def exact_mean(values: Sequence[float]) -> Fraction:
    return sum(map(Fraction, values), Fraction()) / len(values)


def best_of(scores: Sequence[float], k: int) -> Fraction:
    """The mean of the best of all choices of k scores: the definition of pass@k."""
    return exact_mean([max(chosen) for chosen in combinations(scores, k)])


def clustered(scores: Scores) -> tuple[float, float] | None:
    """The interval of the mean of all scores with tasks as clusters, by its formula in exact fractions."""
    every = [score for own in scores.values() for score in own]
    clusters = [own for own in scores.values() if own]
    if len(clusters) < 2:
        return None
    center, count = exact_mean(every), len(clusters)
    squares = sum((sum(Fraction(score) - center for score in own) ** 2 for own in clusters), Fraction())
    half = t_975(count - 1) * sqrt(squares * Fraction(count, count - 1)) / len(every)
    low, high = min(0.0, *every), max(1.0, *every)
    return max(low, float(center) - half), min(high, float(center) + half)


def check_cell(cell: Cell, scores: Scores, failed: int) -> None:
    every = [score for own in scores.values() for score in own]
    assert (cell.scored, cell.failed) == (len(every), failed)
    assert cell.is_pass is ({*every} <= {0.0, 1.0})
    if not every:
        assert (cell.mean, cell.low, cell.best_at) == (None, None, {})
        return
    assert cell.mean == pytest.approx(float(exact_mean(every)), abs=1e-12)
    bounds = clustered(scores)
    if bounds is None:
        assert cell.low is None
    else:
        width = bounds[1] - bounds[0]
        assert cell.low == pytest.approx(bounds[0], abs=0.003 * width + 1e-12)
        assert cell.high == pytest.approx(bounds[1], abs=0.003 * width + 1e-12)
    for k, value in cell.best_at.items():
        bests = [best_of(own, k) for own in scores.values() if len(own) >= k]
        assert value == pytest.approx(float(sum(bests) / len(bests)), abs=1e-11)
    assert max(cell.best_at) == max(map(len, scores.values()))
    sizes = [len(own) for own in scores.values() if own]
    assert cell.largest_k == max(
        k for k in cell.best_at if 2 * sum(size >= k for size in sizes) >= len(sizes)
    )


def paired(one: Scores, other: Scores) -> list[Fraction]:
    return [exact_mean(other[task]) - exact_mean(own) for task, own in one.items() if own and other.get(task)]


def make_scores(rng: random.Random, tasks: int, *, is_binary: bool) -> tuple[Scores, int]:
    """Random scores of up to four repeats, and the number of repeats that failed."""

    def choose() -> float:
        return float(rng.random() < 0.5) if is_binary else round(rng.uniform(-0.5, 1.5), 2)

    planned = {task: rng.randint(1, 4) for task in range(tasks) if rng.random() < 0.9}
    scores = {
        task: [choose() for _ in range(count) if rng.random() < 0.85] for task, count in planned.items()
    }
    return scores, sum(planned.values()) - sum(map(len, scores.values()))


def store_scores(path: Path, environments: Mapping[str, tuple[Scores, int]]) -> Path:
    rows, failures, offset = [], [], 0
    for agent, (scores, failed) in environments.items():
        for task, own in scores.items():
            rows += [scored_row(offset + task, k, score, agent=agent) for k, score in enumerate(own)]
        gaps = [(task, k) for task, own in scores.items() for k in range(len(own), 5)][:failed]
        failures += [failure_row(offset + task, k, agent=agent) for task, k in gaps]
        offset += 100
    return store(path, rows, failures)


def test_a_thousand_comparisons_equal_an_independent_oracle(tmp_path: Path) -> None:
    rng = random.Random(20261123)
    compared = 0
    while compared < 1000:
        environments = ("math", "shop", "quiz")[: rng.randint(1, 3)]
        runs = [
            {name: make_scores(rng, rng.randint(2, 6), is_binary=rng.random() < 0.5) for name in environments}
            for _ in range(rng.randint(2, 5))
        ]
        paths = [store_scores(tmp_path / f"{number}.jsonl", run) for number, run in enumerate(runs)]
        if any(not path.read_bytes() for path in paths):
            continue
        table = read_run_table(paths)
        for run, own in zip(table.runs, runs, strict=True):
            for name, (scores, failed) in own.items():
                if name in run.cells:
                    check_cell(run.cells[name], scores, failed)
        found = {(pair.environment, pair.before, pair.after): pair for pair in table.pairs}
        for name in environments:
            for (one, first), (other, second) in combinations(zip(table.runs, runs, strict=True), 2):
                differences = paired(first[name][0], second[name][0])
                pair = found.pop((name, one.label, other.label), None)
                assert (pair is None) is (not differences)
                if pair is None:
                    continue
                compared += 1
                assert pair.tasks == len(differences)
                assert pair.difference == pytest.approx(float(sum(differences) / len(differences)), abs=1e-12)
                bounds = unclipped({task: [float(each)] for task, each in enumerate(differences)})
                if bounds is None:
                    assert pair.low is None
                else:
                    assert (pair.low, pair.high) == pytest.approx(bounds, rel=0.003, abs=0.003)
        assert not found, "no pair is told that the oracle does not know"


def unclipped(scores: Scores) -> tuple[float, float] | None:
    """The interval of a mean of differences, which may have any size."""
    if len(scores) < 2:
        return None
    values = [own[0] for own in scores.values()]
    center, count = exact_mean(values), len(values)
    squares = sum(((Fraction(value) - center) ** 2 for value in values), Fraction())
    half = t_975(count - 1) * sqrt(squares / (count - 1) / count)
    return float(center) - half, float(center) + half


def test_runs_have_their_model_date_and_differing_keys(tmp_path: Path) -> None:
    paths = store_models(tmp_path, {"small": 0.2, "large": 0.9}, tasks=4, repeats=2)
    manifest = orjson.loads((tmp_path / "large_run.json").read_bytes())
    manifest["identity"]["responses_create_params"] = {"temperature": 0.5}
    manifest["starts"] = [{"started_at": "2026-01-01T00:00:00+00:00"}]
    (tmp_path / "large_run.json").write_bytes(orjson.dumps(manifest))
    table = read_run_table(paths)
    assert [run.label for run in table.runs] == ["org/small", "org/large"]
    assert [run.started_at for run in table.runs] == [None, "2026-01-01T00:00:00+00:00"]
    assert [(each.key, each.values) for each in table.differences] == [
        ("policy_model.responses_api_models.vllm_model.model", ("org/small", "org/large")),
        ("responses_create_params", ("(absent)", "(present)")),
    ]


def test_tokens_seconds_and_phases_are_means_of_rollouts(tmp_path: Path) -> None:
    timing = {"queue": 0.5, "verify": 1.0, "total": 4.0, "calls": [["m", "/v1/responses", 2.0]]}
    rows = [scored_row(task, _ng_timing=timing) for task in range(3)]
    for row in rows:
        row["response"]["usage"] = {"output_tokens": 10, "total_tokens": 30}
    (run,) = read_run_table([store(tmp_path / "out.jsonl", rows)]).runs
    (cell,) = run.cells.values()
    assert (cell.tokens, cell.seconds) == (30, 4.0)
    assert cell.phases == {"queue": 0.5, "model": 2.0, "tools": 0.0, "verify": 1.0}


def test_records_have_a_line_for_each_run_and_environment(tmp_path: Path) -> None:
    rows = [scored_row(0), scored_row(1, agent="another", reward=0.5)]
    records = read_run_table([store(tmp_path / "out.jsonl", rows)]).to_records()
    assert [
        (each["environment"], each["mean"], each.get("pass@1"), each.get("best@1")) for each in records
    ] == [
        ("another", 0.5, None, 0.5),
        (AGENT, 1.0, 1.0, None),
    ]


def test_without_pandas_the_remedy_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = read_run_table([store(tmp_path / "out.jsonl", [scored_row(0)])])
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(ConfigError, match="pandas is not installed"):
        table.to_pandas()


def test_another_number_than_the_reward_is_compared(tmp_path: Path) -> None:
    one = store(tmp_path / "one.jsonl", [scored_row(task, style=2.0) for task in range(3)])
    other = store(tmp_path / "other.jsonl", [scored_row(task, style=task) for task in range(3)])
    table = read_run_table([one, other], score="style")
    (pair,) = table.pairs
    assert (pair.difference, [run.cells[pair.environment].mean for run in table.runs]) == (-1.0, [2.0, 1.0])


def test_tasks_of_other_content_are_not_paired(tmp_path: Path) -> None:
    one = store(tmp_path / "one.jsonl", [scored_row(0)])
    other = store(tmp_path / "other.jsonl", [scored_row(7)])
    assert read_run_table([one, other]).pairs == ()
