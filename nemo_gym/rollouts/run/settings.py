"""The settings of a collection: its rows, their repeats, the output and the bounds."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from nemo_gym.rollouts.output.journal import Existing
from nemo_gym.rollouts.plan.dataset import DatasetFile
from nemo_gym.rollouts.plan.plan import PlanSettings
from nemo_gym.rollouts.run.collector import RunLimits
from nemo_gym.tokens.masking import MOST_MASKED


@dataclass(frozen=True, slots=True)
class CollectSettings:
    """The settings of one start of a run."""

    datasets: tuple[DatasetFile, ...]
    output: Path
    """`<stem>.jsonl`; the other files of the run stand beside it."""
    limit: int | None = None
    """Rows taken from each dataset."""
    responses_create_params: Mapping[str, Any] = field(default_factory=dict)
    """Laid over those of every row."""
    num_repeats_add_seed: bool = False
    existing: Existing = Existing.REFUSE
    allow_identity_change: bool = False
    """Resume although rows, settings, configuration or code are no longer the same; the change is recorded."""
    skip_invalid_rows: bool = False
    limits: RunLimits = field(default_factory=RunLimits)
    stop_after_identical_failures: int = 20
    """Rollouts that may fail alike, one after the other, before the run is stopped; 0 for any number."""
    max_failed_fraction: float | None = None
    """The share of rollouts that may fail before the run is stopped; None for any."""
    max_masked_fraction: float = MOST_MASKED
    """The share of model calls that may lack tokens to train on, of those that were asked for tokens."""
    write_materialized_inputs: bool = True
    environment_metrics_max_rows: int = 10_000
    """Up to how many rows an agent is asked for its environment's own metrics; 0 for never."""

    @property
    def plan(self) -> PlanSettings:
        return PlanSettings(
            datasets=self.datasets,
            limit=self.limit,
            overrides=self.responses_create_params,
            add_seed=self.num_repeats_add_seed,
        )

    def to_json(self) -> dict[str, Any]:
        """The settings of a start that the manifest records beside the run's identity."""
        return {
            "datasets": [str(file.path) for file in self.datasets],
            "num_samples_in_parallel": self.limits.in_parallel,
            "max_attempts": self.limits.max_attempts,
            "rollout_timeout_s": self.limits.rollout_timeout_s,
            "max_failed_fraction": self.max_failed_fraction,
            "max_masked_fraction": self.max_masked_fraction,
            "skip_invalid_rows": self.skip_invalid_rows,
        }
