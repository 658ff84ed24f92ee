"""The options of a run: its bounds, and its treatment of rows and failures. They are keys of commands and requests.

This module imports no other room, so that `--help` is fast.
"""

from __future__ import annotations

from dataclasses import dataclass
from importlib.util import find_spec
from typing import Annotated, Any, Literal

from pydantic import BaseModel, Field, model_validator


@dataclass(frozen=True, slots=True)
class RunLimits:
    """The bounds of a run."""

    in_parallel: int | Literal["auto"] = 64
    """Rollouts in flight; `auto` searches for the number (`nemo_gym.rollouts.run._window`)."""
    most_in_parallel: int | None = None
    """An upper bound of rollouts in flight, for `auto` too."""
    max_attempts: int = 3
    """Attempts at a rollout in this start of the run."""
    rollout_timeout_s: float | None = 1800.0
    """Time limit of an attempt in seconds; None for no limit."""
    drain_s: float = 5.0
    """Seconds that rollouts in flight may take to finish when the run stops."""
    first_wait_s: float = 2.0
    longest_wait_s: float = 30.0
    """Bounds in seconds of the delay before another attempt: exponential, with full jitter."""


MAX_COUNT = (1 << 31) - 1
"""The largest number of rollouts, attempts and the like that an option can have."""
MOST_TOKENS = (1 << 53) - 1
"""The largest number of tokens: the largest integer that every reader of JSON knows exactly."""


class RunOptions(BaseModel, defer_build=True):
    """The base of options. Commands that only know their names build no validators."""


class StopOptions(RunOptions, extra="forbid", populate_by_name=True, frozen=True):
    stop_after_identical_failures: int = Field(
        20,
        ge=0,
        le=MAX_COUNT,
        description="Stop after this number of consecutive identical failures of rollouts, or of calls of a tool; "
        "0 for never.",
    )


class LimitOptions(StopOptions):
    """The bounds that users can set."""

    num_samples_in_parallel: Annotated[int, Field(ge=1, le=MAX_COUNT)] | Literal["auto"] = Field(
        64, description="Rollouts in flight at once; `auto` determines how many saturate the engine."
    )
    max_attempts: int = Field(
        3, ge=1, le=MAX_COUNT, description="Attempts at a rollout whose failures are temporary."
    )
    rollout_timeout_s: float | None = Field(
        1800.0, gt=0, allow_inf_nan=False, description="Seconds that an attempt may take; null for no limit."
    )

    @property
    def limits(self) -> RunLimits:
        return RunLimits(
            in_parallel=self.num_samples_in_parallel,
            max_attempts=self.max_attempts,
            rollout_timeout_s=self.rollout_timeout_s,
        )


class SkillsKeys(BaseModel, extra="forbid", frozen=True):
    """The skills of a run."""

    path: str = Field(description="The folder of skills.")


class RoutingOptions(RunOptions):
    """The agents of rows, and the order of rollouts."""

    agent_map: dict[str, str] = Field(
        default_factory=dict,
        description="The agent of rows by the agent or `task_source` that they name; `_default` is for all others.",
    )
    fan_out: dict[str, list[str]] = Field(
        default_factory=dict,
        description="The agents that each attempt the rows of an agent or `task_source`; `_default` is for all others.",
    )
    environment_routing_mode: Literal["agent", "legacy"] = Field(
        "agent",
        description="`legacy`: `environment_server_name` attempts every row. Rows in the form of `taskset` are not "
        "supported: a row names its agent or its `task_source`.",
    )
    environment_server_name: str | None = Field(
        None, description="The environment server that `environment_routing_mode=legacy` uses."
    )
    skills: SkillsKeys | None = Field(
        None, description="`{path}` of a folder of skills; every row names it for agents that offer skills."
    )
    interleave_repeats: bool = Field(
        False, description="Start the first repeat of every task before the second of any."
    )
    dispatch_longest_first: bool = Field(
        False, description="When resuming, start the tasks first whose finished rollouts took longest."
    )

    @model_validator(mode="after")
    def _check_mode(self) -> RoutingOptions:
        if (self.environment_routing_mode == "legacy") is not (self.environment_server_name is not None):
            raise ValueError("environment_routing_mode=legacy and environment_server_name need each other")
        return self


