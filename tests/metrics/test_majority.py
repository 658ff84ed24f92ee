import itertools
import random
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nemo_gym.metrics._majority import MAX_EXACT_VOTERS, majority_curve, majority_score

ballots = st.lists(
    st.tuples(st.sampled_from(["a", "b", "c", "d", None]), st.sampled_from([0.0, 0.25, 1.0])),
    min_size=1,
    max_size=8,
)


def curve_of(votes: Sequence[tuple[str | None, float]]) -> list[float]:
    return majority_curve([answer for answer, _ in votes], [score for _, score in votes], len(votes))


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
    assert majority_curve(["a", "b", "a"], [1.0, 0.0, 1.0], 3) == pytest.approx([2 / 3, 2 / 3, 1.0])


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
    curve = majority_curve(answers, scores, count)
    assert curve[0] == pytest.approx(0.75)
    assert curve[3] == curve[count - 1] == 1.0


def test_draws_beyond_the_rollouts_and_uneven_inputs_are_refused() -> None:
    with pytest.raises(ValueError, match="k=2 of 1"):
        majority_curve(["a"], [1.0], 2)
    with pytest.raises(ValueError, match="2 answers for 1 scores"):
        majority_curve(["a", "b"], [1.0], 1)
