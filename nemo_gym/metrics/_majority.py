"""majority@k: the exact expected score of a vote among k of a task's rollouts, independent of their order.

Rollouts vote by their answer alone. The answer with the most votes wins; tied winners share the vote equally. An
answer's score is the mean score of the task's rollouts that gave it. Rollouts without an answer do not vote; a draw
without votes scores the mean of such rollouts. majority@k is the expected
score over all C(n, k) draws of k of the n rollouts (the metric is the maj1@k of Lewkowycz et al. 2022, "Solving
Quantitative Reasoning Problems with Language Models", as an expectation in place of one draw).
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from functools import lru_cache
from itertools import chain
from statistics import fmean

from nemo_gym.metrics.estimators import mean, scale_down

MAX_EXACT_VOTERS = 256
"""The maximum number of rollouts per task for the exact computation, which takes up to a few tenths of a second."""


def majority_curve(answers: Sequence[str | None], scores: Sequence[float], max_k: int) -> list[float]:
    """Return majority@k of one task for k = 1 .. max_k. `answers[i]` is None if rollout i gave no answer.

    Above `MAX_EXACT_VOTERS` rollouts it is the mean over the disjoint blocks of k consecutive rollouts, an unbiased
    estimate of the same expectation.
    """
    if len(answers) != len(scores):
        raise ValueError(f"{len(answers)} answers for {len(scores)} scores")
    if not 0 <= max_k <= len(scores):
        raise ValueError(f"cannot draw k={max_k} of {len(scores)} rollouts without replacement")
    if len(scores) > MAX_EXACT_VOTERS:
        return [_block_estimate(answers, scores, k) for k in range(1, max_k + 1)]
    return _compute_expected_curve(answers, scores, max_k)


def majority_score(answers: Sequence[str | None], scores: Sequence[float]) -> float:
    """Return the score of one vote among all given rollouts."""
    by_answer, silent = _ballots(answers, scores)
    if not by_answer:
        return mean(silent)
    most = max(map(len, by_answer))
    return mean([mean(ballot) for ballot in by_answer if len(ballot) == most])


def _block_estimate(answers: Sequence[str | None], scores: Sequence[float], k: int) -> float:
    starts = range(0, len(scores) - k + 1, k)
    return mean([majority_score(answers[start : start + k], scores[start : start + k]) for start in starts])


def _compute_expected_curve(
    answers: Sequence[str | None], scores: Sequence[float], max_k: int
) -> list[float]:
    scores, power = scale_down(scores)
    by_answer, silent = _ballots(answers, scores)
    counts = tuple(sorted(map(len, by_answer)))
    shares = _vote_shares(counts, len(silent))
    # Answers with the same number of votes have the same weight.
    score_of_votes: dict[int, float] = {
        votes: math.fsum(fmean(ballot) for ballot in by_answer if len(ballot) == votes)
        for votes in set(counts)
    }
    silent_score = fmean(silent) if silent else 0.0
    curve = []
    for k in range(1, max_k + 1):
        no_votes = math.comb(len(silent), k) / math.comb(len(scores), k)
        voted = (shares[votes][k - 1] * score for votes, score in score_of_votes.items())
        curve.append(math.fsum(chain(voted, (no_votes * silent_score,))) * power)
    return curve


def _ballots(answers: Sequence[str | None], scores: Sequence[float]) -> tuple[list[list[float]], list[float]]:
    """Return the scores grouped by answer, and the scores of rollouts without an answer."""
    by_answer: defaultdict[str, list[float]] = defaultdict(list)
    silent: list[float] = []
    for answer, score in zip(answers, scores, strict=True):
        (silent if answer is None else by_answer[answer]).append(score)
    return list(by_answer.values()), silent


@lru_cache(maxsize=1024)
def _vote_shares(counts: tuple[int, ...], silent: int) -> Mapping[int, tuple[float, ...]]:
    """Return, by number of votes, the expected share of the win of one such answer for each k."""
    multiplicity = Counter(counts)
    return {
        votes: _compute_winning_share(votes, _remove_votes(counts, votes), silent) for votes in multiplicity
    }


def _remove_votes(counts: tuple[int, ...], votes: int) -> tuple[int, ...]:
    place = counts.index(votes)
    return counts[:place] + counts[place + 1 :]


def _compute_winning_share(own: int, rivals: tuple[int, ...], silent: int) -> tuple[float, ...]:
    """The expected share of the win, for k = 1 .. n, of an answer with `own` of the n rollouts.

    Draws are counted by polynomials whose coefficient at X^d is the number of ways to draw d rollouts: (1 + X)^c
    draws any of an answer's c, its terms below X^m draw fewer than m. A polynomial is held as one integer, X being
    a power of two above every coefficient, so that the products run at the speed of integer multiplication.
    """
    total = own + sum(rivals) + silent
    width = total + 1  # No coefficient exceeds the number of all draws, 2^total.
    x = 1 << width
    wins_by_ties: defaultdict[int, int] = defaultdict(int)
    for winning in range(1, own + 1):
        own_draws = math.comb(own, winning) << (width * winning)
        for ties, draws in enumerate(_draws_by_ties(winning, rivals, silent, x)):
            wins_by_ties[ties] += own_draws * draws
    return tuple(
        math.fsum(
            _coefficient(wins, k, width) / ((ties + 1) * math.comb(total, k))
            for ties, wins in wins_by_ties.items()
        )
        for k in range(1, total + 1)
    )


def _draws_by_ties(winning: int, rivals: tuple[int, ...], silent: int, x: int) -> list[int]:
    """The draws of rivals and silent rollouts with no rival above `winning` votes, by how many reach it."""
    harmless = silent + sum(votes for votes in rivals if votes < winning)
    by_ties = [(1 + x) ** harmless]
    reach = x**winning
    for votes in rivals:
        if votes < winning:
            continue
        fewer = (1 + x) ** votes % reach
        equal = math.comb(votes, winning) * reach
        behind = [draws * fewer for draws in by_ties] + [0]
        level = [0] + [draws * equal for draws in by_ties]
        by_ties = [b + t for b, t in zip(behind, level, strict=True)]
    return by_ties


def _coefficient(polynomial: int, degree: int, width: int) -> int:
    return (polynomial >> (width * degree)) & ((1 << width) - 1)
