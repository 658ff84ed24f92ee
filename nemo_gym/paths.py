"""Resolution of relative paths in configurations: the working directory first, then the gym's folders.

Also the name of the discovery file, which holds the addresses of a running gym.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from nemo_gym import PARENT_DIR, WORKING_DIR

GYM_FOLDERS = (PARENT_DIR, PARENT_DIR / "nemo_gym")
"""The gym's own folders: the one that holds the package, and the package itself, where a wheel puts `configs/`."""
DISCOVERY_FILE = ".nemo_gym_global_config.yaml"
"""The discovery file in the working directory of a running gym: its configuration with all addresses."""
RUN_KEY = "_ng_run"
"""In the discovery file: the run's token, process id and head server URL."""


def candidates(name: str | Path, working_directory: Path = WORKING_DIR) -> tuple[Path, ...]:
    """Return the candidate paths of `name` in order of precedence; an absolute path is the only candidate."""
    folders = (working_directory, *GYM_FOLDERS)
    return tuple(dict.fromkeys(folder / Path(name).expanduser() for folder in folders))


def find_file(name: str | Path, working_directory: Path = WORKING_DIR) -> Path | None:
    """Return the first candidate that is a file, or None."""
    return next((place for place in candidates(name, working_directory) if place.is_file()), None)


def resolve_for_reading(rel_path: str | Path, *, validator: Callable[[Path], bool] | None = None) -> Path:
    """Return the first candidate that exists, or that `validator` accepts; else the first candidate."""
    places = candidates(rel_path, Path.cwd())
    return next(filter(validator or Path.exists, places), places[0])


def display_path(path: Path, working_directory: Path) -> str:
    """Return `path` relative to the working directory if it is inside, else unchanged."""
    return str(path.relative_to(working_directory)) if path.is_relative_to(working_directory) else str(path)
