import itertools
import math
import random
import re
from collections.abc import Sequence
from fractions import Fraction
from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nemo_gym.metrics._families import (
    MAX_EXACT_VOTERS,
    Planned,
    TaskScores,
    list_draws,
    majority_curve,
    majority_score,
    run_averages,
    score_families,
)


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


# --- majority@k -------------------------------------------------------------------------------------------------------


ballots = st.lists(
    st.tuples(st.sampled_from(["a", "b", "c", "d", None]), st.sampled_from([0.0, 0.25, 1.0])),
    min_size=1,
    max_size=8,
)


def curve_of(votes: Sequence[tuple[str | None, float]]) -> list[float]:
    return majority_curve(
        [answer for answer, _ in votes], [score for _, score in votes], range(1, len(votes) + 1)
    )


def vote_of(votes: Sequence[tuple[str | None, float]]) -> float:
    return majority_score([answer for answer, _ in votes], [score for _, score in votes])


def test_the_most_frequent_answer_wins_though_rarer_ones_score_higher() -> None:
    assert majority_score(["a", "b", "a", "c"], [0.0, 1.0, 0.0, 1.0]) == 0.0


def test_votes_count_by_answer_and_not_by_answer_and_score() -> None:
    # Split by score, "b" would win with two votes against "a"'s 1, 1 and 1.
    assert majority_score(["a", "a", "a", "b", "b"], [0.0, 0.5, 1.0, 0.0, 0.0]) == 0.5


def test_tied_answers_share_the_vote() -> None:
    assert majority_score(["a", "b", "b", "a"], [1.0, 0.0, 0.0, 1.0]) == 0.5


def test_rollouts_without_an_answer_do_not_vote() -> None:
    assert majority_score([None, None, "a"], [0.0, 0.0, 1.0]) == 1.0


def test_without_answers_the_vote_has_the_mean_score() -> None:
    assert majority_score([None, None], [0.0, 0.0]) == 0.0
    assert majority_score([None, None], [1.0, 1.0]) == 1.0


def test_majority_of_three_by_hand() -> None:
    # "a" right in 2 of 3: alone 2/3; in pairs aa, ab, ab = 1, 1/2, 1/2; together 1.
    assert majority_curve(["a", "b", "a"], [1.0, 0.0, 1.0], [1, 2, 3]) == pytest.approx([2 / 3, 2 / 3, 1.0])


@given(ballots)
def test_the_curve_equals_the_vote_over_all_subsets_when_equal_answers_score_alike(
    votes: list[tuple[str | None, float]],
) -> None:
    score_of = dict(votes)
    alike = [(answer, score_of[answer]) for answer, _ in votes]
    for k, value in enumerate(curve_of(alike), start=1):
        outcomes = [vote_of(subset) for subset in itertools.combinations(alike, k)]
        assert value == pytest.approx(sum(outcomes) / len(outcomes), abs=1e-12)


@given(ballots)
def test_the_curve_equals_the_vote_over_all_subsets_when_a_noisy_verifier_scores_answers_unlike(
    votes: list[tuple[str | None, float]],
) -> None:
    for k, value in enumerate(curve_of(votes), start=1):
        outcomes = [vote_of(subset) for subset in itertools.combinations(votes, k)]
        assert value == pytest.approx(sum(outcomes) / len(outcomes), abs=1e-12)


@given(ballots, st.randoms())
def test_the_curve_ignores_the_order_of_rollouts(
    votes: list[tuple[str | None, float]], shuffler: random.Random
) -> None:
    shuffled = votes[:]
    shuffler.shuffle(shuffled)
    assert curve_of(shuffled) == curve_of(votes)


def test_a_majority_above_one_half_grows_towards_certainty() -> None:
    right, wrong = [("a", 1.0)] * 39, [("b", 0.0)] * 25
    odd = curve_of(right + wrong)[::2]
    assert odd[0] == pytest.approx(39 / 64)
    assert all(later > earlier for earlier, later in itertools.pairwise(odd[:12]))
    assert odd[-1] == pytest.approx(1.0)


def test_beyond_the_exact_limit_blocks_of_rollouts_vote() -> None:
    count = MAX_EXACT_VOTERS + 4
    answers = ["a" if place % 4 else "b" for place in range(count)]
    scores = [1.0 if answer == "a" else 0.0 for answer in answers]
    curve = majority_curve(answers, scores, range(1, count + 1))
    assert curve[0] == pytest.approx(0.75)
    assert curve[3] == curve[count - 1] == 1.0


def test_thousands_of_rollouts_of_a_task_have_some_values_of_k() -> None:
    assert list_draws(3) == [1, 2, 3]
    assert list_draws(256) == [*range(1, 257)]
    assert list_draws(1500) == [*range(1, 257), 512, 1024, 1500]
    metrics = families(task(*[1.0, 0.0] * 1000), task(*[0.25] * 1024))
    assert {int(key[5:-7]) for key in metrics if re.fullmatch(r"pass@\d+/reward", key)} == {*list_draws(2000)}
    assert metrics["pass@1024/reward"] == 62.5
    assert metrics["pass@2000/reward"] == 100.0
    assert metrics["pass@1[avg-of-2000]/reward"] == 37.5
    assert metrics["short_tasks@2000/reward"] == 1


def test_draws_beyond_the_rollouts_and_uneven_inputs_are_refused() -> None:
    with pytest.raises(ValueError, match="k=2 of 1"):
        majority_curve(["a"], [1.0], [2])
    with pytest.raises(ValueError, match="2 answers for 1 scores"):
        majority_curve(["a", "b"], [1.0], [1])
