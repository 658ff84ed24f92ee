"""`<stem>_estimate.json`: what a run with `until` knows, and the same in words.

The file is replaced at every change of the interval, so a viewer shows it while the run goes on. Its `text` is what the
closing table says.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from math import ceil
from pathlib import Path
from statistics import NormalDist, fmean
from typing import Any

import orjson

from nemo_gym.rollouts.output.atomic import write_atomically
from nemo_gym.rollouts.run.until_target import UntilTarget
from nemo_gym.rollouts.run.until_tokens import TokenCount
from nemo_gym.statistics.sequential import SequentialMean
from nemo_gym.tables import write_number

_Z = NormalDist().inv_cdf(0.975)
_POWER = NormalDist().inv_cdf(0.8)
_WORST, _WORST_PAIR = 0.25, 0.125
"""The largest variance of a value in [0, 1], and of half the difference of two that are independent."""
_ENDING = ("aim", "is_reached", "mean", "low", "high", "drawn", "tokens", "uncounted", "ceiling")


@dataclass(frozen=True, slots=True)
class UntilEstimate:
    """The estimate of a run, in units of the reward; for a pair of agents the first one's mean less the other's."""

    aim: str
    pair: tuple[str, str] | None
    generalizes: bool
    tasks: int
    is_reached: bool
    mean: float
    low: float
    high: float
    """The limits of the 95 % interval, which is valid at every look. A limit that is no bound of rewards is outside."""
    rollouts: int
    """The rollouts in the interval."""
    drawn: int
    """The rollouts that were drawn, those in flight and those that do not count included."""
    unknown: int
    """Rollouts in the interval without a reward: it allows for any that they may have had."""
    fixed: int
    """The rollouts of a fixed design with an interval of this width, if nothing is known of the tasks beforehand.

    For a pair those of one that finds a difference of this size with a probability of 80 %.
    """
    fixed_known: int
    """The same if the variance of the tasks' rewards were known beforehand."""
    tokens: int = 0
    """The tokens of all attempts, of prompts and answers."""
    uncounted: int = 0
    """Rows without a count of tokens."""
    most_tokens: int | None = None
    """The ceiling of tokens."""
    ceiling: str | None = None
    """The ceiling that ended the run before its aim; None if none has."""
    voided: int = 0
    """Draws before a kill that do not count."""
    labels: tuple[str, str] | None = None
    """The agents of the pair with their models."""
    undrawn: int = 0
    """The tasks without a draw so far. The interval is about them, too: each had its chance at every draw."""

    @classmethod
    def of(
        cls,
        target: UntilTarget,
        mean: SequentialMean,
        *,
        units: int,
        rollouts_per_draw: int,
        drawn: int,
        voided: int,
        unknown: int,
        is_reached: bool,
        tokens: TokenCount,
        ceiling: str | None = None,
    ) -> UntilEstimate:
        """Return the estimate of a mean of draws."""
        fixed, fixed_known = _count_fixed(target, mean, rollouts_per_draw)
        center, low, high = (
            _unscale(target, value) for value in (mean.estimate, mean.interval.low, mean.interval.high)
        )
        return cls(
            str(target),
            target.pair,
            target.generalizes,
            units,
            is_reached,
            center,
            low,
            high,
            mean.draws * rollouts_per_draw,
            (drawn + voided) * rollouts_per_draw,
            unknown,
            fixed,
            fixed_known,
            tokens=tokens.spent,
            uncounted=tokens.uncounted,
            most_tokens=tokens.most,
            ceiling=ceiling,
            voided=voided,
            labels=target.labels,
        )

    @property
    def half_width(self) -> float:
        return (self.high - self.low) / 2

    def describe_end(self) -> dict[str, Any]:
        """Return what the manifest records of the end of a start."""
        return {name: getattr(self, name) for name in _ENDING}


def _unscale(target: UntilTarget, value: float) -> float:
    """Return a value of the scale from 0 to 1 in units of the reward."""
    width = target.most - target.least
    return width * (2 * value - 1) if target.pair is not None else target.least + width * value


def _count_fixed(target: UntilTarget, mean: SequentialMean, rollouts_per_draw: int) -> tuple[int, int]:
    """Return the rollouts of the fixed designs to compare with: for any variance, and for the predicted one."""
    limits, is_pair = mean.interval, target.pair is not None
    half_width = max((limits.high - limits.low) / 2, 1e-9)
    reach = half_width / _Z if not is_pair else max(abs(mean.estimate - 0.5), 1e-3) / (_Z + _POWER)
    worst = _WORST_PAIR if is_pair else _WORST
    spread = mean.variance_per_draw if target.generalizes else fmean(mean.moments.predict().variances)
    return ceil(worst / reach**2) * rollouts_per_draw, ceil(spread / reach**2) * rollouts_per_draw


