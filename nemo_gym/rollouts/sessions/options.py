"""The options of a rollout session, checked before it opens."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, Field, model_validator

from nemo_gym.rollouts.run.options import MAX_COUNT, LimitOptions
from nemo_gym.rollouts.sessions.curriculum import CurriculumOptions

_WAYS = {
    "token": ("mask",),
    "rollout": ("drop", "withhold"),
    "group": ("drop", "wait"),
}
"""The treatments of a stale token, rollout or group."""


class StalenessOptions(BaseModel, extra="forbid", frozen=True):
    """The largest allowed staleness, and what happens above it.

    The staleness of a sampled token is the version of the policy that is trained, minus the version that sampled it.
    That of a rollout, or of a group, is the staleness of its oldest token.
    """

    bound: int | None = Field(None, ge=0, le=MAX_COUNT, description="Versions; null for no bound.")
    of: Literal["token", "rollout", "group"] = Field("token", description="The unit that is measured.")
    then: Literal["mask", "drop", "withhold", "wait"] = Field(
        "mask",
        description="`mask` tokens; `drop` rollouts or groups; `withhold` rollouts from training; `wait`: admit so few "
        "groups that none is above the bound.",
    )
    baseline: Literal["keep", "leave"] = Field(
        "keep", description="Whether a withheld rollout counts in the baseline of its group."
    )

    @model_validator(mode="after")
    def _check_way(self) -> StalenessOptions:
        if self.then not in _WAYS[self.of]:
            ways = " or ".join(f"`{way}`" for way in _WAYS[self.of])
            raise ValueError(f"`then: {self.then}` does not go with `of: {self.of}`, whose ways are {ways}")
        if self.baseline == "leave" and self.then != "withhold":
            raise ValueError("`baseline: leave` needs `then: withhold`")
        return self


class UsefulOptions(BaseModel, extra="forbid", frozen=True):
    """Dynamic sampling: which groups are worth training on."""

    metric: str | None = Field(
        None,
        min_length=1,
        description="A numeric key of the scored rows: the raw score, before any shaping or penalty; by default the "
        "reward.",
    )
    min_std: float = Field(
        1e-6, ge=0, allow_inf_nan=False, description="A group whose metric varies less is cancelled."
    )
    stop_at: int | None = Field(
        None,
        ge=1,
        le=MAX_COUNT,
        description="Useful groups of a step; no further group starts until the policy has a new version.",
    )
    surplus: Literal["keep", "cancel"] = Field(
        "keep", description="What happens to the groups in flight when a step has its useful ones."
    )
    max_oversampling: float = Field(
        4.0,
        ge=1,
        allow_inf_nan=False,
        description="The session stops if this multiple of `stop_at` was sampled in a step without reaching it.",
    )

    @model_validator(mode="after")
    def _check_surplus(self) -> UsefulOptions:
        if self.surplus == "cancel" and self.stop_at is None:
            raise ValueError("`surplus: cancel` needs `stop_at`")
        return self


class SessionOptions(LimitOptions):
    """The options of a session, named as those of `POST /rollouts` where they are the same."""

    group_size: int = Field(8, ge=1, le=1 << 20, description="Rollouts of a task, which share a baseline.")
    groups_per_step: int | None = Field(
        None, ge=1, le=MAX_COUNT, description="Groups that the trainer takes for a step."
    )
    min_members: int | None = Field(
        None, ge=1, le=1 << 20, description="Scored rollouts that a group needs; by default all."
    )
    staleness: StalenessOptions = StalenessOptions()
    order: Literal["ready_first", "fifo"] = Field(
        "ready_first",
        description="The order in which groups are delivered: as they finish, or as they began.",
    )
    useful: UsefulOptions | None = Field(
        None, description="Dynamic sampling; by default every group is useful."
    )
    curriculum: CurriculumOptions | None = Field(
        None, description="Which waiting task is admitted next; by default the one that was submitted first."
    )
    reserve: int = Field(
        0, ge=0, le=MAX_COUNT, description="Groups fewer than the bound of staleness allows."
    )
    max_waiting_tasks: int = Field(4096, ge=1, le=MAX_COUNT, description="Tasks that wait for their start.")
    max_unconsumed_groups: int | None = Field(
        None,
        ge=1,
        le=MAX_COUNT,
        description="Groups that are delivered or ready, and not consumed; by default twice `groups_per_step`, and 64 "
        "without it.",
    )
    max_unconsumed_mib: int = Field(256, ge=1, le=1 << 20, description="The same in MiB.")
    grace_s: float = Field(
        600.0,
        gt=0,
        allow_inf_nan=False,
        description="Seconds without a request after which the session ends.",
    )
    num_repeats_add_seed: bool = Field(False, description="Give each rollout of a group its own seed.")
    agent_name: str | None = Field(None, description="The agent of tasks without one.")
    responses_create_params: dict[str, Any] = Field(
        default_factory=dict, description="Merged into every task's."
    )

    @property
    def needed_members(self) -> int:
        """The scored rollouts that a group needs."""
        return self.min_members or self.group_size

    @property
    def unconsumed_groups(self) -> int:
        """The most groups that are delivered and not consumed."""
        return self.max_unconsumed_groups or (2 * self.groups_per_step if self.groups_per_step else 64)

    @model_validator(mode="after")
    def _check_together(self) -> SessionOptions:
        stale, problems = self.staleness, []
        if self.min_members is not None and self.min_members > self.group_size:
            problems.append(f"min_members {self.min_members} is more than group_size {self.group_size}")
        if stale.then == "wait":
            if stale.bound is None or self.groups_per_step is None:
                problems.append("`then: wait` needs `staleness.bound` and `groups_per_step`")
            if self.order != "fifo":
                problems.append("`then: wait` needs `order: fifo`: another order has no bound for a group")
        if self.max_unconsumed_groups and self.max_unconsumed_groups < (self.groups_per_step or 0):
            problems.append("max_unconsumed_groups is less than groups_per_step, so no step would be full")
        if self.useful is not None and self.group_size == 1:
            problems.append("`useful` needs groups of at least 2 rollouts")
        if self.reserve and (stale.bound is None or self.groups_per_step is None):
            problems.append("`reserve` needs `staleness.bound` and `groups_per_step`")
        elif self.reserve and self.reserve >= ((stale.bound or 0) + 1) * (self.groups_per_step or 0):
            problems.append("`reserve` leaves no group to admit")
        if problems:
            raise ValueError("; ".join(problems))
        return self
