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
from nemo_gym.rollouts.lookback.comparison import compare
from nemo_gym.rollouts.lookback.run_table import Cell, RunTable, read_run_table
from tests.rollouts.doubles import AGENT, task_row
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


def interval_of(clusters: Sequence[Sequence[Fraction]]) -> tuple[float, float] | None:
    """The interval of the mean of all values of clusters, in exact fractions; None below two or without a spread."""
    every = [value for own in clusters for value in own]
    if len(clusters) < 2:
        return None
    center, count = sum(every, Fraction()) / len(every), len(clusters)
    squares = sum((sum((value - center for value in own), Fraction()) ** 2 for own in clusters), Fraction())
    if not squares:
        return None
    half = t_975(count - 1) * sqrt(squares * Fraction(count, count - 1)) / len(every)
    return float(center) - half, float(center) + half


def clustered(scores: Scores) -> tuple[float, float] | None:
    """The interval of the mean of all scores with tasks as clusters, between the least and the largest possible one."""
    every = [score for own in scores.values() for score in own]
    bounds = interval_of([[Fraction(score) for score in own] for own in scores.values() if own])
    return None if bounds is None else (max(bounds[0], min(0.0, *every)), min(bounds[1], max(1.0, *every)))


def check_interval(low: float | None, high: float | None, bounds: tuple[float, float] | None) -> None:
    """The quantiles of Student's t are approximated to 0.2 %."""
    if bounds is None:
        assert low is None
        assert high is None
        return
    tolerance = 0.003 * (bounds[1] - bounds[0]) + 1e-12
    assert low == pytest.approx(bounds[0], abs=tolerance)
    assert high == pytest.approx(bounds[1], abs=tolerance)


def check_cell(cell: Cell, scores: Scores, failed: int) -> None:
    every = [score for own in scores.values() for score in own]
    assert (cell.scored, cell.failed) == (len(every), failed)
    assert cell.is_pass is ({*every} <= {0.0, 1.0})
    if not every:
        assert (cell.mean, cell.low, cell.best_at) == (None, None, {})
        return
    assert cell.mean == pytest.approx(float(exact_mean(every)), abs=1e-12)
    check_interval(cell.low, cell.high, clustered(scores))
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
                check_interval(pair.low, pair.high, interval_of([[each] for each in differences]))
        assert not found, "no pair is told that the oracle does not know"
        check_other_forms(table, runs)
        every = [each for name in environments for each in paired(runs[0][name][0], runs[1][name][0])]
        both = compare(paths[0], paths[1])
        assert len(both.pairs) == len(every)
        if every:
            assert both.difference == pytest.approx(float(sum(every) / len(every)), abs=1e-12)


def check_other_forms(table: RunTable, runs: Sequence[Mapping[str, tuple[Scores, int]]]) -> None:
    """The JSON of the page and the records of a data frame have the means and best scores of the oracle."""
    shown = orjson.loads(orjson.dumps(table.to_json(), option=orjson.OPT_NON_STR_KEYS))
    records = {(each["run"], each["environment"]): each for each in table.to_records()}
    for run, told, own in zip(table.runs, shown["runs"], runs, strict=True):
        for name in told["cells"]:
            scores = own[name][0]
            every = [score for one in scores.values() for score in one]
            record = records.pop((run.label, name))
            for form in (told["cells"][name], record):
                assert form["scored"] == len(every)
                assert form["mean"] == (pytest.approx(float(exact_mean(every)), abs=1e-12) if every else None)
            family = "pass" if {*every} <= {0.0, 1.0} else "best"
            best = {f"{family}@{k}": value for k, value in told["cells"][name]["best_at"].items()}
            assert best == {key: value for key, value in record.items() if "@" in key}
    assert not records


