"""Whether a run with `until` can reach its aim at all, before it starts.

Bounds for any rewards: a wealth grows by at most 1 + 0.75 · (width of the interval) a draw, because no bet stakes more
(`nemo_gym.statistics.betting`), and it has to reach 2 / 0.05. So n draws leave at least log(40) / (1.5 n) to either
side, even if all of them agree. If rewards are spread as much as they can be, it is about 1.25 · 1.96 · √(1/4 / n).
"""

from __future__ import annotations

import logging
import math
from collections.abc import Sequence

from nemo_gym.failures import ConfigError
from nemo_gym.rollouts.plan.plan import Plan, PlanSettings
from nemo_gym.rollouts.run.until_target import UntilTarget
from nemo_gym.rollouts.run.until_units import DrawUnit, count_most_draws, find_units
from nemo_gym.tables import write_number

log = logging.getLogger(__name__)

_WANTED = math.log(40.0)
_SEQUENTIAL = 1.25
_Z = 1.96


def refuse_unreachable(target: UntilTarget, plan: PlanSettings, repeats: int) -> None:
    """Raise `ConfigError` if the tasks of `plan` do not suffice, with the half-width for which they do."""
    refuse_units(target, find_units(target, list(Plan(plan).read_tasks()), repeats))


def refuse_units(target: UntilTarget, units: Sequence[DrawUnit]) -> None:
    """Raise `ConfigError` if draws of `units` cannot reach the aim; warn if they do so only for rewards that agree."""
    if target.generalizes and len(units) < 2:
        raise ConfigError(
            "+generalize=true: one task says nothing about others",
            code="until_unreachable",
            remedy="Add tasks, or leave +generalize=true out: then the mean is that of this task.",
        )
    draws, aim = count_most_draws(target, units), target.scaled_half_width
    if draws is None:
        return
    if not draws:
        raise ConfigError(
            f"+max_rollouts={target.most_rollouts} is less than the {units[0].size} rollouts of one draw",
            code="until_unreachable",
        )
    best, worst = find_half_widths(draws)
    if aim is None or aim >= worst:
        return
    width = target.most - target.least
    shown = [write_number(width * min(half, 0.5)) for half in (best, worst)]
    if aim >= best and not target.generalizes:
        _warn_of_ceiling(target, shown[1])
        return
    if target.generalizes:
        raise ConfigError(
            f"{target} cannot be promised with these {len(units):,} tasks and +generalize=true: however often each is "
            f"attempted, the interval of all tasks like these is about ±{shown[1]} wide if the rewards are spread, and "
            f"never below ±{shown[0]}",
            code="until_unreachable",
            remedy=f"Ask for --until ±{shown[1]}, add tasks, or leave +generalize=true out: the mean of these tasks "
            "themselves can be known as well as one likes.",
        )
    raise ConfigError(
        f"{target} cannot be reached with +max_rollouts={target.most_rollouts}: the interval is at least ±{shown[0]}, "
        f"even if all rewards agree, and about ±{shown[1]} if they are spread",
        code="until_unreachable",
        remedy="Raise +max_rollouts, or ask for a wider interval; `gym eval plan` shows what widths cost.",
    )


def _warn_of_ceiling(target: UntilTarget, half_width: str) -> None:
    """Tell of a ceiling that suffices only for rewards that agree. `half_width`: an aim that it suffices for."""
    log.warning(
        "%s needs more than +max_rollouts=%s if the rewards are spread: an aim that so many reach then is ±%s, and a "
        "run that the ceiling ends has an interval up to four times as wide as a run that reaches its aim",
        target,
        target.most_rollouts,
        half_width,
    )


def find_half_widths(draws: int) -> tuple[float, float]:
    """Return the half-widths after a number of draws, if all values agree, and if they are spread."""
    return _WANTED / (2 * 0.75 * draws), _SEQUENTIAL * _Z * math.sqrt(0.25 / draws)
