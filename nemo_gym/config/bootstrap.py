"""What a server process is told at its birth: who it is, the resolved configuration, and its listening sockets.

The launcher writes a `Bootstrap` as JSON into an anonymous file and leaves the descriptor open in the child,
named by the environment variable `NEMO_GYM_BOOTSTRAP_FD`. So nothing secret stands on a command line, in the
environment or on disk, and a process that the server starts later inherits neither the descriptor nor the name.

This module is imported by the launcher too and stays free of heavy imports.
"""

from __future__ import annotations

import json
import os
import sys
import threading
from dataclasses import asdict, dataclass
from typing import Any

BOOTSTRAP_FD_VARIABLE = "NEMO_GYM_BOOTSTRAP_FD"
"""The environment variable that names the descriptor to read the `Bootstrap` from."""


@dataclass(frozen=True, slots=True)
class Bootstrap:
    """Everything one server process needs to begin."""

    server_name: str
    """The instance name; `head_server` for the head server."""
    global_config: dict[str, Any]
    """The resolved configuration, with `host` and `port` of every instance, secrets included."""
    run_token: str
    """The token that control routes ask for (`x-ng-token`)."""
    cookie_key: str
    """Signs the session cookies; the same for every server of a run, random per run."""
    listen_fds: list[int]
    """Descriptors of the bound and listening sockets that this process serves, in this process's numbering."""
    replica: int = 0
    """Which of the instance's `num_workers` processes this is, counted from 0."""

    def write_to_fd(self) -> int:
        """A descriptor from which this bootstrap can be read once, by `read_from_fd`; the caller closes it."""
        payload = json.dumps(asdict(self)).encode()
        if sys.platform == "linux":
            fd = os.memfd_create("nemo_gym_bootstrap", os.MFD_CLOEXEC)
            _write_all(fd, payload)
            os.lseek(fd, 0, os.SEEK_SET)
            return fd
        reader, writer = os.pipe()
        # A pipe holds 64 KiB and a configuration may be longer, so the writer waits for the reader elsewhere.
        threading.Thread(target=_write_and_close, args=(writer, payload), daemon=True).start()
        return reader

    @classmethod
    def read_from_fd(cls, fd: int) -> Bootstrap:
        """The bootstrap written to `fd`, which is closed."""
        with os.fdopen(fd, "rb") as file:
            return cls(**json.loads(file.read()))


def current() -> Bootstrap | None:
    """The bootstrap of this process, or None where no launcher started it.

    The first call takes it from the inherited descriptor, closes that and removes the environment variable;
    later calls return the same object.
    """
    global _current
    name = os.environ.pop(BOOTSTRAP_FD_VARIABLE, None)
    if name is not None:
        _current = Bootstrap.read_from_fd(int(name))
    return _current


def set_current(bootstrap: Bootstrap | None) -> None:
    """Stand `bootstrap` in for the inherited one: inline placement and tests. None forgets it."""
    global _current
    _current = bootstrap


def _write_all(fd: int, payload: bytes) -> None:
    view = memoryview(payload)
    while view:
        view = view[os.write(fd, view) :]


def _write_and_close(fd: int, payload: bytes) -> None:
    with os.fdopen(fd, "wb") as file:
        file.write(payload)


_current: Bootstrap | None = None
