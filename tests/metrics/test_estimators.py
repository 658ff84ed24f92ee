import itertools
import math
import random
from fractions import Fraction
from statistics import fmean, stdev

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from nemo_gym.metrics.estimators import (
    Clusters,
    compute_clustered_standard_error,
    compute_error_of_average,
    compute_expected_max_at_k,
    compute_expected_max_curve,
    confidence_interval,
    finite,
    mean,
    pass_at_k,
    sample_standard_deviation,
    student_t_975,
    subtract,
)

score_lists = st.lists(st.floats(min_value=-5, max_value=5), min_size=1, max_size=8)


def best_of_all_subsets(scores: list[float], k: int) -> float:
    bests = [max(subset) for subset in itertools.combinations(scores, k)]
    return sum(bests) / len(bests)


def test_tasks_without_a_sample_are_no_clusters() -> None:
    clusters = Clusters([[1.0, 2.0], [], [3.0]])
    assert [list(cluster) for cluster in clusters] == [[1.0, 2.0], [3.0]]
    assert (len(clusters), list(clusters.samples)) == (2, [1.0, 2.0, 3.0])


def test_pass_at_k_of_known_values() -> None:
    assert pass_at_k(4, 1, 1) == 0.25
    assert pass_at_k(4, 1, 2) == 0.5
    assert pass_at_k(4, 2, 2) == pytest.approx(5 / 6)
    assert pass_at_k(4, 2, 3) == 1.0
    assert pass_at_k(4, 0, 4) == 0.0


def test_pass_at_k_equals_enumeration() -> None:
    for samples in range(1, 9):
        for correct in range(samples + 1):
            scores = [1.0] * correct + [0.0] * (samples - correct)
            for k in range(1, samples + 1):
                assert pass_at_k(samples, correct, k) == pytest.approx(best_of_all_subsets(scores, k))


def test_pass_at_k_of_many_samples_neither_overflows_nor_loses_digits() -> None:
    assert pass_at_k(5000, 1, 2500) == pytest.approx(0.5)
    assert compute_expected_max_at_k([1.0] + [0.0] * 4999, 2500) == pytest.approx(0.5)


def test_expected_max_of_known_values() -> None:
    # Pairs of (1, 2, 4): best 2, 4, 4.
    assert compute_expected_max_curve([4.0, 1.0, 2.0], 3) == pytest.approx([7 / 3, 10 / 3, 4.0])


@given(score_lists)
def test_expected_max_equals_enumeration(scores: list[float]) -> None:
    expected = [best_of_all_subsets(scores, k) for k in range(1, len(scores) + 1)]
    assert compute_expected_max_curve(scores, len(scores)) == pytest.approx(expected, abs=1e-9)


def test_expected_max_of_thousands_of_distinct_scores_is_exact() -> None:
    scores = [place / 1500 - 0.5 for place in range(1500)]
    curve = compute_expected_max_curve(scores, 1500)
    for k in (1, 7, 400, 1499, 1500):
        draws = [Fraction(math.comb(place, k - 1), math.comb(1500, k)) for place in range(1500)]
        exact = sum(share * Fraction(score) for share, score in zip(draws, scores, strict=True))
        assert curve[k - 1] == pytest.approx(float(exact), rel=1e-12)


@given(st.lists(st.booleans(), min_size=1, max_size=40))
def test_expected_max_of_binary_scores_is_pass_at_k(passed: list[bool]) -> None:
    for k in range(1, len(passed) + 1):
        expected = pass_at_k(len(passed), sum(passed), k)
        assert compute_expected_max_at_k([float(p) for p in passed], k) == pytest.approx(expected, abs=1e-12)


@given(score_lists, st.randoms())
def test_expected_max_ignores_the_order_of_scores(scores: list[float], shuffler: random.Random) -> None:
    shuffled = scores[:]
    shuffler.shuffle(shuffled)
    assert compute_expected_max_curve(shuffled, len(scores)) == compute_expected_max_curve(
        scores, len(scores)
    )


@given(score_lists)
def test_expected_max_grows_with_k_from_the_mean_to_the_maximum(scores: list[float]) -> None:
    curve = compute_expected_max_curve(scores, len(scores))
    assert curve[0] == pytest.approx(fmean(scores), abs=1e-9)
    assert curve[-1] == pytest.approx(max(scores), abs=1e-9)
    assert all(later >= earlier - 1e-9 for earlier, later in itertools.pairwise(curve))


def test_equal_scores_stay_exact() -> None:
    assert compute_expected_max_curve([0.1] * 7, 7) == [0.1] * 7


@pytest.mark.parametrize("k", [0, 4, -1])
def test_draws_beyond_the_samples_are_refused(k: int) -> None:
    with pytest.raises(ValueError, match=f"k={k} of 3"):
        pass_at_k(3, 1, k)
    with pytest.raises(ValueError, match=f"k={k} of 3"):
        compute_expected_max_at_k([0.0, 1.0, 1.0], k)


def test_more_correct_than_samples_is_refused() -> None:
    with pytest.raises(ValueError, match="4 correct of 3"):
        pass_at_k(3, 4, 1)


