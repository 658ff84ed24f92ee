"""Validation of server options by the servers' own config classes, in a child process.

The child process starts to import the server stack as soon as it exists, while the command reads its configuration.
A command therefore opens the inspector first and passes it to `nemo_gym.config.load`:

    with Inspector() as inspector:
        config = load(arguments, inspect=inspector.inspect)
"""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import Any

from nemo_gym.config.options import Inspection
from nemo_gym.config.servers import ServerInstance
from nemo_gym.launch.errors import LaunchError
from nemo_gym.processes import messages
from nemo_gym.processes.program import Program


class Inspector:
    """A child process that answers one request."""

    def __init__(self) -> None:
        self._program = Program("nemo_gym.launch._inspection_process:main", grace_s=0)

    def inspect(self, servers: Sequence[ServerInstance], data: Mapping[str, Any]) -> dict[str, Inspection]:
        """Return the inspection of each server by its name. Raises `LaunchError` if the child process is killed."""
        try:
            self._program.send((servers, data))
            inspections: dict[str, Inspection] = messages.receive(self._program.channel)
        except (OSError, EOFError) as error:
            raise LaunchError(
                "the process that checks the options of servers has ended",
                code="inspection_failed",
                remedy="It was killed, perhaps by the system because memory was short.",
            ) from error
        return inspections

    def __enter__(self) -> Inspector:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        # macOS answers EPERM for a group of zombies.
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self._program.process.pid, signal.SIGKILL)  # an import that hangs may run in a fork
        self._program.close()
