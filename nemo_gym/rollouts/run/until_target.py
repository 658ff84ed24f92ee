"""The aim of a run with `until`: an interval of a width, or an answer to "which of two agents is better".

±1%              until the mean's 95 % interval is at most one percent of the rewards' range to either side
±0.02            the same in units of the reward
a differs from b until the agents a and b, on the same tasks, have different means beyond doubt
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass

from nemo_gym.config.problems import InputChecks
from nemo_gym.failures import ConfigError
from nemo_gym.rollouts.run.options import UntilOptions

_WIDTH = re.compile(
    r"(?:±|\+-|\+/-)?\s*(?P<number>[-+]?[\d.]+(?:e[-+]?\d+)?)\s*(?P<percent>%)?", re.IGNORECASE
)
_DIFFERS = re.compile(r"(?P<one>\S+)\s+differs\s+from\s+(?P<other>\S+)")
_FORMS = 'Write --until ±1% (of the range of rewards), --until ±0.02 or --until "a differs from b".'


@dataclass(frozen=True, slots=True)
class UntilTarget:
    """The aim of a run, and what bounds it."""

    half_width: float | None
    """In units of the reward; None for a pair."""
    pair: tuple[str, str] | None
    """The agents to tell apart."""
    generalizes: bool
    """The mean is that of all tasks like these, instead of these."""
    least: float
    most: float
    """The bounds of rewards."""
    most_rollouts: int | None
    most_tokens: int | None = None
    """The tokens after which nothing is drawn."""
    labels: tuple[str, str] | None = None
    """The agents of the pair as a reader knows them: with their models."""

    @property
    def scaled_half_width(self) -> float | None:
        """Return the half-width on the scale where rewards lie in [0, 1]."""
        return None if self.half_width is None else self.half_width / (self.most - self.least)

    def __str__(self) -> str:
        if self.pair is not None:
            return f"{self.pair[0]} differs from {self.pair[1]}"
        return f"±{self.half_width:g}"


def read_target(options: UntilOptions) -> UntilTarget | None:
    """Return the aim of a run; None for a run without. Raises `ConfigError` with all problems."""
    if options.until is None:
        _refuse_lonely(options)
        return None
    text, checks = str(options.until), InputChecks()
    half_width: float | None = None
    pair: tuple[str, str] | None = None
    least, most = 0.0, 1.0
    with checks.check():
        least, most = _check_bounds(options.reward_range)
    with checks.check():
        pair = _read_pair(text)
        if pair is None:
            half_width = _read_half_width(text, least, most)
    checks.raise_if_any()
    return UntilTarget(
        half_width, pair, options.generalize, least, most, options.max_rollouts, options.max_total_tokens
    )


def _refuse_lonely(options: UntilOptions) -> None:
    given = {
        "+generalize=true": options.generalize,
        "+max_rollouts": options.max_rollouts is not None,
        "+max_total_tokens": options.max_total_tokens is not None,
        "+reward_range": options.reward_range != (0.0, 1.0),
    }
    for key, is_given in given.items():
        if is_given:
            raise ConfigError(
                f"{key} is about a run that stops by itself, and the run has no +until",
                code="contradiction",
                remedy=f"{_FORMS} Or leave it out.",
            )


def _check_bounds(bounds: tuple[float, float]) -> tuple[float, float]:
    least, most = bounds
    if not (math.isfinite(least) and math.isfinite(most) and least < most):
        raise ConfigError(
            f"+reward_range=[{least:g},{most:g}] is not a range",
            code="reward_range",
            remedy="Give the least and the largest reward that the verifier can return, such as "
            "+reward_range=[0,10]. Rewards without bounds have no interval that is valid at every look.",
        )
    return bounds


def _read_pair(text: str) -> tuple[str, str] | None:
    match = _DIFFERS.fullmatch(text.strip())
    if match is None:
        if "differ" in text:
            raise ConfigError(f"+until: {text!r} does not name two agents", code="until", remedy=_FORMS)
        return None
    if match["one"] == match["other"]:
        raise ConfigError(
            f"+until: {match['one']} does not differ from itself",
            code="until",
            remedy="Name two agents that differ, such as in their model servers (docs/how_many_rollouts.md).",
        )
    return match["one"], match["other"]


def _read_half_width(text: str, least: float, most: float) -> float:
    match = _WIDTH.fullmatch(text.strip())
    try:
        number = float(match["number"]) if match is not None else math.nan
    except ValueError:
        number = math.nan
    if match is None or math.isnan(number):
        raise ConfigError(f"+until: {text!r} is not understood", code="until", remedy=_FORMS)
    half_width = number / 100 * (most - least) if match["percent"] else number
    if half_width <= 0:
        raise ConfigError(
            f"+until: {text!r} asks for certainty, which no number of rollouts gives",
            code="until",
            remedy="Ask for a width above 0, such as --until ±1%; `gym eval plan` shows what widths cost.",
        )
    if 2 * half_width >= most - least:
        raise ConfigError(
            f"+until: {text!r} is as wide as the rewards' range, {least:g} to {most:g}, so it holds before the start",
            code="until",
            remedy="Did you mean a percentage? ±1 is one whole reward, ±1% is a hundredth of the range.",
        )
    return half_width