def test_spread_of_known_values() -> None:
    assert sample_standard_deviation([1.0, 2.0, 6.0]) == pytest.approx(math.sqrt(7))
    assert sample_standard_deviation([1.0]) is None


@given(st.lists(st.floats(min_value=-5, max_value=5), min_size=2, max_size=8))
def test_spread_is_that_of_the_standard_library(values: list[float]) -> None:
    assert sample_standard_deviation(values) == pytest.approx(stdev(values), abs=1e-12)


@given(st.floats(min_value=-1e308, max_value=1e308), st.integers(2, 400))
@example(0.1, 3)
@example(0.3, 109)
@example(1e308, 3)
def test_equal_values_have_their_value_as_mean_and_no_spread(value: float, count: int) -> None:
    values = [value] * count
    assert (mean(values), sample_standard_deviation(values)) == (value, 0.0)
    assert compute_clustered_standard_error([values, [value]]) == 0.0
    assert compute_error_of_average([{0: values, 1: [value]}, {1: values, 2: [value]}]) == 0.0


def test_clustered_error_of_one_sample_per_task_is_the_ordinary_one() -> None:
    values = [0.0, 1.0, 1.0, 0.5]
    spread = sample_standard_deviation(values)
    assert spread is not None
    assert compute_clustered_standard_error([[value] for value in values]) == pytest.approx(spread / 2)


def test_copies_of_a_sample_within_its_task_do_not_shrink_the_error() -> None:
    once = compute_clustered_standard_error([[0.0], [1.0], [1.0]])
    thrice = compute_clustered_standard_error([[0.0] * 3, [1.0] * 3, [1.0] * 3])
    assert once == pytest.approx(thrice)


def test_clustered_error_of_unequal_tasks_by_hand() -> None:
    # Mean 1/2; sums of deviations 1 (two ones), -1/2, -1/2; sqrt(3/2 * 3/2) / 4.
    assert compute_clustered_standard_error([[1.0, 1.0], [0.0], [0.0], []]) == pytest.approx(0.375)


@pytest.mark.parametrize("clusters", [[], [[]], [[1.0, 0.0]], [[1.0, 0.0], []]])
def test_error_over_fewer_than_two_tasks_does_not_exist(clusters: list[list[float]]) -> None:
    assert compute_clustered_standard_error(clusters) is None


@pytest.mark.parametrize(
    ("degrees", "quantile"),
    [(1, 12.7062), (2, 4.3027), (3, 3.1824), (4, 2.7764), (9, 2.2622), (29, 2.0452), (10_000, 1.9602)],
)
def test_student_quantile_agrees_with_the_tables(degrees: int, quantile: float) -> None:
    assert student_t_975(degrees) == pytest.approx(quantile, rel=2e-3)


def test_interval_is_student_t_around_the_estimate() -> None:
    interval = confidence_interval(0.5, 0.1, clusters=10)
    assert (interval.low, interval.high) == pytest.approx((0.5 - 0.22622, 0.5 + 0.22622), abs=1e-4)
    with pytest.raises(ValueError, match="two tasks"):
        confidence_interval(0.5, 0.1, clusters=1)


def test_interval_covers_the_truth_about_19_times_in_20() -> None:
    dice = random.Random(20240521)
    covered = 0
    for _ in range(400):
        tasks = [(dice.random(), 4) for _ in range(25)]  # A task's chance of success is uniform: mean 1/2.
        clusters = [[float(dice.random() < chance) for _ in range(k)] for chance, k in tasks]
        error = compute_clustered_standard_error(clusters)
        assert error is not None
        interval = confidence_interval(
            fmean([v for cluster in clusters for v in cluster]), error, clusters=25
        )
        covered += interval.low <= 0.5 <= interval.high
    assert 0.92 <= covered / 400 <= 0.98


LARGE = [1e308, -1e308, 1e308]


def test_values_whose_sum_is_beyond_the_floats_have_a_mean_and_a_spread() -> None:
    assert mean([1e308, 1e308]) == 1e308
    assert mean([1.0, 2.0]) == 1.5
    assert sample_standard_deviation(LARGE) == pytest.approx(1.1547e308, rel=1e-4)
    assert compute_clustered_standard_error([LARGE, LARGE]) is not None


def test_metrics_beyond_the_floats_are_left_out() -> None:
    assert finite({"a": math.inf, "b": math.nan, "c": 1.0, "d": 3}) == {"c": 1.0, "d": 3}


@pytest.mark.parametrize(
    ("one", "other", "difference"),
    [
        (0.7, 0.8, -0.1),
        (0.1 + 0.2, 0.3, 0.0),
        (1e-300, 3e-300, -2e-300),
        (1e300, 0.0, 1e300),
        (0.0, 0.0, 0.0),
        (0.5 + 1e-13, 0.5, 1e-13),
    ],
)
def test_a_difference_has_no_rounding_error(one: float, other: float, difference: float) -> None:
    assert subtract(one, other) == difference
    assert subtract(other, one) == -difference
