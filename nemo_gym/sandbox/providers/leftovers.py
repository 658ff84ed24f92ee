"""Containers that are removed when the process that made them is killed.

A process that ends by itself removes its containers. For one that is killed, a program beside it, in a session of its
own, does so by their label.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
import subprocess
import sys
import time
import uuid
from collections.abc import Sequence

from nemo_gym.processes.program import Program, wait_until_parent_ends

OWNER_LABEL = "nemo-gym.owner"
_SEARCH_S = 20.0
"""Seconds in which containers are looked for: a call of the engine that outlives the process may still make one."""
_PAUSE_S = 0.5
_CALL_S = 60.0


class LeftoverRemover:
    """Removes the containers with `labels` if this process is killed before `close`."""

    def __init__(self, engine: str, remove: Sequence[str]) -> None:
        """`engine` is the program `docker` or `podman`, and `remove` its arguments before the containers to remove.

        Raises OSError if no process can be started.
        """
        owner = uuid.uuid4().hex
        self.labels = {OWNER_LABEL: owner}
        arguments = [str(os.getpid()), f"{OWNER_LABEL}={owner}", engine, *remove]
        self._program = Program(f"{__name__}:remove_after", *arguments, grace_s=_CALL_S)

    def close(self) -> None:
        """End the program: this process has removed its containers. Idempotent."""
        with contextlib.suppress(OSError):  # it has ended
            self._program.channel.send(b".")
        self._program.close()


def remove_after(channel: socket.socket, owner_pid: str, label: str, engine: str, *remove: str) -> None:
    """In the program: wait for the end of the process, and remove its containers unless it has sent its farewell."""
    asyncio.run(wait_until_parent_ends(channel))
    channel.setblocking(False)
    with contextlib.suppress(BlockingIOError):
        if channel.recv(1):
            return
    give_up_at = time.monotonic() + _SEARCH_S
    while time.monotonic() < give_up_at:
        _remove(label, engine, remove)
        time.sleep(_PAUSE_S)
        if os.getppid() == int(owner_pid):
            return  # it ends by itself, and has no call of the engine left


def _remove(label: str, engine: str, remove: Sequence[str]) -> None:
    try:
        found = _call(engine, "ps", "--all", "--quiet", "--filter", f"label={label}").split()
        if found:
            _call(engine, *remove, *found)
    except (OSError, subprocess.SubprocessError) as error:
        sys.stderr.write(f"containers of {label} may be left: {error}\n")


def _call(engine: str, *arguments: str) -> str:
    return subprocess.check_output([engine, *arguments], text=True, timeout=_CALL_S)
