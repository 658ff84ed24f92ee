"""Wealths of bets: never overstated, and fair under a true claim."""

from __future__ import annotations

import math
import random

import pytest

from nemo_gym.statistics.betting import (
    MOST_AT_STAKE,
    MeanClaims,
    RecalculatedBets,
    ScoreSums,
    SteadyBets,
    bound_curvature,
    find_urgency,
)


def sums_of(scores: list[float], lowest: float) -> ScoreSums:
    sums = ScoreSums(lowest, max(1.0, *scores), 0.25)
    for score in scores:
        sums.add(score)
    return sums


@pytest.mark.parametrize("reach", [0.01, 0.05, 0.2, 0.5, MOST_AT_STAKE])
def test_the_polynomial_is_below_the_logarithm(reach: float) -> None:
    curvature = bound_curvature(reach)
    for step in range(2001):
        y = -reach + step * (3 + reach) / 2000
        assert y - y**2 / 2 + y**3 / 3 - curvature * y**4 <= math.log1p(y) + 1e-15


def test_a_gain_is_slightly_below_the_exact_one() -> None:
    rng = random.Random(0)
    scores = [rng.uniform(-0.5, 1.5) for _ in range(1000)]
    for stake in (0.02, 0.1, 0.3):
        exact = math.fsum(math.log1p(stake * (score - 0.4)) for score in scores)
        gain = sums_of(scores, -0.5).gain(0.4, stake)
        assert gain <= exact
        assert gain == pytest.approx(exact, abs=0.02 * abs(exact))


def test_no_stake_exceeds_what_a_score_may_cost_or_add() -> None:
    scores = ScoreSums(lowest=-1.0, highest=2.0, variance=0.25)
    assert scores.limit_stake(0.5) == pytest.approx(MOST_AT_STAKE / 1.5)
    assert scores.limit_stake(0.9) == pytest.approx(MOST_AT_STAKE / 1.9)
    assert scores.limit_stake(0.01) == pytest.approx(1 / 1.99)


def test_no_stake_gains_nothing() -> None:
    assert sums_of([0.3, 0.9], 0.0).gain(0.5, 0.0) == 0


def test_the_urgency_is_the_normal_hazard() -> None:
    assert find_urgency(math.log(0.5)) == pytest.approx(math.sqrt(2 / math.pi))
    assert find_urgency(math.log(0.025)) == pytest.approx(2.3378, abs=1e-4)
    assert find_urgency(-1000.0) == find_urgency(-100.0)
    assert find_urgency(0.0) < 0.01


def test_a_gambler_who_has_lost_much_bets_less() -> None:
    bets = RecalculatedBets(aim=0.01, left=100.0, start=math.log(0.025))
    assert bets(math.log(0.025), 0.1) == pytest.approx(1.3 * 0.01 / 0.1)
    assert bets(-9.0, 0.1) == pytest.approx(0.9 * 0.01 / 0.1)
    assert bets(math.log(0.99), 0.1) < bets(math.log(0.025), 0.1)


def test_claims_below_the_mean_are_rejected_and_those_above_are_not() -> None:
    claims = MeanClaims([point / 100 for point in range(101)], 0.025)
    for _ in range(200):
        claims.bet([sums_of([0.0, 1.0, 1.0], 0.0)], [SteadyBets(0.1)], 1.0)
    assert 0.55 < claims.low < 2 / 3


def test_a_claim_without_a_bet_against_it_stays() -> None:
    claims = MeanClaims([0.0, 0.25, 0.5], 0.025)
    for _ in range(100):
        claims.bet([sums_of([1.0] * 5, 0.0)], [SteadyBets(0.3)], 0.3)
    assert claims.low == 0.25


def test_a_true_claim_is_rejected_as_rarely_as_promised() -> None:
    rng = random.Random(1)
    rejected = 0
    for _ in range(400):
        claims = MeanClaims([0.5], 0.1)
        for _ in range(40):
            batch = sums_of([float(rng.random() < 0.5) for _ in range(10)], 0.0)
            claims.bet([batch], [SteadyBets(0.1)], 1.0)
        rejected += claims.limit
    assert rejected <= 55  # of 40 expected at most


def test_gamblers_share_the_wealth() -> None:
    alone, shared = MeanClaims([0.2], 0.05), MeanClaims([0.2], 0.05, [0.5, 0.5])
    looks = [0, 0]
    for number, (claims, bettors) in enumerate(
        [(alone, [SteadyBets(0.2)]), (shared, [SteadyBets(0.2), SteadyBets(0.0)])]
    ):
        while not claims.limit:
            claims.bet([sums_of([0.0, 1.0, 1.0], 0.0)], bettors, 1.0)
            looks[number] += 1
    assert looks[0] < looks[1]
