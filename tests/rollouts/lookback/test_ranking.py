"""Models ranked by their runs."""

from __future__ import annotations

from pathlib import Path
from random import Random
from statistics import NormalDist, fmean, stdev

import pytest

from nemo_gym.failures import ConfigError
from nemo_gym.rollouts.lookback.ranking import OVERALL, rank_runs
from tests.rollouts.lookback.many_runs import store_models
from tests.rollouts.stored_runs import rows_of_agents, scored_row, store

ABILITIES = {"small": 0.3, "large": 0.85, "other": 0.82}


def test_models_have_ranks_with_the_bounds_that_comparisons_leave(tmp_path: Path) -> None:
    ranking = rank_runs(store_models(tmp_path, ABILITIES))
    assert [model.label for model in ranking.models][-1] == "org/small"
    best, second, last = ranking.models
    assert [(model.rank.best, model.rank.worst) for model in (best, second, last)] == [(1, 2), (1, 2), (3, 3)]
    assert {pair.is_shown for pair in ranking.pairs if "org/small" in (pair.first, pair.second)} == {True}
    assert all(pair.adjusted >= pair.p_value for pair in ranking.pairs)
    assert best.intervals["quiz"].low < best.means["quiz"] < best.intervals["quiz"].high


def test_environments_weigh_the_same(tmp_path: Path) -> None:
    paths = []
    for model, (first, second) in {"a": (1.0, 0.0), "b": (0.0, 0.5)}.items():
        rows = [scored_row(task, reward=first, agent="x") for task in range(9)]
        rows += [scored_row(task, reward=second, agent="y") for task in range(9, 12)]
        paths.append(store(tmp_path / f"{model}.jsonl", rows))
    ranking = rank_runs(paths)
    assert ranking.environments == ["x", "y"]
    assert [model.means[OVERALL] for model in ranking.models] == [0.5, 0.25]
    assert {pair.environment for pair in ranking.pairs} == {"x", "y", OVERALL}


def test_regressions_are_named(tmp_path: Path) -> None:
    ranking = rank_runs(store_models(tmp_path, ABILITIES))
    (worse,) = ranking.regressions("org/large")
    assert {worse.first, worse.second} == {"org/small", "org/large"}
    assert ranking.regressions("org/small") == []
    assert ranking.as_json()["adjustment"] == "holm"


def test_equal_models_are_not_told_apart(tmp_path: Path) -> None:
    shown = 0
    for seed in range(20):
        folder = tmp_path / str(seed)
        folder.mkdir()
        ranking = rank_runs(store_models(folder, dict.fromkeys("abcde", 0.5), tasks=20, repeats=2, seed=seed))
        shown += any(pair.is_shown for pair in ranking.pairs)
    assert shown <= 4


def test_tasks_that_a_model_lacks_are_left_out_and_told(tmp_path: Path) -> None:
    one = store(tmp_path / "one.jsonl", [scored_row(task) for task in range(4)])
    other = store(tmp_path / "other.jsonl", [scored_row(task, reward=0.0) for task in range(2, 6)])
    ranking = rank_runs([one, other])
    assert ranking.pairs[0].tasks == 2
    assert any("2 of 4 tasks" in note for note in ranking.notes)


def test_nothing_to_rank_is_an_error(tmp_path: Path) -> None:
    one = store(tmp_path / "one.jsonl", [scored_row(0)])
    other = store(tmp_path / "other.jsonl", [scored_row(1)])
    with pytest.raises(ConfigError, match="has one agent"):
        rank_runs([one])
    with pytest.raises(ConfigError, match="no task has a score in all"):
        rank_runs([one, other])


def test_environments_with_the_same_tasks_are_not_taken_for_independent(tmp_path: Path) -> None:
    rng = Random(1)
    first = [[float(rng.random() < 0.6)] for _ in range(30)]
    second = [[float(rng.random() < 0.5)] for _ in range(30)]
    both = [
        store(tmp_path / f"{n}.jsonl", rows_of_agents({"x": r, "y": r}))
        for n, r in (("a", first), ("b", second))
    ]
    single = [
        store(tmp_path / f"{n}1.jsonl", rows_of_agents({"x": r})) for n, r in (("a", first), ("b", second))
    ]
    ranking = rank_runs(both, adjustment="none")
    (whole,) = [pair for pair in ranking.pairs if pair.environment == OVERALL]
    (alone,) = rank_runs(single, adjustment="none").pairs
    assert (whole.difference, whole.tasks) == (alone.difference, 30)
    difference = [one[0] - other[0] for one, other in zip(first, second, strict=True)]
    z = fmean(difference) / (stdev(difference) / 30**0.5)
    assert whole.p_value == pytest.approx(2 * NormalDist().cdf(-abs(z)))
    (best, _) = ranking.models
    own = max(([each[0] for each in run] for run in (first, second)), key=fmean)
    half = NormalDist().inv_cdf(0.975) * stdev(own) / 30**0.5
    assert best.intervals[OVERALL].high - best.means[OVERALL] == pytest.approx(half)


def test_equal_means_are_no_regression(tmp_path: Path) -> None:
    one = store(tmp_path / "a.jsonl", rows_of_agents({"x": [[1 / 3, 2 / 3], [0.1, 0.2]] * 4}))
    other = store(tmp_path / "b.jsonl", rows_of_agents({"x": [[0.5, 0.5], [0.2, 0.1]] * 4}))
    (pair,) = rank_runs([one, other]).pairs
    assert (pair.difference, pair.p_value) == (0.0, 1.0)
