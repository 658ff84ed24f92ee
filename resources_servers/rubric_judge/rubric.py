"""A rubric: weighted yes-or-no questions about an answer, and the reward for the verdicts.

    reward = clip(sum of the weights of the criteria that are met / sum of the positive weights, 0, 1)

A criterion of negative weight describes a fault: meeting it costs. So an answer that meets every merit and has no
fault gets 1, and faults cost at most what the merits earned.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Annotated, Literal

from pydantic import AfterValidator, AliasChoices, BaseModel, ConfigDict, Field, StringConstraints


def _require_weight(weight: float) -> float:
    if weight == 0 or not math.isfinite(weight):
        raise ValueError("a weight must be a number other than 0")
    return weight


class Criterion(BaseModel):
    """One question of a rubric. The aliases are names in public datasets."""

    model_config = ConfigDict(populate_by_name=True)

    criterion: Annotated[str, StringConstraints(strip_whitespace=True, min_length=1)] = Field(
        validation_alias=AliasChoices("criterion", "criteria", "question", "description")
    )
    weight: Annotated[float, AfterValidator(_require_weight)] = Field(
        default=1.0, validation_alias=AliasChoices("weight", "points")
    )
    id: str | None = None
    pass_criteria: Literal["YES", "NO"] = "YES"
    """The judge's answer that meets the criterion."""


def _require_a_merit(rubric: list[Criterion]) -> list[Criterion]:
    if not any(criterion.weight > 0 for criterion in rubric):
        raise ValueError("a rubric needs a criterion of positive weight, because otherwise every reward is 0")
    return rubric


Rubric = Annotated[list[Criterion], AfterValidator(_require_a_merit)]


def rubric_reward(rubric: Sequence[Criterion], met: Sequence[bool]) -> float:
    """Return the reward of an answer that meets the criteria for which `met` is true."""
    weights = [criterion.weight for criterion in rubric]
    earned = math.fsum(weight for weight, is_met in zip(weights, met, strict=True) if is_met)
    return min(1.0, max(0.0, earned / math.fsum(weight for weight in weights if weight > 0)))
