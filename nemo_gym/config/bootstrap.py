"""The document that a server process starts with: its name, the resolved configuration and its listening sockets.

The launcher writes a `Bootstrap` as JSON into an anonymous file. The child inherits the descriptor, and the environment
variable `NEMO_GYM_BOOTSTRAP_FD` holds its number. No secret therefore appears on a command line, in the environment or
on disk, and processes that the server starts later inherit neither the descriptor nor the variable.

The launcher imports this module too, so it has no heavy imports.
"""

from __future__ import annotations

import json
import os
import sys
import threading
from dataclasses import asdict, dataclass
from typing import Any

BOOTSTRAP_FD_VARIABLE = "NEMO_GYM_BOOTSTRAP_FD"
"""The environment variable with the number of the descriptor that the `Bootstrap` is read from."""


@dataclass(frozen=True, slots=True)
class Bootstrap:
    """The input of one server process."""

    server_name: str
    """The instance name; `head_server` for the head server."""
    global_config: dict[str, Any]
    """The resolved configuration, with `host` and `port` of every instance, secrets included."""
    run_token: str
    """The token that control routes require (`x-ng-token`)."""
    cookie_key: str
    """The key that signs session cookies: random per run, the same for all servers of a run."""
    listen_fds: list[int]
    """Descriptors, in this process, of its bound and listening sockets."""
    replica: int = 0
    """The index of this process among the instance's replicas, from 0."""
    generation: int | None = None
    """One more than the nodes that this replica has lost; None if it cannot move."""

    def write_to_fd(self) -> int:
        """Return a descriptor for one `read_from_fd`. The caller closes it."""
        payload = json.dumps(asdict(self)).encode()
        if sys.platform == "linux":
            fd = os.memfd_create("nemo_gym_bootstrap", os.MFD_CLOEXEC)
            with os.fdopen(fd, "wb", closefd=False) as file:
                file.write(payload)
            os.lseek(fd, 0, os.SEEK_SET)
            return fd
        reader, writer = os.pipe()
        # A configuration may exceed the 64 KiB of a pipe, so a thread waits for the reader.
        threading.Thread(target=_write_and_close, args=(writer, payload), daemon=True).start()
        return reader

    @classmethod
    def read_from_fd(cls, fd: int) -> Bootstrap:
        """Read a bootstrap from `fd`, and close it."""
        with os.fdopen(fd, "rb") as file:
            return cls(**json.loads(file.read()))


def current() -> Bootstrap | None:
    """Return the bootstrap of this process, or None if no launcher started it.

    The first call reads and closes the inherited descriptor and removes the environment variable. Later calls return
    the same object.
    """
    global _current
    name = os.environ.pop(BOOTSTRAP_FD_VARIABLE, None)
    if name is not None:
        _current = Bootstrap.read_from_fd(int(name))
    return _current


def set_current(bootstrap: Bootstrap | None) -> None:
    """Replace the inherited bootstrap, for inline placement and tests. None removes it."""
    global _current
    _current = bootstrap


def _write_and_close(fd: int, payload: bytes) -> None:
    with os.fdopen(fd, "wb") as file:
        file.write(payload)


_current: Bootstrap | None = None
