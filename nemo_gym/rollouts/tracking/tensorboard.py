"""TensorBoard's event files, in `<stem>_tensorboard/` beside the output. It keeps no files, so it names them."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tensorboardX import SummaryWriter

from nemo_gym.rollouts.tracking.tracker import Sample, TrackedRunInfo, Tracker, render_markdown


class TensorboardTracker:
    """The event files of a run."""

    def __init__(self, writer: Any) -> None:
        self._writer = writer
        self._step = 0

    def log(self, figures: Mapping[str, float], step: int) -> None:
        """Add figures."""
        self._step = step
        for name, value in figures.items():
            self._writer.add_scalar(name, value, step)

    def add_samples(self, samples: Sequence[Sample], step: int) -> None:
        """Add a table with the new samples at this step."""
        self._writer.add_text("samples", render_markdown(samples), step)

    def add_files(self, paths: Sequence[Path]) -> None:
        """Name the files."""
        self._writer.add_text("files", "\n".join(f"- {path}" for path in paths), self._step)

    def close(self, *, is_complete: bool) -> None:
        """Write the rest of the events."""
        self._writer.close()


def start(run: TrackedRunInfo) -> Tracker:
    """Start or continue a run."""
    folder = run.folder / f"{run.name}_tensorboard"
    # Files are named by the second, and starts within one second must not share a file.
    return TensorboardTracker(SummaryWriter(str(folder), filename_suffix=f".{time.time_ns()}"))
