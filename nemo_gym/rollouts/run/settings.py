"""The settings of a collection: its rows, their repeats, the output and the bounds."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from nemo_gym.paths import candidates
from nemo_gym.rollouts.output.files import RunFiles
from nemo_gym.rollouts.output.journal import Existing
from nemo_gym.rollouts.plan.dataset import DatasetFile
from nemo_gym.rollouts.plan.plan import PlanSettings
from nemo_gym.rollouts.run.options import CollectOptions, RunLimits


class CollectSettings(CollectOptions):
    """The settings of one start of a run."""

    datasets: tuple[DatasetFile, ...]
    output: Path
    """`<stem>.jsonl`; the other files of the run are beside it."""
    existing: Existing = Existing.REFUSE
    limits: RunLimits = RunLimits()

    def model_post_init(self, _: object) -> None:
        """Raises `ConfigError` for an invalid output, or one that is an input."""
        named = [
            path for file in self.datasets for path in (file.path, file.prompt_config) if path is not None
        ]
        found = [place for path in named for place in candidates(path)]
        RunFiles.of(self.output).refuse_inputs([*named, *found])

    @property
    def plan(self) -> PlanSettings:
        return PlanSettings(
            datasets=self.datasets,
            limit=self.limit,
            overrides=self.responses_create_params,
            add_seed=self.num_repeats_add_seed,
        )

    def to_json(self) -> dict[str, Any]:
        """Return the settings that the manifest records for a start."""
        return {
            "datasets": [str(file.path) for file in self.datasets],
            "num_samples_in_parallel": self.limits.in_parallel,
            "max_attempts": self.limits.max_attempts,
            "rollout_timeout_s": self.limits.rollout_timeout_s,
            "max_failed_fraction": self.max_failed_fraction,
            "max_masked_fraction": self.max_masked_fraction,
            "skip_invalid_rows": self.skip_invalid_rows,
        }
