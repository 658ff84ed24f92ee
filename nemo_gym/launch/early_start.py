"""The fork server of a gym, started before anything else so that it preloads on another core.

Commands import this module first, so it imports almost nothing itself.
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator, Sequence

from nemo_gym.processes.fork_server import ForkServer

FORKS_ARE_SAFE = sys.platform == "linux"
"""True if a process with the loaded server stack can be forked here; elsewhere every server gets a new interpreter."""

_STARTS_NOTHING = ("help", "dry_run=true", "placement=inline")
"""Parts of arguments with which a command starts no server. A missed one only wastes a fork server."""

NEEDED_TO_START = ("nemo_gym.launch.serving", "nemo_gym.launch.reporting")
"""The modules with which a command starts servers."""
NEEDED_INLINE = (*NEEDED_TO_START, "nemo_gym.launch._inline_spawner")
"""The same for servers in the command's own process."""


def start_fork_server(preload: str = "nemo_gym.launch._preload") -> ForkServer:
    """Start a fork server that preloads a module in parallel, by default the common modules of servers."""
    server = ForkServer(preload if FORKS_ARE_SAFE else "")
    server.start()
    return server


@contextlib.contextmanager
def early_fork_server(arguments: Sequence[str]) -> Iterator[ForkServer | None]:
    """A fork server for a command that starts servers; None if `arguments` start none."""
    if any(word in argument for argument in arguments for word in _STARTS_NOTHING):
        yield None
        return
    with contextlib.closing(start_fork_server()) as server:
        yield server
