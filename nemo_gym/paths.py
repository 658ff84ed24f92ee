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


def candidates(name: str | Path) -> tuple[Path, ...]:
    """The places that `name` may mean, best first; one of them when it is absolute."""
    return tuple(dict.fromkeys(folder / Path(name).expanduser() for folder in (WORKING_DIR, *GYM_FOLDERS)))


def find_file(name: str | Path) -> Path:
    """The first place where the file exists; where there is none, the first place, for the error to name."""
    places = candidates(name)
    return next((place for place in places if place.is_file()), places[0])
