"""The shards of a run."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from nemo_gym.rollouts.run.run_metrics import RunMetrics, write_document
from tests.rollouts.stored_runs import store


def store_shard(path: Path, rows: list[dict[str, Any]]) -> Path:
    """A shard with the metrics that its own run would have written."""
    scored = [row for row in rows if "reward" in row]
    store(path, scored, [row for row in rows if "reward" not in row])
    metrics = RunMetrics()
    for row in rows:
        metrics.note_row(row)
    path.with_name(f"{path.stem}_aggregate_metrics.json").write_bytes(
        b"".join(write_document(metrics.results({})))
    )
    return path
