"""The two files that announce a running gym.

Both are readable only by this user, replaced atomically, and removed at the end:
- `.nemo_gym_global_config.yaml` in the working folder: the configuration with every address, secrets hidden,
  and `_ng_run` with the run's pid, token, start and head URL. Tools started in the same folder read it.
- `<pid>-<port>.json` in this user's registry folder: the servers and their states. `ng_status` reads all of them to
  find running gyms.
"""

from __future__ import annotations

import contextlib
import json
import os
import tempfile
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from nemo_gym.launch.errors import LaunchError
from nemo_gym.paths import DISCOVERY_FILE, RUN_KEY, read_discovery, run_in


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


@dataclass(frozen=True, slots=True)
class GymRecord:
    """The last recorded state of a running gym."""

    run: RunRecord
    directory: str
    """The working folder of the launcher."""
    servers: tuple[ServerRecord, ...]

    @classmethod
    def from_json(cls, text: str) -> GymRecord:
        data = json.loads(text)
        servers = tuple(ServerRecord(**server) for server in data["servers"])
        return cls(RunRecord(**data["run"]), data["directory"], servers)

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

    def running(self) -> list[GymRecord]:
        """The gyms whose launcher is alive, oldest first; records of dead ones are removed."""
        records = []
        for path in self.folder.glob("*.json"):
            if not is_alive(int(path.stem.partition("-")[0])):
                path.unlink(missing_ok=True)
                continue
            # It has ended meanwhile, or is of another version of the gym.
            with contextlib.suppress(FileNotFoundError, ValueError, KeyError, TypeError):
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


def write_discovery(folder: Path, config: Mapping[str, Any], run: RunRecord) -> int | None:
    """Write the discovery file into `folder`. Returns the pid of another running gym whose file it replaced."""
    import yaml

    from nemo_gym.config.secrets import hide_secrets

    earlier = discovery_owner(folder)
    document = {RUN_KEY: asdict(run), **hide_secrets(dict(config))}
    dumper = getattr(yaml, "CSafeDumper", yaml.SafeDumper)
    write_private(folder / DISCOVERY_FILE, yaml.dump(document, Dumper=dumper, sort_keys=False))
    return earlier if earlier is not None and earlier != run.pid and is_alive(earlier) else None


def remove_discovery(folder: Path, run: RunRecord) -> None:
    """Remove the discovery file unless another gym has replaced it."""
    if discovery_owner(folder) == run.pid:
        (folder / DISCOVERY_FILE).unlink(missing_ok=True)


def discovery_owner(folder: Path) -> int | None:
    """The pid in the discovery file of `folder`; None if there is no valid file."""
    pid = run_in(read_discovery(folder)).get("pid")
    return pid if isinstance(pid, int) else None


def is_alive(pid: int) -> bool:
    import psutil

    return bool(psutil.pid_exists(pid))


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