class CompletenessOptions(RunOptions):
    """The time for starting rollouts, and the handling of those without a row."""

    dispatch_budget_s: float | None = Field(
        None, ge=0, description="Start no rollout after this number of seconds; those in flight finish."
    )
    drain_margin_s: float | None = Field(
        None,
        ge=0,
        description="Start no rollout in the last seconds of `dispatch_budget_s`; by default the time in which three "
        "quarters of the rollouts finish.",
    )
    max_resident_rollout_tasks: int | None = Field(
        None,
        ge=1,
        description="An upper bound of rollouts in flight, also for `num_samples_in_parallel=auto`.",
    )
    count_failure_classes_as_zero: list[str] = Field(
        default_factory=list,
        description="Classes of failures that metrics count as reward 0. Rows and failures stay as they are.",
    )
    count_missing_rollouts_as_zero: bool = Field(
        False, description="Count planned rollouts without a row or a failure as reward 0 in metrics."
    )
    require_complete: bool = Field(
        False, description="Exit with 1 instead of 3 if a planned rollout has no row."
    )
    retry_invalid_judge_responses: bool = Field(
        False,
        description="When resuming, attempt rollouts again whose row has a true `invalid_judge_response`; the rows "
        "move to the failures.",
    )
    retry_tool_errors: bool = Field(
        False,
        description="When resuming, attempt rollouts again in which a tool failed by the fault of its environment; "
        "the rows move to the failures.",
    )
    retry_terminal_timeouts: bool = Field(
        False, description="Without effect: a resumed run attempts every failed rollout again."
    )


TRACKER_PACKAGES = {
    "wandb": "wandb",
    "mlflow": "mlflow",
    "trackio": "trackio",
    "tensorboard": "tensorboardX",
}
"""The package of each experiment tracker."""


class TrackingOptions(RunOptions):
    """The experiment trackers that show a run."""

    track: str | list[str] = Field(
        default_factory=list,
        description=f"Trackers that show the run: {', '.join(TRACKER_PACKAGES)}; one or several.",
    )
    track_project: str = Field("nemo-gym", description="The project, or experiment, of the trackers.")
    track_name: str | None = Field(
        None, description="The run's name in the trackers; by default the output's."
    )
    track_samples: int = Field(
        200, ge=0, description="The first rollouts of a start to show as a table in the trackers."
    )

    @property
    def trackers(self) -> list[str]:
        """The names of the trackers."""
        return [self.track] if isinstance(self.track, str) else self.track

    @model_validator(mode="after")
    def _check_trackers(self) -> TrackingOptions:
        for name in self.trackers:
            if name not in TRACKER_PACKAGES:
                raise ValueError(f"track: {name!r} is none of {', '.join(TRACKER_PACKAGES)}")
            if find_spec(TRACKER_PACKAGES[name]) is None:
                package = TRACKER_PACKAGES[name]
                raise ValueError(
                    f"track: {name} needs a package that is not installed: pip install {package}"
                )
        return self


class UntilOptions(RunOptions):
    """The aim of a run that stops by itself."""

    until: str | float | None = Field(
        None,
        description="Stop when the mean is known well enough: `1%` of the range of rewards to either side, `0.02`, or "
        "`a differs from b` for two agents on the same tasks. The draws decide the repeats of each task.",
    )
    generalize: bool = Field(
        False,
        description="With `until`: the mean is that of all tasks like these, of which the file is a random sample; "
        "by default it is that of these tasks.",
    )
    max_rollouts: int | None = Field(
        None,
        ge=1,
        le=MAX_COUNT,
        description="With `until`: the most rollouts of the run, in all of its starts.",
    )
    max_total_tokens: int | None = Field(
        None,
        ge=1,
        le=MOST_TOKENS,
        description="With `until`: draw no rollout once the run's rows have this number of tokens, prompts and answers "
        "together, in all of its starts. Rollouts in flight are finished.",
    )
    reward_range: tuple[float, float] = Field(
        (0.0, 1.0), description="With `until`: the least and the largest reward, as [0,1]."
    )


NoiseClass = Literal["duration", "hex_id", "uuid", "datetime", "tmp_path", "pid", "port", "address"]
"""A class of text that may differ between an attempt and its replay (`nemo_gym.engines.attempts.noise`)."""


