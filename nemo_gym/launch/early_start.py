"""The fork server of a gym: started before anything else, because it warms up on another core meanwhile.

This module is the first that a command imports, so it imports next to nothing itself.
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator, Sequence

from nemo_gym.processes.fork_server import ForkServer

FORKS_ARE_SAFE = sys.platform == "linux"
"""Whether a process that has loaded the server stack may be forked here; elsewhere every server is loaded anew."""

_STARTS_NOTHING = ("help", "dry_run=true", "placement=inline")
"""Parts of arguments with which a command starts no server. Where one is overlooked, a server has warmed up in vain."""


def start_fork_server() -> ForkServer:
    """A fork server that loads what servers have in common while the caller goes on."""
    server = ForkServer("nemo_gym.launch._preload" if FORKS_ARE_SAFE else "")
    server.start()
    return server


@contextlib.contextmanager
def early_fork_server(arguments: Sequence[str]) -> Iterator[ForkServer | None]:
    """A fork server for a command that is about to start servers; None where it will not."""
    if any(word in argument for argument in arguments for word in _STARTS_NOTHING):
        yield None
        return
    with contextlib.closing(start_fork_server()) as server:
        yield server
