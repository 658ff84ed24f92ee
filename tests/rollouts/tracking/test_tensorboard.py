"""Event files, read by TensorBoard's own reader where it is installed (`make test-trackers`)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.rollouts.tracking.tracked_run import collect_and_resume

pytest.importorskip("tensorboardX")


def events_in(folder: Path) -> Any:
    accumulator = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")
    events = accumulator.EventAccumulator(str(folder), size_guidance={"tensors": 0, "scalars": 0})
    events.Reload()
    return events


async def test_figures_samples_and_files_of_both_starts_are_events(tmp_path: Path) -> None:
    await collect_and_resume(tmp_path, "tensorboard")
    events = events_in(tmp_path / "out_tensorboard")
    assert [event.step for event in events.Scalars("run/settled")][-1] == 5
    assert events.Scalars("simple_agent/mean_reward")[-1].value == pytest.approx(0.4)
    tables = [event.tensor_proto.string_val[0].decode() for event in events.Tensors("samples/text_summary")]
    samples = [line for table in tables for line in table.splitlines()[2:]]
    assert sorted(line.split(" | ")[0] for line in samples) == [f"| {task}" for task in range(5)]
    assert "out.jsonl" in events.Tensors("files/text_summary")[-1].tensor_proto.string_val[0].decode()