class DurabilityOptions(RunOptions):
    """Attempts that continue where they were interrupted."""

    durability: Literal["off", "process", "node"] = Field(
        "off",
        description="Record the model calls of attempts, so that an interrupted attempt continues at its next call: "
        "`process` survives the end of processes, `node` that of a machine (on a shared disk).",
    )
    keep_attempts: Literal["none", "failed", "all"] = Field(
        "none",
        description="The records of attempts to keep after their rollout is settled: `all` for forks.",
    )
    on_mismatch: Literal["restart", "fail"] = Field(
        "restart",
        description="If an attempt cannot continue because its environment does not repeat itself: begin another one "
        "afresh, or fail the rollout.",
    )
    replay_noise: list[NoiseClass] = Field(
        default_factory=list,
        description="Classes of text that may differ when an attempt is replayed: duration, hex_id, uuid, datetime, "
        "tmp_path, pid, port, address. Each use is counted in the row.",
    )
    replay_strict: bool = Field(
        False, description="Changed instructions or tools of a replayed request are a mismatch, too."
    )
    max_replay_staleness: int | None = Field(
        None,
        ge=0,
        le=MAX_COUNT,
        description="The most versions by which the policy of replayed calls may be older than the current one.",
    )


class Amounts(BaseModel, extra="forbid", frozen=True):
    """A budget; None is no limit."""

    tokens: int | None = Field(
        None, ge=1, description="Tokens of prompts and answers, those of judges and users too."
    )
    cost: float | None = Field(None, gt=0, allow_inf_nan=False, description="Money, in the unit of `prices`.")
    seconds: float | None = Field(None, gt=0, allow_inf_nan=False, description="Seconds of attempts.")

    @property
    def limits(self) -> dict[str, float]:
        """The limits by name."""
        return {name: value for name, value in self if value is not None}


class BudgetKeys(BaseModel, extra="forbid", frozen=True):
    """The budgets of a run."""

    rollout: Amounts = Field(Amounts(), description="A rollout above it is truncated, and scored.")
    task: Amounts = Field(Amounts(), description="No rollout of a task above it starts.")
    run: Amounts = Field(Amounts(), description="A run above it ends with the rollouts in flight.")


class PriceKeys(BaseModel, extra="forbid", frozen=True):
    """The price of a million tokens of a model."""

    input: float = Field(ge=0, allow_inf_nan=False, description="Tokens of prompts.")
    cached: float | None = Field(
        None, ge=0, allow_inf_nan=False, description="Cached tokens of prompts; by default as `input`."
    )
    output: float = Field(ge=0, allow_inf_nan=False, description="Tokens of answers.")


class BudgetOptions(RunOptions):
    """The limits of what a run spends, and its prices."""

    budget: BudgetKeys = Field(
        default_factory=BudgetKeys,
        description="`{rollout, task, run}`, each `{tokens, cost, seconds}`: +budget.run.tokens=1000000.",
    )
    prices: dict[str, PriceKeys] = Field(
        default_factory=dict,
        description="The prices of a million tokens by model, each `{input, cached, output}`. The run then counts its "
        "cost.",
    )

    @property
    def has_budget(self) -> bool:
        """Whether the run counts what it spends."""
        return bool(self.prices) or any(amounts.limits for _, amounts in self.budget)


class CollectOptions(
    BudgetOptions,
    RoutingOptions,
    CompletenessOptions,
    TrackingOptions,
    UntilOptions,
    DurabilityOptions,
    StopOptions,
):
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
        False,
        description="Resume even if rows, settings, configuration, code or engines have changed, as `add_tasks`, "
        "`mark_new_code` and `mark_new_engine` do.",
    )
    add_tasks: bool = Field(
        False,
        description="When resuming with changed task rows, find the tasks of earlier rows by their content, attempt "
        "new tasks, and set rows of removed ones aside.",
    )
    mark_new_code: bool = Field(
        False,
        description="When resuming with changed code, keep the earlier rows, and mark those that the new code scores "
        "with `_ng_scored_by`.",
    )
    mark_new_engine: bool = Field(
        False,
        description="When resuming with another engine behind a model server, keep the earlier rows, and mark those "
        "that the new one answers with `_ng_scored_by`.",
    )
    skip_invalid_rows: bool = Field(
        False,
        description="Leave out malformed rows, and rows that their environments cannot read, instead of rejecting the "
        "dataset.",
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
    tags: list[Annotated[str, Field(min_length=1)]] = Field(
        default_factory=list, description="Words by which lists of runs show and find the run."
    )
    input_notes: list[str] = Field(
        default_factory=list,
        description="Notes on the task rows that the summary repeats, such as on tasks that they leave out.",
    )
    write_materialized_inputs: bool = Field(
        True, description="Write the rows in the form in which agents receive them."
    )
    environment_metrics_max_rows: int = Field(
        10_000,
        ge=0,
        description="Compute the environments' own metrics for runs of at most this many rows; 0 for never.",
    )