def write_estimate(path: Path, estimate: UntilEstimate) -> None:
    """Write the file. Raises `ConfigError` if the disk refuses it."""
    content = asdict(estimate) | {"text": [*describe_closing(estimate)]}
    write_atomically(path, orjson.dumps(content, option=orjson.OPT_INDENT_2) + b"\n")


def describe_live(estimate: UntilEstimate) -> str:
    """Return the interval and the aim for the progress line."""
    limits = f"{write_number(estimate.low)} to {write_number(estimate.high)}"
    name = "difference" if estimate.pair else "mean"
    spent = f", {estimate.tokens:,} of {estimate.most_tokens:,} tokens" if estimate.most_tokens else ""
    return f"{name} {write_number(estimate.mean)} ({limits}), until {estimate.aim}{spent}"


def describe_closing(estimate: UntilEstimate) -> Iterator[str]:
    """Yield the lines of the closing table."""
    limits = f"{write_number(estimate.low)} to {write_number(estimate.high)}"
    if estimate.pair is None:
        yield f"estimate: {write_number(estimate.mean)}, 95 % interval {limits} (±{write_number(estimate.half_width)})"
    else:
        yield from _describe_pair(estimate, limits)
    yield describe_meaning(estimate)
    if not estimate.is_reached:
        yield f"The aim ({estimate.aim}) is not reached{_describe_ceiling(estimate)}."
    if estimate.unknown:
        yield f"{estimate.unknown:,} draws have no reward: the interval allows for any that they may have had."
    if estimate.voided:
        yield (
            f"{estimate.voided:,} draws do not count: the run was stopped before the end of earlier ones, and whatever "
            "is over by then is rather short."
        )
    yield _describe_cost(estimate)
    if estimate.uncounted:
        yield f"{estimate.uncounted:,} rows have no count of tokens: those above leave them out."


def describe_meaning(estimate: UntilEstimate) -> str:
    """Return the meaning of the interval."""
    means = "the difference of the means" if estimate.pair else "the mean"
    over = (
        f"over all tasks like these {estimate.tasks:,}, of which they are a random sample"
        if estimate.generalizes
        else f"that these {estimate.tasks:,} tasks would have if each were attempted without end"
    )
    if estimate.undrawn and not estimate.generalizes:
        over += f" ({estimate.undrawn:,} of them had their chance at every draw, and were not drawn)"
    return (
        f"The interval is that of {means} {over}. It is valid at whatever moment one looks or stops: at most 5 of 100 "
        "such runs ever show an interval without it. The mean of the rows differs: uncertain tasks have more of them."
    )


def _describe_ceiling(estimate: UntilEstimate) -> str:
    if estimate.ceiling is None:
        return ""
    over = estimate.tokens - estimate.most_tokens if estimate.most_tokens else 0
    finished = f"; rollouts in flight took {over:,} tokens more" if over > 0 else ""
    return f": {estimate.ceiling} ended the run{finished}"


def _describe_pair(estimate: UntilEstimate, limits: str) -> Iterator[str]:
    assert estimate.pair is not None
    one, other = estimate.labels or estimate.pair
    yield f"difference: {write_number(estimate.mean)} ({one} less {other}), 95 % interval {limits}"
    if estimate.is_reached:
        better, worse = (one, other) if estimate.low >= 0 else (other, one)
        least = min(abs(estimate.low), abs(estimate.high))
        if least:
            shown = f"{least:.2g}" if not float(write_number(least)) else write_number(least)
            yield f"{better} is better than {worse}, by more than {shown}, at 95 % confidence."
        else:
            side = "above" if estimate.low >= 0 else "below"
            beyond = f"the whole interval is {side} 0, without 0 itself"
            yield f"{better} is better than {worse}, at 95 % confidence: {beyond}."
    else:
        yield f"No difference between {one} and {other} is shown."


def _describe_cost(estimate: UntilEstimate) -> str:
    tokens = f", {estimate.tokens:,} tokens" if estimate.tokens else ""
    cost = f"cost: {estimate.drawn:,} rollouts{tokens}."
    if not estimate.is_reached:
        return cost
    share = 1 - estimate.drawn / max(estimate.fixed, 1)
    compared = f"{share:.0%} fewer" if share >= 0 else f"{-share:.0%} more"
    what = "that finds such a difference in 80% of runs" if estimate.pair else "with this width"
    return (
        f"{cost} A fixed design {what} takes {estimate.fixed:,} "
        f"({compared} here), or {estimate.fixed_known:,} if the spread of these tasks is known beforehand."
    )
