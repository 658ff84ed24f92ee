"""Rewards of several components.

The components of a row add up exactly to its reward: the weighted components are summed in their order, as a trainer
does. A component that is not a finite number raises an error, because it would corrupt the whole batch.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import NamedTuple

from nemo_gym.failures import VerifierError

__all__ = ["MultiReward", "sum_rewards"]


class MultiReward(NamedTuple):
    """A reward and its components, as the fields of `BaseMultiRewardVerifyResponse`."""

    reward: float
    reward_components: dict[str, float]
    """Weighted; `reward` is their sum."""


def sum_rewards(components: Mapping[str, float], weights: Mapping[str, float] | None = None) -> MultiReward:
    """Return the sum of `components`, each times its weight (by default 1).

    Raises VerifierError for a component that is not a finite number, and for a weight without a component: a
    misspelled weight would silently change the training objective.
    """
    weights = weights or {}
    unknown = sorted(weights.keys() - components.keys())
    if unknown:
        raise VerifierError(
            f"The weights name {', '.join(unknown)}, but the components are {', '.join(components)}.",
            code="unknown_reward_component",
        )
    weighted = {name: float(value) * float(weights.get(name, 1.0)) for name, value in components.items()}
    broken = [f"{name}={value}" for name, value in weighted.items() if not math.isfinite(value)]
    if broken:
        raise VerifierError(
            f"Reward components are not finite numbers: {', '.join(broken)}.", code="reward_not_finite"
        )
    return MultiReward(float(sum(weighted.values())), weighted)
