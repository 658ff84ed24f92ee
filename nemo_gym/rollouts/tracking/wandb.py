"""Weights & Biases. `WANDB_MODE=offline` works without a network; `wandb sync` sends the run later."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import wandb

from nemo_gym.rollouts.tracking.tracker import SAMPLE_COLUMNS, Sample, TrackedRunInfo, Tracker


class WandbTracker:
    """A run in Weights & Biases."""

    def __init__(self, run: Any, name: str) -> None:
        self._run = run
        self._name = name
        self._table = wandb.Table(columns=list(SAMPLE_COLUMNS), log_mode="INCREMENTAL")

    def log(self, figures: Mapping[str, float], step: int) -> None:
        """Add figures; `step` is the axis, because W&B's own steps must not repeat."""
        self._run.log({**figures, "run/settled": step})

    def add_samples(self, samples: Sequence[Sample], step: int) -> None:
        """Append to the table, of which W&B stores the increments."""
        for sample in samples:
            self._table.add_data(*sample)
        self._run.log({"samples": self._table})

    def add_files(self, paths: Sequence[Path]) -> None:
        """Add an artifact with all files."""
        artifact = wandb.Artifact(f"{self._name}-{self._run.id}", type="rollouts")
        for path in paths:
            artifact.add_file(str(path))
        self._run.log_artifact(artifact)

    def close(self, *, is_complete: bool) -> None:
        """End the run."""
        self._run.finish(exit_code=0 if is_complete else 1)


def start(run: TrackedRunInfo) -> Tracker:
    """Start or continue a run."""
    started = wandb.init(
        id=run.id,
        resume="allow",
        project=run.project,
        name=run.name,
        dir=str(run.folder),
        config=dict(run.settings),
        reinit="create_new",
    )
    started.define_metric("*", step_metric="run/settled")
    return WandbTracker(started, run.name)
