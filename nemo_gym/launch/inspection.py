"""Validation of server options by the servers' own config classes, in forks of a fork server.

    with inspector() as inspect:
        config = load(arguments, inspect=inspect)

A command that starts servers passes its fork server. Others get one that imports only the modules that implementations
import first; it does so while the command reads its configuration.
"""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import time
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from importlib import import_module
from itertools import groupby
from pathlib import Path
from typing import Any

from nemo_gym.config.options import Inspect, Inspection
from nemo_gym.config.servers import ServerInstance
from nemo_gym.launch.early_start import start_fork_server
from nemo_gym.launch.errors import LaunchError
from nemo_gym.processes import messages
from nemo_gym.processes.fork_server import ForkServer

IMPORT_TIMEOUT_S = 120.0
"""Seconds that all imports may take together. The start of a server has its own limit."""
CHANNEL_FD = 3
"""The descriptor of the socket to the command in a fork."""


@contextlib.contextmanager
def inspector(fork_server: ForkServer | None = None, *, needed_next: Sequence[str] = ()) -> Iterator[Inspect]:
    """A function that inspects servers in forks of `fork_server`, by default of a fork server of its own.

    The modules `needed_next` are imported here while the forks work, so that the command has them afterwards.
    """
    with contextlib.ExitStack() as own:
        if fork_server is None:
            fork_server = start_fork_server("nemo_gym.base_resources_server")
            own.callback(fork_server.close)
        yield partial(inspect, fork_server, needed_next=needed_next)


def inspect(
    fork_server: ForkServer,
    servers: Sequence[ServerInstance],
    data: Mapping[str, Any],
    *,
    needed_next: Sequence[str] = (),
) -> dict[str, Inspection]:
    """Return the inspections by server name. Each implementation is imported once, in a fork of its own.

    Two implementations may therefore have modules of the same name, and one that ends its process does not end the
    others. Raises `LaunchError` if no process can be forked.
    """
    by_script = groupby(sorted(servers, key=_find_script), key=_find_script)
    try:
        forks = [_ForkedInspection(fork_server, script, list(users), data) for script, users in by_script]
        for module in needed_next:
            import_module(module)
        deadline = time.monotonic() + IMPORT_TIMEOUT_S
        return {name: inspection for fork in forks for name, inspection in fork.result(deadline).items()}
    except OSError as error:
        raise LaunchError(
            f"the options of servers cannot be checked: {error}",
            code="inspection_failed",
            remedy="Its process was killed or could not start, perhaps because memory was short.",
        ) from error


def _find_script(server: ServerInstance) -> Path:
    return server.directory / server.entrypoint


class _ForkedInspection:
    """The inspection of one implementation, in a fork."""

    def __init__(
        self,
        fork_server: ForkServer,
        script: Path,
        servers: Sequence[ServerInstance],
        data: Mapping[str, Any],
    ) -> None:
        self._script, self._servers = script, servers
        self._channel, theirs = socket.socketpair()
        with theirs, Path(os.devnull).open("w") as discarded:  # the output of implementations
            self._process = fork_server.fork(
                "inspection",
                "nemo_gym.launch._inspection_process:main",
                descriptors={1: discarded.fileno(), 2: discarded.fileno(), CHANNEL_FD: theirs.fileno()},
            )
        with contextlib.suppress(OSError):  # it has ended; `result` finds out why
            messages.send(self._channel, (script, servers, data))

    def result(self, deadline: float) -> Mapping[str, Inspection]:
        """Return the inspections by server name; all are the same if the import ends the process or takes too long."""
        try:
            with self._channel:
                self._channel.settimeout(max(0.001, deadline - time.monotonic()))
                inspections: Mapping[str, Inspection] = messages.receive(self._channel)
                return inspections
        except TimeoutError:
            inspection = Inspection(unchecked=f"it takes over {IMPORT_TIMEOUT_S:g} s to import")
            self._process.signal(signal.SIGKILL)
        except EOFError:
            from nemo_gym.processes.event_loop_thread import run_blocking

            code = run_blocking("inspection", self._process.wait_for_end())
            message = f"The process ended with exit code {code} while the file was imported."
            inspection = Inspection(code_fault=(str(self._script), None, message))
        return {server.name: inspection for server in self._servers}
