"""MLflow, at the server of `MLFLOW_TRACKING_URI` or in the folder that MLflow chooses."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from mlflow import MlflowClient
from mlflow.entities import Metric, Param

from nemo_gym.rollouts.tracking.tracker import SAMPLE_COLUMNS, Sample, TrackedRunInfo, Tracker

_ID = "nemo_gym.run"
_LONGEST_PARAMETER = 500
_SAMPLES = "samples.json"


class MlflowTracker:
    """A run in MLflow."""

    def __init__(self, client: Any, run_id: str) -> None:
        self._client = client
        self._run_id = run_id

    def log(self, figures: Mapping[str, float], step: int) -> None:
        """Add figures."""
        now = int(time.time() * 1000)
        metrics = [Metric(name, value, now, step) for name, value in figures.items()]
        self._client.log_batch(self._run_id, metrics=metrics)

    def add_samples(self, samples: Sequence[Sample], step: int) -> None:
        """Append to the table, which MLflow stores as one artifact."""
        columns = dict(zip(SAMPLE_COLUMNS, map(list, zip(*samples, strict=True)), strict=True))
        self._client.log_table(self._run_id, columns, _SAMPLES)

    def add_files(self, paths: Sequence[Path]) -> None:
        """Add the files as artifacts."""
        for path in paths:
            self._client.log_artifact(self._run_id, str(path))

    def close(self, *, is_complete: bool) -> None:
        """End the run."""
        self._client.set_terminated(self._run_id, "FINISHED" if is_complete else "FAILED")


def start(run: TrackedRunInfo) -> Tracker:
    """Start or continue a run."""
    client = MlflowClient()
    experiment = client.get_experiment_by_name(run.project)
    experiment_id = experiment.experiment_id if experiment else client.create_experiment(run.project)
    found = client.search_runs([experiment_id], f"tags.`{_ID}` = '{run.id}'")
    if found:
        run_id = found[0].info.run_id
        client.update_run(run_id, status="RUNNING")
    else:
        run_id = client.create_run(experiment_id, run_name=run.name, tags={_ID: run.id}).info.run_id
        params = [Param(key, str(value)[:_LONGEST_PARAMETER]) for key, value in run.settings.items()]
        client.log_batch(run_id, params=params)
    return MlflowTracker(client, run_id)
