"""The reward: 0 unless the right answer was looked up, else weighted by its cost relative to par.

    efficiency(x, par) = 1 where x <= par, else par / x                                in (0, 1]
    reward = success * (w_success + w_calls * e_calls + w_tokens * e_tokens)           the weights add up to 1

`success` is 0 or 1, `e_calls` the efficiency of the credits spent, `e_tokens` that of the output tokens. So the reward
is 0 without success; with it, it lies above `w_success`, falls as credits or tokens rise above par, and is 1 at par.
Without a token count, the weight of tokens is added to that of calls.
"""

from __future__ import annotations

import math
from typing import Self

from pydantic import BaseModel, Field, model_validator


class Weights(BaseModel):
    """The weights of success, calls and tokens; their sum is 1."""

    success: float = Field(default=0.5, ge=0)
    calls: float = Field(default=0.4, ge=0)
    tokens: float = Field(default=0.1, ge=0)

    @model_validator(mode="after")
    def _require_a_sum_of_one(self) -> Self:
        total = self.success + self.calls + self.tokens
        if not math.isclose(total, 1.0):
            raise ValueError(f"the weights must add up to 1, not {total:g}")
        return self


def efficiency(spent: int, par: int) -> float:
    """Return 1 at or below par, else `par / spent`. `par` must be positive."""
    return min(1.0, par / spent) if spent else 1.0


def reward_of(
    is_success: bool, call_efficiency: float, token_efficiency: float | None, weights: Weights
) -> float:
    """Return the reward as defined in the module docstring."""
    if not is_success:
        return 0.0
    if token_efficiency is None:
        return weights.success + (weights.calls + weights.tokens) * call_efficiency
    return weights.success + weights.calls * call_efficiency + weights.tokens * token_efficiency
