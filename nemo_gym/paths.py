"""Where a relative path of a configuration points: to where the command was started, else to the gym's folder. And
the file there that tells where a gym listens."""

from __future__ import annotations

from pathlib import Path

from nemo_gym import PARENT_DIR, WORKING_DIR

GYM_FOLDERS = (PARENT_DIR, PARENT_DIR / "nemo_gym")
"""The gym's own folders: the one that holds the package, and the package itself, where a wheel puts `configs/`."""
DISCOVERY_FILE = ".nemo_gym_global_config.yaml"
"""What a running gym keeps in the folder that it was started in: its configuration with all addresses."""
RUN_KEY = "_ng_run"
"""Where in that file the run's own facts are: its token, the process, the URL of its head server."""


def candidates(name: str | Path, working_directory: Path = WORKING_DIR) -> tuple[Path, ...]:
    """The places that `name` may mean, best first; a single one when it is absolute."""
    folders = (working_directory, *GYM_FOLDERS)
    return tuple(dict.fromkeys(folder / Path(name).expanduser() for folder in folders))


def find_file(name: str | Path, working_directory: Path = WORKING_DIR) -> Path | None:
    """The file that `name` means; None when it is in neither place."""
    return next((place for place in candidates(name, working_directory) if place.is_file()), None)


def display_path(path: Path, working_directory: Path) -> str:
    """`path` as a person in the working directory would write it."""
    return str(path.relative_to(working_directory)) if path.is_relative_to(working_directory) else str(path)
