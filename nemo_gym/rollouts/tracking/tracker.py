"""The interface of a tracker. All methods may block; they are called one at a time, from a thread."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from nemo_gym.failures import ConfigError

SAMPLE_COLUMNS = ("task", "repeat", "agent", "reward", "outcome", "prompt", "answer")
Sample = tuple[int, int, str, float, str, str, str]
"""A rollout in the table of samples: a value for each of `SAMPLE_COLUMNS`."""


class TrackedRunInfo(NamedTuple):
    """The identity of a run in a tracker."""

    id: str
    """The same in all starts of the run, so that a resumed run continues."""
    project: str
    name: str
    folder: Path
    """The folder of the output."""
    settings: Mapping[str, Any]


class Tracker(Protocol):
    """One run in a tracker."""

    def log(self, figures: Mapping[str, float], step: int) -> None:
        """Add figures at a step: the number of settled rollouts."""

    def add_samples(self, samples: Sequence[Sample], step: int) -> None:
        """Append to the table of samples."""

    def add_files(self, paths: Sequence[Path]) -> None:
        """Keep the run's files."""

    def close(self, *, is_complete: bool) -> None:
        """End the run."""


def start_tracker(name: str, run: TrackedRunInfo) -> Tracker:
    """Start or continue a run in the tracker `name`. Raises `ConfigError` if that fails, such as without a login."""
    try:
        tracker: Tracker = import_module(f"nemo_gym.rollouts.tracking.{name}").start(run)
    except Exception as error:
        raise ConfigError(
            f"the tracker {name} cannot be started: {error}",
            code="tracker_failed",
            param="track",
            remedy="Check its login and its address, or leave out +track.",
        ) from error
    return tracker


def render_markdown(samples: Sequence[Sample]) -> str:
    """Return a table of samples, for trackers without tables."""
    lines = [SAMPLE_COLUMNS, ("---",) * len(SAMPLE_COLUMNS), *(map(_cell, sample) for sample in samples)]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _cell(value: object) -> str:
    return str(value).replace("|", "\\|").replace("\r", "").replace("\n", "<br>")
