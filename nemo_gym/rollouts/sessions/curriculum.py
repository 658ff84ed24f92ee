"""The curriculum of a session as pure functions: which of the waiting tasks is admitted next.

A task belongs to a pool by the mean metric of its last group: `new` without one, `solved`, `unsolved` or `mixed`. A
pool is drawn by its weight among those that have a waiting task, and gives the task that has waited longest. Tasks of
pools without a weight wait until there are no others.

    state = CurriculumState()
    place, state = propose(options, state, keys)     # an index into `keys`, which wait
    state = observe(state, key, mean)                # the group of a key is complete
    state.to_json()                                  # for a checkpoint

The draws depend on nothing but the seed and their number, so a restored session goes on as it would have.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from random import Random
from typing import Any, Literal, NamedTuple, Self, TypeAlias

from pydantic import BaseModel, Field, model_validator

Pool: TypeAlias = Literal["new", "unsolved", "mixed", "solved"]


_WEIGHTS: Mapping[Pool, float] = {"new": 1.0, "mixed": 1.0, "unsolved": 0.25, "solved": 0.05}


class CurriculumOptions(BaseModel, extra="forbid", frozen=True):
    """The pools and their weights."""

    unsolved_at: float = Field(
        0.0, allow_inf_nan=False, description="A task whose mean metric is at most this is unsolved."
    )
    solved_at: float = Field(
        1.0, allow_inf_nan=False, description="A task whose mean metric is at least this is solved."
    )
    weights: dict[Pool, float] = Field(
        default_factory=lambda: dict(_WEIGHTS),
        description="Weights of the pools `new`, `unsolved`, `mixed` and `solved`; 0 for those left out.",
    )
    seed: int = 0

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.unsolved_at >= self.solved_at:
            raise ValueError(f"unsolved_at {self.unsolved_at} is not below solved_at {self.solved_at}")
        if not any(self.weights.values()) or min(self.weights.values()) < 0:
            raise ValueError("`weights` are 0 or more, and one of them is above 0")
        return self


@dataclass(frozen=True, slots=True)
class CurriculumState:
    """The observations, and the number of draws."""

    draws: int = 0
    means: Mapping[str, float] = field(default_factory=dict)
    """The mean metric of the last group of each key."""

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_json(cls, written: Mapping[str, Any]) -> Self:
        """Read what `to_json` returned. Raises KeyError, TypeError or ValueError for anything else."""
        return cls(int(written["draws"]), {str(key): float(mean) for key, mean in written["means"].items()})


class Proposal(NamedTuple):
    """A choice among waiting tasks."""

    place: int
    state: CurriculumState


def find_pool(options: CurriculumOptions, mean: float | None) -> Pool:
    """Return the pool of a task by its mean metric; None for a task without a complete group."""
    if mean is None:
        return "new"
    if mean >= options.solved_at:
        return "solved"
    return "unsolved" if mean <= options.unsolved_at else "mixed"


def propose(options: CurriculumOptions, state: CurriculumState, keys: Sequence[str]) -> Proposal:
    """Return the place of the next of the waiting tasks, of which there is at least one."""
    first: dict[Pool, int] = {}
    for place, key in enumerate(keys):
        first.setdefault(find_pool(options, state.means.get(key)), place)
    pools = sorted(first)
    weights = [options.weights.get(pool, 0.0) for pool in pools]
    drawn = replace(state, draws=state.draws + 1)
    if not any(weights):
        return Proposal(min(first.values()), drawn)
    (pool,) = Random(f"{options.seed}/{state.draws}").choices(pools, weights)
    return Proposal(first[pool], drawn)


def observe(state: CurriculumState, key: str, mean: float) -> CurriculumState:
    """Note the mean metric of a complete group."""
    return replace(state, means={**state.means, key: mean})


def count_pools(options: CurriculumOptions, state: CurriculumState) -> dict[Pool, int]:
    """Return the number of observed keys in each pool."""
    return dict(Counter(find_pool(options, mean) for mean in state.means.values()))
