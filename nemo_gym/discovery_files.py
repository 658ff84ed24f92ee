"""The discovery files of a folder: each holds the configuration of one running gym, with all addresses.

The first gym of a folder has no name, and its file is `.nemo_gym_global_config.yaml`. Every other gym of the folder has
a name, and its file is `.nemo_gym_global_config.<name>.yaml`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import datetime
from pathlib import Path
from typing import Any

from nemo_gym.failures import ConfigError

DISCOVERY_FILE = ".nemo_gym_global_config.yaml"
"""The discovery file of a gym without a name."""
RUN_KEY = "_ng_run"
"""In a discovery file: the run's token, process id and head server URL."""
NO_NAME = ""
"""The discovery name of the first gym of a folder."""
_CLOCK_SLACK_S = 60.0
"""The start of a process is computed from that of the machine, so it moves when the clock is set."""
_NAMED_FILE = re.compile(r"\.nemo_gym_global_config\.([\w-]+)\.yaml")


def discovery_path(folder: Path, name: str = NO_NAME) -> Path:
    """Return the discovery file of the gym `name` in `folder`."""
    return folder / (f".nemo_gym_global_config.{name}.yaml" if name else DISCOVERY_FILE)


def discovery_names(folder: Path) -> list[str]:
    """Return the names of the discovery files in `folder`, that of the gym without a name first."""
    matches = (_NAMED_FILE.fullmatch(path.name) for path in folder.glob(".nemo_gym_global_config.*.yaml"))
    named = sorted(match[1] for match in matches if match)
    return [NO_NAME, *named] if discovery_path(folder).exists() else named


def name_to_read(folder: Path, name: str | None = None) -> str:
    """Return the name of the gym to use in `folder`: `name`, else the gym without a name, else the only one.

    Raises `ConfigError` if no gym has the name, or if none is given and several have one.
    """
    names = discovery_names(folder)
    if name is not None and name not in names:
        raise ConfigError(
            f"no gym with the discovery name {name!r} was started in {folder}",
            code="unknown_discovery_name",
            remedy=_choices(names) if any(names) else "Leave +discovery_name out.",
        )
    if name is not None or NO_NAME in names or not names:
        return name or NO_NAME
    if len(names) > 1:
        raise ConfigError(
            f"several gyms run in {folder}, and each has a discovery name",
            code="several_gyms",
            remedy=_choices(names),
        )
    return names[0]


def read_discovery(folder: Path, name: str = NO_NAME) -> dict[str, Any] | None:
    """Return the content of a discovery file: empty if it is damaged, None if there is no file.

    Raises `ConfigError` if it cannot be read. No message quotes the file, because it holds secrets.
    """
    import yaml

    path = discovery_path(folder, name)
    try:
        content = yaml.load(path.read_bytes(), Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))
    except FileNotFoundError:
        return None
    except OSError as error:
        raise ConfigError(f"cannot read {path}: {error.strerror}", code="discovery_unreadable") from error
    except (yaml.YAMLError, UnicodeDecodeError):
        return {}
    return content if isinstance(content, dict) else {}


def run_in(discovery: Mapping[str, Any] | None) -> Mapping[str, Any]:
    """Return what a discovery file holds of its run."""
    run = discovery.get(RUN_KEY) if discovery is not None else None
    return run if isinstance(run, Mapping) else {}


def is_alive(pid: int, since: str | None = None) -> bool:
    """Return whether the process runs, and, if its pid is used again, whether it ran at the time `since` (ISO 8601)."""
    import psutil

    try:
        began = psutil.Process(pid).create_time()
    except psutil.NoSuchProcess:
        return False
    try:
        return since is None or began <= datetime.fromisoformat(since).timestamp() + _CLOCK_SLACK_S
    except ValueError:
        return True


def _choices(names: list[str]) -> str:
    return f"Choose one: {', '.join(f'+discovery_name={each}' for each in names if each)}."
