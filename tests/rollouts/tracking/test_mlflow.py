"""Runs of MLflow in a local store (`make test-trackers`)."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.rollouts.tracking.tracked_run import collect_and_resume

mlflow = pytest.importorskip("mlflow")
pytestmark = pytest.mark.filterwarnings("ignore")


async def test_both_starts_are_one_run_with_figures_a_table_and_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    mlflow.set_tracking_uri(f"sqlite:///{tmp_path / 'mlflow.db'}")
    await collect_and_resume(tmp_path, "mlflow")
    client = mlflow.MlflowClient()
    experiment = client.get_experiment_by_name("nemo-gym")
    (run,) = client.search_runs([experiment.experiment_id])
    assert (run.info.status, run.info.run_name) == ("FINISHED", "out")
    assert run.data.metrics["run/settled"] == 5
    assert len({metric.step for metric in client.get_metric_history(run.info.run_id, "run/settled")}) > 1
    names = {entry.path for entry in client.list_artifacts(run.info.run_id)}
    assert {"samples.json", "out.jsonl", "out_run.json", "out_aggregate_metrics.json"} <= names
    table = mlflow.artifacts.load_dict(f"{run.info.artifact_uri}/samples.json")
    assert sorted(row[table["columns"].index("task")] for row in table["data"]) == [0, 1, 2, 3, 4]
