"""The check of task rows by environments that do not run: the same check as in a run, from the file of the server.

    with TaskChecks(config.servers, config.data) as checks:
        messages = checks.find_faults("my_agent", rows)

The file of an environment is imported in a fork of its own, so that author code neither ends the command nor writes to
its output. An environment that this interpreter cannot import checks no row, and `unchecked` says why.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import socket
from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn, Self, cast

import orjson

from nemo_gym.config.servers import ServerInstance
from nemo_gym.failures import ConfigError
from nemo_gym.launch.early_start import start_fork_server
from nemo_gym.launch.inspection import CHANNEL_FD
from nemo_gym.processes import messages
from nemo_gym.processes.fork_server import ForkServer
from nemo_gym.rollouts.run.preflight import find_environment
from nemo_gym.rollouts.run.required_servers import runs_rows
from nemo_gym.rollouts.run.row_check import describe_fault
from nemo_gym.rows.forms import AnyRow

if TYPE_CHECKING:
    from nemo_gym.resources.task_check import TaskCheck

_TIMEOUT_S = 120.0
"""Seconds for a batch, with the import of the environment."""


class TaskChecks:
    """The environments of a configuration, for checks of the rows of its agents."""

    def __init__(
        self,
        servers: Sequence[ServerInstance],
        data: Mapping[str, Any],
        fork_server: ForkServer | None = None,
    ) -> None:
        """`fork_server`: by default one that the first check starts."""
        self.unchecked: dict[str, str] = {}
        """The reason, by each agent whose rows no environment has checked although one will read them."""
        self.unimported: dict[str, str] = {}
        """The reason, by each environment that could not check rows."""
        self._servers = {server.name: server for server in servers}
        self._data = data
        self._fork_server = fork_server
        self._forks: dict[str, _ForkedCheck] = {}
        self._opened = contextlib.ExitStack()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self._opened.close()

    @property
    def environments(self) -> frozenset[str]:
        """Those that have checked rows."""
        return frozenset(self._forks.keys() - self.unimported.keys())

    def find_faults(self, agent: str, rows: Sequence[AnyRow]) -> Mapping[int, Sequence[str]]:
        """Return the messages about the rows that the agent's environment cannot read, by their places in `rows`."""
        if agent in self.unchecked:
            return {}
        if not runs_rows(self._data.get(agent)):
            self.unchecked[agent] = "the configuration has no such agent; name its files in +config_paths"
            return {}
        environment = find_environment(self._data.get(agent)) or ""
        answer = self._ask(environment, [orjson.dumps(row) for row in rows])
        if environment in self.unimported:
            self.unchecked[agent] = f"`{environment}` cannot be imported here: {self.unimported[environment]}"
        found: defaultdict[int, list[str]] = defaultdict(list)
        for fault in answer["faults"] if answer is not None else ():
            message, remedy = describe_fault(environment, rows[fault["row"]], fault)
            found[fault["row"]].append(f"{message} {remedy or ''}".rstrip())
        return found

    async def ask(self, environment: str, rows: Sequence[bytes]) -> Mapping[str, Any] | None:
        """Return the faults and notes of an environment; None for one that cannot check rows here."""
        return await asyncio.to_thread(self._ask, environment, rows)

    def _ask(self, environment: str, rows: Sequence[bytes]) -> Mapping[str, Any] | None:
        server = self._servers.get(environment)
        if server is None or environment in self.unimported:
            return None
        if environment not in self._forks:
            if self._fork_server is None:
                self._fork_server = start_fork_server("nemo_gym.base_resources_server")
                self._opened.callback(self._fork_server.close)
            self._forks[environment] = _ForkedCheck(self._fork_server, server, self._data)
            self._opened.callback(self._forks[environment].close)
        answer = self._forks[environment].ask(rows)
        if isinstance(answer, str):
            self.unimported[environment] = answer
            return None
        return answer


class _ForkedCheck:
    """The check of one environment, in a fork."""

    def __init__(self, fork_server: ForkServer, server: ServerInstance, data: Mapping[str, Any]) -> None:
        self._channel, theirs = socket.socketpair()
        self._channel.settimeout(_TIMEOUT_S)
        with theirs, Path(os.devnull).open("w") as discarded:  # the output of implementations
            self._process = fork_server.fork(
                "row check",
                f"{__name__}:main",
                descriptors={1: discarded.fileno(), 2: discarded.fileno(), CHANNEL_FD: theirs.fileno()},
            )
        with contextlib.suppress(OSError):  # it has ended; `ask` finds out
            messages.send(self._channel, (server, data))

    def ask(self, rows: Sequence[bytes]) -> Mapping[str, Any] | str:
        """Return the answer about rows, or the reason why there is none."""
        try:
            messages.send(self._channel, rows)
            answer: Mapping[str, Any] | str = messages.receive(self._channel)
            return answer
        except TimeoutError:
            return f"its check of {len(rows):,} rows takes over {_TIMEOUT_S:g} s"
        except (EOFError, OSError):
            return "its process ended while it was imported or while it checked rows"

    def close(self) -> None:
        self._channel.close()
        self._process.signal(signal.SIGKILL)


def main() -> NoReturn:
    """In the fork: receive the environment and the configuration, then answer about rows until the other end closes."""
    channel = socket.socket(fileno=CHANNEL_FD)
    server, data = messages.receive(channel)
    with contextlib.suppress(EOFError), asyncio.Runner() as runner:
        try:
            check = _build_check(server, data)
        except (Exception, SystemExit) as error:  # noqa: BLE001  # author code may raise anything
            while messages.receive(channel):
                messages.send(channel, f"{type(error).__name__}: {error}")
        while rows := messages.receive(channel):
            answer = runner.run(check.answer([orjson.loads(row) for row in rows]))
            messages.send(channel, answer)
    os._exit(0)  # an implementation may have started threads


def _build_check(server: ServerInstance, data: Mapping[str, Any]) -> TaskCheck:
    """Return the check of an environment. It is created only for a `check_task` of its author."""
    from nemo_gym.launch._inspection_process import load_as_server
    from nemo_gym.resources.server import SimpleResourcesServer
    from nemo_gym.resources.task_check import TaskCheck

    found = load_as_server(server.directory / server.entrypoint, server.name, data)
    if not issubclass(found, SimpleResourcesServer):
        raise ConfigError(f"{found.__name__} is no environment", code="no_environment")
    if not found.has_own_check():
        return TaskCheck(found, None)
    created = cast(SimpleResourcesServer, found.standalone(**{**server.config, "name": server.name}))
    return TaskCheck(created, created.check_task)