def store_copies(path: Path, copies: Mapping[int, Sequence[Sequence[float]]]) -> Path:
    """Store a run whose tasks repeat contents: by content the scores of each of its copies, failed ones without any."""
    rows, failures, sent = [], [], []
    places = [(content, own) for content, each in copies.items() for own in each]
    for task, (content, own) in enumerate(places):
        rows += [scored_row(task, k, score, **task_row(content)) for k, score in enumerate(own)]
        failures += [] if own else [failure_row(task)]
        sent.append({"_ng_task_index": task, "_ng_rollout_index": 0, **task_row(content)})
    store(path, rows, failures, tasks=False)
    inputs = path.with_name(f"{path.stem}_materialized_inputs.jsonl")
    inputs.write_bytes(b"".join(orjson.dumps(row) + b"\n" for row in sent))
    return path


def test_comparisons_of_runs_with_copies_of_tasks_equal_the_oracle(tmp_path: Path) -> None:
    rng = random.Random(20261128)
    uneven = 0
    for number in range(150):
        contents = range(rng.randint(2, 5))
        counts = {content: rng.randint(1, 3) for content in contents}
        runs = []
        for _ in range(2):
            own = counts if rng.random() < 0.5 else {content: rng.randint(1, 3) for content in contents}
            draw = [[rng.random() for _ in range(rng.randint(0, 3))] for _ in range(sum(own.values()))]
            runs.append({content: [draw.pop() for _ in range(own[content])] for content in contents})
        if not all(any(scores for each in run.values() for scores in each) for run in runs):
            continue
        paths = [store_copies(tmp_path / f"{number}_{place}.jsonl", run) for place, run in enumerate(runs)]
        table = read_run_table(paths)
        for told, run in zip(table.runs, runs, strict=True):
            (cell,) = told.cells.values()
            joined = {content: [score for own in each for score in own] for content, each in run.items()}
            assert cell.tasks == sum(map(len, run.values()))
            check_interval(cell.low, cell.high, clustered(joined))
        clusters = [pair_copies(runs[0][content], runs[1][content]) for content in contents]
        uneven += sum(len(runs[0][content]) != len(runs[1][content]) for content in contents)
        differences = [each for own in clusters for each in own]
        if not differences:
            assert table.pairs == ()
            continue
        (pair,) = table.pairs
        assert pair.tasks == len(differences)
        assert pair.difference == pytest.approx(float(sum(differences) / len(differences)), abs=1e-12)
        check_interval(pair.low, pair.high, interval_of([own for own in clusters if own]))
    assert uneven > 100


def pair_copies(one: Sequence[Sequence[float]], other: Sequence[Sequence[float]]) -> list[Fraction]:
    """The differences of a content's copies in two runs: each with its own, or all together if they are not as many."""
    if len(one) != len(other):
        one, other = [[[score for own in each for score in own]] for each in (one, other)]
    return [
        exact_mean(second) - exact_mean(first)
        for first, second in zip(one, other, strict=True)
        if first and second
    ]


def test_a_choice_of_runs_has_the_table_of_these_alone(tmp_path: Path) -> None:
    paths = store_models(tmp_path, {"small": 0.2, "middle": 0.5, "large": 0.9}, tasks=6, repeats=2)
    table = read_run_table(paths)
    for places in ((0, 1), (2, 0), (1, 2)):
        alone = read_run_table([paths[place] for place in sorted(places)])
        assert table.select(places).to_json() == alone.to_json()


def test_runs_have_their_model_date_and_differing_keys(tmp_path: Path) -> None:
    paths = store_models(tmp_path, {"small": 0.2, "large": 0.9}, tasks=4, repeats=2)
    manifest = orjson.loads((tmp_path / "large_run.json").read_bytes())
    manifest["identity"]["responses_create_params"] = {"temperature": 0.5}
    manifest["starts"] = [{"started_at": "2026-01-01T00:00:00+00:00", "settings": {"tags": ["nightly"]}}]
    (tmp_path / "large_run.json").write_bytes(orjson.dumps(manifest))
    table = read_run_table(paths)
    assert [run.label for run in table.runs] == ["org/small", "org/large"]
    assert [run.started_at for run in table.runs] == [None, "2026-01-01T00:00:00+00:00"]
    small, large = table.to_records()
    assert (small["model"], small["tags"], "sampling/temperature" in small) == ("org/small", None, False)
    assert (large["tags"], large["sampling/temperature"]) == ("nightly", 0.5)
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
