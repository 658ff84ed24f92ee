"""The two files that announce a running gym.

Both are readable only by this user, replaced atomically, and removed at the end:
- the discovery file in the working folder, `.nemo_gym_global_config.yaml` for the folder's first gym: the
  configuration with every address, secrets hidden, and `_ng_run` with the run's pid, token, start and head URL. Tools
  started in the same folder read it.
- `<pid>-<port>.json` in this user's registry folder: the servers and their states. `ng_status` reads all of them to
  find running gyms.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from itertools import chain, count
from pathlib import Path
from typing import Any

from nemo_gym.discovery_files import (
    NO_NAME,
    RUN_KEY,
    discovery_names,
    discovery_path,
    is_alive,
    read_discovery,
    run_in,
)
from nemo_gym.failures import ConfigError
from nemo_gym.launch.errors import LaunchError


@dataclass(frozen=True, slots=True)
class RunRecord:
    """The process of a gym, its start time and its token."""

    pid: int
    token: str
    started_at: str
    """ISO 8601, UTC."""
    head: str
    """The head server's URL."""
    logs: str = ""
    """The folder with a log for each server."""
    ca: str | None = None
    """The file of certificates that callers trust; None without TLS."""


@dataclass(frozen=True, slots=True)
class ServerRecord:
    """The last recorded state of one server process."""

    name: str
    kind: str
    implementation: str
    replica: int
    url: str
    state: str
    pid: int | None
    restarts: int
    log: str
    node: str = ""
    """The node of its process; empty for the launcher's machine."""
    generation: int = 0
    """One more than the nodes that it has lost; 0 on the launcher's machine."""


@dataclass(frozen=True, slots=True)
class NodeRecord:
    """The last recorded state of one machine of a gym."""

    name: str
    state: str
    """`starting`, `up` or `lost`."""
    load: float
    """The load average of its last minute, as of seconds ago."""
    losses: int
    """How often it was lost."""
    address: str = ""
    """The address of its servers; empty before it is up."""
    log: str = ""
    """The output of its node host."""


@dataclass(frozen=True, slots=True)
class GymRecord:
    """The last recorded state of a running gym."""

    run: RunRecord
    directory: str
    """The working folder of the launcher."""
    servers: tuple[ServerRecord, ...]
    name: str = NO_NAME
    """Its discovery name."""
    nodes: tuple[NodeRecord, ...] = ()
    """The machines of its servers; none if it runs on the launcher's."""

    @classmethod
    def from_json(cls, text: str) -> GymRecord:
        from pydantic import TypeAdapter

        return TypeAdapter(cls).validate_json(text)

    def to_json(self) -> str:
        return json.dumps(asdict(self))


class Registry:
    """The folder with the records of this user's running gyms."""

    def __init__(self, folder: Path | None = None) -> None:
        self.folder = folder or default_registry_folder()

    def write(self, record: GymRecord) -> None:
        _make_private_folder(self.folder)
        write_private(self._path(record.run), record.to_json())

    def remove(self, run: RunRecord) -> None:
        self._path(run).unlink(missing_ok=True)

    def list_running(self) -> list[GymRecord]:
        """The gyms whose launcher is alive, oldest first; records of dead ones are removed."""
        records = []
        for path in self.folder.glob("*.json"):
            if not is_alive(int(path.stem.partition("-")[0])):
                path.unlink(missing_ok=True)
                continue
            # It has ended meanwhile, or is of another version of the gym.
            with contextlib.suppress(FileNotFoundError, ValueError):
                records.append(GymRecord.from_json(path.read_text(encoding="utf-8")))
        return sorted(records, key=lambda record: record.run.started_at)

    def _path(self, run: RunRecord) -> Path:
        # One process may run several gyms, which differ in the ports of their head servers.
        return self.folder / f"{run.pid}-{run.head.rpartition(':')[2]}.json"


def default_registry_folder() -> Path:
    """`$XDG_RUNTIME_DIR/nemo_gym`, or a folder per user in the temporary folder."""
    runtime = os.environ.get("XDG_RUNTIME_DIR")
    if runtime and os.access(runtime, os.W_OK):
        return Path(runtime) / "nemo_gym"
    return Path(tempfile.gettempdir()) / f"nemo_gym-{os.getuid()}"


def write_discovery(folder: Path, config: Mapping[str, Any], run: RunRecord, name: str | None = None) -> str:
    """Write a discovery file into `folder`, and return its name.

    It is `name`. By default the gym has no name, or a number if a gym without a name runs in the folder. Files of
    gyms that were killed are removed. Raises `ConfigError` if a running gym of the folder has the name.
    """
    with _locked(folder):
        taken = _list_running_gyms(folder)
        if name in taken:
            raise ConfigError(
                f"the gym of pid {taken[name]} in {folder} has the discovery name {name!r} already",
                code="discovery_name_taken",
                remedy="Choose another +discovery_name, or leave it out.",
            )
        if name is None:
            name = next(each for each in chain([NO_NAME], map(str, count(2))) if each not in taken)
        write_private(discovery_path(folder, name), discovery_text(config, run))
    return name


def discovery_text(config: Mapping[str, Any], run: RunRecord) -> str:
    """Return the content of a discovery file, without secrets."""
    import yaml

    from nemo_gym.config.secrets import hide_secrets

    document = {RUN_KEY: asdict(run), **hide_secrets(dict(config))}
    text: str = yaml.dump(document, Dumper=getattr(yaml, "CSafeDumper", yaml.SafeDumper), sort_keys=False)
    return text


def remove_discovery(folder: Path, run: RunRecord) -> None:
    """Remove the discovery file of a run."""
    for name in discovery_names(folder):
        owner = run_in(read_discovery(folder, name))
        if (owner.get("pid"), owner.get("head")) == (run.pid, run.head):
            discovery_path(folder, name).unlink(missing_ok=True)


def _list_running_gyms(folder: Path) -> dict[str, int]:
    """Return the pids of running gyms by discovery name, and remove the named files of gyms that were killed."""
    taken = {}
    for name in discovery_names(folder):
        run = run_in(read_discovery(folder, name))
        pid = run.get("pid")
        if isinstance(pid, int) and is_alive(pid, str(run.get("started_at"))):
            taken[name] = pid
        elif name:
            discovery_path(folder, name).unlink(missing_ok=True)
    return taken


@contextlib.contextmanager
def _locked(folder: Path) -> Iterator[None]:
    """Hold the lock of a folder, so that two gyms that start at once get different names."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        with contextlib.suppress(OSError):  # some network file systems have no locks
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def write_private(path: Path, text: str) -> None:
    """Replace `path` atomically with a file that only this user can read."""
    fresh = path.with_name(f".{path.name}.{os.getpid()}")
    descriptor = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        file.write(text)
    fresh.replace(path)


def _make_private_folder(folder: Path) -> None:
    """Create `folder`, or refuse one that another user owns or can enter."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    status = folder.stat()
    if status.st_uid != os.getuid() or status.st_mode & 0o077:
        raise LaunchError(
            f"{folder} belongs to another user or is open to others, so the gym's token cannot be stored there",
            code="registry_unsafe",
            remedy="Remove it, or set XDG_RUNTIME_DIR to a folder of your own.",
            peer=str(folder),
        )
