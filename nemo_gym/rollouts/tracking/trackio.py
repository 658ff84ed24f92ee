"""Trackio, which stores runs in a local database; `trackio show` shows them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import trackio

from nemo_gym.rollouts.tracking.tracker import SAMPLE_COLUMNS, Sample, TrackedRunInfo, Tracker


class TrackioTracker:
    """A run in Trackio."""

    def __init__(self, run: Any, name: str) -> None:
        self._run = run
        self._name = name

    def log(self, figures: Mapping[str, float], step: int) -> None:
        """Add figures."""
        self._run.log(dict(figures), step=step)

    def add_samples(self, samples: Sequence[Sample], step: int) -> None:
        """Add a table with the new samples; Trackio keeps every table of a run."""
        table = trackio.Table(columns=list(SAMPLE_COLUMNS), data=[list(sample) for sample in samples])
        self._run.log({"samples": table}, step=step)

    def add_files(self, paths: Sequence[Path]) -> None:
        """Add an artifact with all files."""
        artifact = trackio.Artifact(self._name, type="rollouts")
        for path in paths:
            artifact.add_file(path)
        self._run.log_artifact(artifact)

    def close(self, *, is_complete: bool) -> None:
        """End the run."""
        self._run.finish()


def start(run: TrackedRunInfo) -> Tracker:
    """Start or continue a run."""
    name = f"{run.name}-{run.id[:8]}"
    started = trackio.init(project=run.project, name=name, resume="allow", config=dict(run.settings))
    return TrackioTracker(started, name)
