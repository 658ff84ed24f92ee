"""Runs of Trackio in a local database (`make test-trackers`)."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.rollouts.tracking.tracked_run import collect_and_resume

pytest.importorskip("trackio")
pytestmark = pytest.mark.filterwarnings("ignore")


async def test_both_starts_are_one_run_with_figures_tables_and_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from trackio import sqlite_storage

    monkeypatch.setattr(sqlite_storage, "TRACKIO_DIR", tmp_path / "trackio")
    summaries = await collect_and_resume(tmp_path, "trackio")
    assert not [note for summary in summaries for note in summary.notes if "tracker" in note]
    storage = sqlite_storage.SQLiteStorage
    (run,) = storage.get_runs("nemo-gym")
    logs = storage.get_logs("nemo-gym", run)
    assert max(log.get("run/settled", 0) for log in logs) == 5
    samples = [row for log in logs if "samples" in log for row in log["samples"]["_value"]]
    assert sorted(row["task"] for row in samples) == [0, 1, 2, 3, 4]
    assert storage.get_artifacts("nemo-gym")
