"""Thousands of runs with `until` at once, in NumPy: the same formulas as `nemo_gym.statistics`, on arrays.

`tests/statistics/test_simulated_draws.py` checks that both give the same limits for the same draws. Runs differ from
real ones in two ways, neither of which favours them: draws of a batch are allocated before it, and the grid of claims
is a window around the true mean.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from statistics import NormalDist
from typing import Any

import numpy as np

Array = Any
NORMAL = NormalDist()
_P = np.concatenate([np.logspace(-12, -2, 4000), np.linspace(0.01, 0.998, 6000)[1:]])
_HAZARD = np.array([NORMAL.pdf(NORMAL.inv_cdf(p)) / p for p in _P])
_LOG_P = np.log(_P)
STEADY = (0.01, 0.02, 0.04, 0.08, 0.16)


@dataclass(frozen=True)
class Population:
    """Tasks whose rewards have known distributions."""

    support: Array
    """The possible values, shape (S,)."""
    shares: Array
    """The probability of each value, shape (tasks, S)."""

    @classmethod
    def of_rates(cls, rates: Array) -> Population:
        """Rewards of 0 and 1."""
        return cls(np.array([0.0, 1.0]), np.stack([1 - rates, rates], -1))

    @property
    def means(self) -> Array:
        return self.shares @ self.support

    @property
    def truth(self) -> float:
        return float(self.means.mean())

    @property
    def variance(self) -> float:
        """The mean over tasks of the variance of a value."""
        return float((self.shares @ self.support**2 - self.means**2).mean())

    def draw(self, counts: Array, rng: np.random.Generator) -> Array:
        """Return how often each value was seen, shape (runs, tasks, S), for counts of shape (runs, tasks)."""
        if len(self.support) == 2:
            ones = rng.binomial(counts, self.shares[:, 1])
            return np.stack([counts - ones, ones], -1)
        return rng.multinomial(counts, self.shares)


@dataclass
class Outcome:
    """The end of each run: arrays of shape (runs,)."""

    draws: Array
    low: Array
    high: Array
    is_reached: Array
    ever_missed: Array
    """Whether any look showed an interval without the mean."""
    batches: list[dict[str, Array]] = field(default_factory=list)
    """The draws, if they are recorded."""


@dataclass
class _State:
    counts: Array
    sums: Array
    squares: Array
    wealth: Array
    rejected: Array
    weights: Array
    total: Array
    spread: Array

    def keep(self, kept: Array) -> None:
        for name in ("counts", "sums", "squares", "weights", "total", "spread"):
            setattr(self, name, getattr(self, name)[kept])
        self.wealth, self.rejected = self.wealth[:, :, kept], self.rejected[:, kept]


def predict(state: _State) -> tuple[Array, Array]:
    """As `TaskMoments.predict`, for every run."""
    n, n1 = state.counts, np.maximum(state.counts, 1)
    seen = n > 0
    number = seen.sum(1, keepdims=True)
    deviations = state.squares - state.sums**2 / n1
    means = np.where(seen, state.sums / n1, 0)
    center = (means.sum(1, keepdims=True) + 0.5) / (number + 1)
    freedom = np.maximum(n - 1, 0).sum(1, keepdims=True)
    within = (deviations.sum(1, keepdims=True) + 0.3) / (freedom + 2)
    excess = np.where(seen, (means - center) ** 2 - within / n1, 0).sum(1, keepdims=True)
    between = (np.maximum(excess, 0) + 0.4) / (number + 5)
    weight = np.clip(within / between, 0.3, 100)
    predicted = (state.sums + weight * center) / (n + weight)
    largest = predicted * (1 - predicted)
    possible = (np.maximum(n - 1, 0) * largest).sum(1, keepdims=True)
    ratio = np.clip((deviations.sum(1, keepdims=True) + 0.3) / (possible + 0.3), 0.02, 1)
    variance = (deviations + 4 * ratio * largest) / (n + 4)
    return predicted, variance + between * weight / (n + weight)


def allocate(squares: Array, aim: float) -> tuple[Array, Array]:
    """As `allocate_draws`: the probabilities and the variance of a score."""
    tasks = squares.shape[1]
    spread = np.sqrt(squares)
    whole = spread.sum(1, keepdims=True)
    bet = aim / (whole / tasks) ** 2
    uniform = np.clip(bet / np.maximum(0.8 - bet, 1e-3), 0.1, 1)
    shares = (1 - uniform) * spread / whole + uniform / tasks
    return shares, (squares / shares).sum(1) / tasks**2


def run_many(
    population: Population,
    half_width: float | None,
    *,
    runs: int,
    seed: int,
    most: int,
    aim: float = 0.02,
    whole_grid: bool = False,
    records: bool = False,
    error: float = 0.05,
) -> Outcome:
    """Draw until every run is over. `half_width`: None to tell the sign of the mean less 1/2."""
    rng, tasks, truth = np.random.default_rng(seed), len(population.shares), population.truth
    points = _grid(half_width, truth, whole_grid)
    parts = np.log([0.9, 0.1] if half_width else [1 / len(STEADY)] * len(STEADY))
    counts, sums, squares = np.zeros((3, runs, tasks))
    weights, total, spread = np.zeros((3, runs))
    wealth = np.broadcast_to(parts[None, :, None, None], (2, len(parts), runs, len(points))).copy()
    rejected = np.zeros((2, runs, len(points)), bool)
    state = _State(counts, sums, squares, wealth, rejected, weights, total, spread)
    outcome = Outcome(
        np.zeros(runs), np.zeros(runs), np.ones(runs), np.zeros(runs, bool), np.zeros(runs, bool)
    )
    alive, drawn = np.arange(runs), 0
    while len(alive):
        size = max(16, int(0.04 * drawn))
        _bet_on_batch(
            state, population, rng, size, drawn, half_width, aim, points, error, outcome if records else None
        )
        drawn += size
        low, high = _limits(state, points, half_width)
        outcome.ever_missed[alive] |= (truth < low) | (truth > high)
        reached = high - low <= 2 * half_width if half_width else (low >= 0.5) | (high <= 0.5)
        over = reached | (drawn >= most)
        done = alive[over]
        outcome.draws[done], outcome.low[done], outcome.high[done] = drawn, low[over], high[over]
        outcome.is_reached[done] = reached[over]
        alive = alive[~over]
        state.keep(~over)
    return outcome


def _grid(half_width: float | None, truth: float, whole: bool) -> Array:
    if half_width is None:
        return np.arange(401) / 400 if whole else np.array([0.5])
    cells = int(np.ceil(20 / half_width))
    points = np.arange(cells + 1) / cells
    return points if whole else points[np.abs(points - truth) <= 3 * half_width]


def _limits(state: _State, points: Array, half_width: float | None) -> tuple[Array, Array]:
    below = np.cumprod(state.rejected[0], 1).sum(1)
    above = np.cumprod(state.rejected[1][:, ::-1], 1).sum(1)
    low = np.where(below > 0, points[np.maximum(below - 1, 0)], 0.0)
    high = np.where(above > 0, points[len(points) - np.maximum(above, 1)], 1.0)
    return low, high


def _bet_on_batch(
    state: _State,
    population: Population,
    rng: np.random.Generator,
    size: int,
    drawn: int,
    half_width: float | None,
    aim: float,
    points: Array,
    error: float,
    outcome: Outcome | None,
) -> None:
    tasks = state.counts.shape[1]
    predicted, squares = predict(state)
    shares, expected = allocate(squares, half_width or aim)
    center = np.divide(state.total, state.weights, out=np.zeros_like(state.total), where=state.weights > 0)
    observed = state.spread - center * state.total
    scale = np.clip((observed + 20) / (drawn + 20), 0.5, 2)
    variance = expected * scale
    counts = rng.multinomial(size, np.minimum(shares, 1.0))
    seen = population.draw(counts, rng)
    if outcome is not None:
        outcome.batches.append({"shares": shares, "variance": expected, "seen": seen})
    mean, least = predicted.mean(1), shares.min(1)
    scores = [mean[:, None] + (value - predicted) / (tasks * shares) for value in population.support]
    spread = np.divide(4.0, np.sqrt(state.weights), out=np.ones_like(state.weights), where=state.weights > 0)
    middle = np.where(state.weights > 0, center, 0.5)
    for side in (0, 1):
        claims = points if side == 0 else 1 - points
        values, weight = (1 - predicted if side else predicted), 1 / (tasks * least)
        middle_score = 1 - mean if side else mean
        reach = middle_score - values.max(1) * weight, middle_score + (1 - values.min(1)) * weight
        sums = _power_sums([1 - score if side else score for score in scores], seen)
        highest = (1 - middle if side else middle) + spread
        _bet(state, side, claims, sums, reach, variance, highest, half_width, error)
    for number, value in enumerate(population.support):
        state.total += (seen[..., number] * scores[number]).sum(1) / variance
        state.spread += (seen[..., number] * scores[number] ** 2).sum(1) / variance
        state.sums += seen[..., number] * value
        state.squares += seen[..., number] * value**2
    state.counts += counts
    state.weights += size / variance


def _power_sums(scores: list[Array], seen: Array) -> list[Array]:
    sums = []
    for power in range(5):
        parts = [(seen[..., number] * score**power).sum(1) for number, score in enumerate(scores)]
        sums.append(np.sum(parts, 0)[:, None])
    return sums


def _bet(
    state: _State,
    side: int,
    claims: Array,
    sums: list[Array],
    bounds: tuple[Array, Array],
    variance: Array,
    highest: Array,
    half_width: float | None,
    error: float,
) -> None:
    n, one, two, three, four = sums
    m = claims[None, :]
    first, second = one - m * n, two - 2 * m * one + m**2 * n
    third = three - 3 * m * two + 3 * m**2 * one - m**3 * n
    fourth = four - 4 * m * three + 6 * m**2 * two - 4 * m**3 * one + m**4 * n
    reach = np.maximum(m - bounds[0][:, None], 1e-9)
    most = np.minimum(0.75 / reach, 1 / np.maximum(bounds[1][:, None] - m, 1e-9))
    bets = (~state.rejected[side]) & (m <= highest[:, None])
    wanted = -np.log(error / 2)
    whole = 0.0
    for number, wealth in enumerate(state.wealth[side]):
        stake = np.minimum(_stake(number, wealth - wanted, variance, state.weights, half_width, error), most)
        x = np.maximum(stake * reach, 0.05)
        curvature = (-np.log1p(-x) - x - x * x / 2 - x**3 / 3) / x**4
        gain = stake * (first - stake * (second / 2 - stake * (third / 3 - stake * curvature * fourth)))
        wealth += np.where(bets, gain, 0)
        whole = whole + np.exp(np.minimum(wealth, wanted))
    state.rejected[side] |= whole >= np.exp(wanted) * (1 - 1e-15)


def _stake(
    number: int, share: Array, variance: Array, weights: Array, half_width: float | None, error: float
) -> Array:
    steady = STEADY[number] if half_width is None else half_width
    if half_width is None or number == 1:
        return np.broadcast_to((steady / (variance + steady**2))[:, None], share.shape)
    plan = (NORMAL.inv_cdf(1 - error / 2) * 1.2 / half_width) ** 2
    left = np.maximum(plan - weights, 0.05 * plan)
    urgency = np.interp(share, _LOG_P, _HAZARD) / np.sqrt(left)[:, None]
    most = np.where(share < np.log(error / 2) - 2, 0.9, 1.3) * half_width
    return np.minimum(urgency, most) / variance[:, None]
