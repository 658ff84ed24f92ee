"""The options of a run: its bounds, and its treatment of rows and failures. They are keys of commands and requests.

This module imports no other room, so that `--help` is fast.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field


@dataclass(frozen=True, slots=True)
class RunLimits:
    """The bounds of a run."""

    in_parallel: int | Literal["auto"] = 64
    """Rollouts in flight; `auto` searches for the number (`nemo_gym.rollouts.run._window`)."""
    max_attempts: int = 3
    """Attempts at a rollout in this start of the run."""
    rollout_timeout_s: float | None = 1800.0
    """Time limit of an attempt in seconds; None for no limit."""
    drain_s: float = 5.0
    """Seconds that rollouts in flight may take to finish when the run stops."""
    first_wait_s: float = 2.0
    longest_wait_s: float = 30.0
    """Bounds in seconds of the delay before another attempt: exponential, with full jitter."""


class StopOptions(BaseModel):
    model_config = ConfigDict(extra="forbid", populate_by_name=True, frozen=True)

    stop_after_identical_failures: int = Field(
        20, ge=0, description="Stop after this number of consecutive identical failures; 0 for never."
    )


class LimitOptions(StopOptions):
    """The bounds that users can set."""

    num_samples_in_parallel: Annotated[int, Field(ge=1)] | Literal["auto"] = Field(
        64, description="Rollouts in flight at once; `auto` determines how many saturate the engine."
    )
    max_attempts: int = Field(3, ge=1, description="Attempts at a rollout whose failures are temporary.")
    rollout_timeout_s: float | None = Field(
        1800.0, gt=0, description="Seconds that an attempt may take; null for no limit."
    )

    @property
    def limits(self) -> RunLimits:
        return RunLimits(self.num_samples_in_parallel, self.max_attempts, self.rollout_timeout_s)


class CollectOptions(StopOptions):
    """The options of a collection that are keys of commands."""

    limit: int | None = Field(
        None, ge=1, description="The maximum number of rows of each dataset; by default all."
    )
    responses_create_params: dict[str, Any] = Field(
        default_factory=dict,
        description="Parameters that override those of every row: +responses_create_params.x=1.",
    )
    num_repeats_add_seed: bool = Field(
        False, description="Use the number of each repeat as its seed, if the engine supports seeds."
    )
    allow_identity_change: bool = Field(
        False, description="Resume even if rows, settings, configuration or code have changed."
    )
    skip_invalid_rows: bool = Field(
        False, description="Skip malformed rows instead of rejecting the dataset."
    )
    max_failed_fraction: float | None = Field(
        None, ge=0, le=1, description="Stop if more than this fraction of the rollouts has failed."
    )
    max_masked_fraction: float = Field(
        0.05,
        ge=0,
        le=1,
        description="Fail the run if more than this fraction of model calls has no tokens for training.",
    )
    write_materialized_inputs: bool = Field(
        True, description="Write the rows in the form in which agents receive them."
    )
    environment_metrics_max_rows: int = Field(
        10_000,
        ge=0,
        description="Compute the environments' own metrics for runs of at most this many rows; 0 for never.",
    )
