import math
from fractions import Fraction
from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nemo_gym.metrics._families import Planned, TaskScores, run_averages, score_families


def task(*scores: float, answers: list[str | None] | None = None) -> TaskScores:
    return TaskScores(scores=scores, runs=range(len(scores)), answers=answers)


def families(*tasks: TaskScores, planned: Planned | None = None) -> dict[str, float]:
    max_k = max(len(t.scores) for t in tasks)
    seen = Planned(tasks=len(tasks), rollouts=sum(len(t.scores) for t in tasks))
    return score_families("reward", iter(tasks), planned=planned or seen, max_k=max_k)


def test_families_of_two_tasks_by_hand() -> None:
    metrics = families(task(1.0, 0.0), task(0.0, 0.0))
    assert metrics["pass@1/reward"] == 25.0
    assert metrics["pass@2/reward"] == 50.0
    assert metrics["pass@1[avg-of-1]/reward"] == 50.0
    assert metrics["pass@1[avg-of-2]/reward"] == 25.0
    assert metrics["coverage/reward"] == 100.0
    assert not any(key.startswith(("majority", "short_tasks")) for key in metrics)


def test_errors_across_tasks_treat_each_task_as_one_observation() -> None:
    metrics = families(task(1.0, 0.0), task(0.0, 0.0))
    assert metrics["pass@2/reward/std_err_across_tasks"] == pytest.approx(50.0)
    assert metrics["pass@1[avg-of-2]/reward/std_err_across_tasks"] == pytest.approx(25.0)
    assert "pass@1/reward/std_err_across_tasks" not in families(task(1.0, 0.0))


def test_spread_across_runs_is_that_of_the_runs_means() -> None:
    metrics = families(task(1.0, 0.0, 1.0), task(1.0, 0.0, 0.0))
    assert run_averages([task(1.0, 0.0, 1.0), task(1.0, 0.0, 0.0)]) == [100.0, 0.0, 50.0]
    assert metrics["pass@1[avg-of-3]/reward/std_dev_across_runs"] == pytest.approx(50.0)
    assert metrics["pass@1[avg-of-3]/reward/std_err_across_runs"] == pytest.approx(50.0 / math.sqrt(3))
    assert "pass@1[avg-of-1]/reward/std_dev_across_runs" not in metrics


def test_tasks_with_too_few_rollouts_are_counted_beside_the_metric() -> None:
    metrics = families(task(1.0, 0.0, 0.0), task(1.0), task(), planned=Planned(tasks=4, rollouts=10))
    assert metrics["pass@3/reward"] == 100.0
    assert metrics["pass@1/reward"] == pytest.approx(100.0 * (1 / 3 + 1) / 2)
    assert [metrics[f"short_tasks@{k}/reward"] for k in (1, 2, 3)] == [2, 3, 3]
    assert metrics["coverage/reward"] == 40.0


def test_averages_are_over_all_scores_where_a_task_has_fewer_than_k() -> None:
    metrics = families(task(1.0, 0.0), task(0.5))
    assert metrics["pass@1[avg-of-2]/reward"] == 50.0
    assert metrics["short_tasks@2/reward"] == 1


def test_majority_comes_with_answers() -> None:
    metrics = families(
        task(1.0, 0.0, 1.0, answers=["a", "b", "a"]), task(0.0, 0.0, 0.0, answers=[None, None, None])
    )
    assert metrics["majority@1/reward"] == pytest.approx(100 / 3)
    assert metrics["majority@3/reward"] == pytest.approx(50.0)


def test_halves_are_halves_to_the_last_digit() -> None:
    metrics = families(task(1.0, 0.0, 0.0), task(1.0, 0.0, 1.0))
    assert metrics["pass@1[avg-of-3]/reward"] == metrics["pass@1/reward"] == 50.0
    assert run_averages([task(1.0), task(0.0), task(0.0), task(1.0)]) == [50.0]
    assert families(*[task(0.1, 0.1, 0.1)] * 7)["pass@1[avg-of-3]/reward"] == pytest.approx(10.0)


def _to_12_digits(exact: Fraction | float) -> float:
    return float(f"{float(exact):.12g}")


@given(st.lists(st.lists(st.sampled_from([0.0, 1.0, 2.0]), min_size=1, max_size=8), min_size=1, max_size=4))
def test_whole_scores_are_averaged_to_12_digits(scores: list[list[float]]) -> None:
    metrics = families(*(task(*of_task) for of_task in scores))
    for k in range(1, max(map(len, scores)) + 1):
        averages = [Fraction(sum(map(int, of_task[:k])), len(of_task[:k])) for of_task in scores]
        assert metrics[f"pass@1[avg-of-{k}]/reward"] == _to_12_digits(100 * sum(averages) / len(averages))
        bests = [
            Fraction(sum(int(max(drawn)) for drawn in combinations(of_task, k)), math.comb(len(of_task), k))
            for of_task in scores
            if len(of_task) >= k
        ]
        assert metrics[f"pass@{k}/reward"] == _to_12_digits(100 * sum(bests) / len(bests))
