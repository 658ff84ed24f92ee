"""Starting server processes: forked from a fork server, or executed by it with another interpreter.

The supervisor uses only the protocol `Spawner` and the class `Child`.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, Protocol

from nemo_gym.config.bootstrap import BOOTSTRAP_FD_VARIABLE, Bootstrap
from nemo_gym.launch.early_start import FORKS_ARE_SAFE
from nemo_gym.launch.errors import LaunchError
from nemo_gym.launch.sockets import HeldSocket
from nemo_gym.processes.fork_server import ForkedProcess, ForkServer, ForkServerGone

if TYPE_CHECKING:
    from nemo_gym.transport import Transport

_BOOTSTRAP_FD = 3
"""The descriptor of the bootstrap in a server process; its listening sockets follow."""
_SCRIPT_RUNNER = str(Path(__file__).with_name("_script.py"))


@dataclass(frozen=True, slots=True)
class ServerProcess:
    """The specification of one server process."""

    script: Path
    """The file to run, in its folder."""
    search_path: Sequence[str]
    sockets: Sequence[HeldSocket]
    bootstrap: Bootstrap
    """`listen_fds` is set when the process starts."""
    log_path: Path
    python: str | None = None
    """The interpreter of the server's virtual environment; None for the launcher's."""
    variables: Mapping[str, str] = field(default_factory=dict)
    """Environment variables to add."""


class NodePlace(NamedTuple):
    """The place of a server on a node."""

    url: str
    node: str
    """The name of the node; empty for the launcher's machine."""
    generation: int
    """One more than the nodes that the server has lost; 0 on the launcher's machine."""


class Child:
    """A started process. `exited` resolves to its exit code, negative for a signal."""

    def __init__(self, pid: int, send_signal: Callable[[int], None]) -> None:
        self.pid = pid
        self.exited: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        self.place: NodePlace | None = None
        """Its place, if it runs on a node."""
        self.reason: str | None = None
        """The reason of its end, if it is not the process's own."""
        self._send_signal = send_signal

    def signal(self, number: int) -> None:
        """Signal the process if it still runs; SIGKILL goes to its whole process group."""
        if not self.exited.done():
            self._send_signal(number)


class Spawner(Protocol):
    """Starts processes that end with the launcher."""

    @property
    def transport(self) -> Transport | None:
        """The transport that reaches its servers without a socket; None if there is none."""

    async def spawn(self, process: ServerProcess) -> Child:
        """Start `process` and return once it exists. Raises `LaunchError` if it cannot be started."""

    async def close(self) -> None:
        """End all remaining processes."""


class ProcessSpawner:
    """Starts servers with a `ForkServer`, which it owns."""

    transport = None

    def __init__(self, fork_server: ForkServer, *, forks: bool = FORKS_ARE_SAFE) -> None:
        """Without `forks` every server starts in a new interpreter."""
        self.fork_server = fork_server
        self._forks = forks
        self._watchers: set[asyncio.Task[None]] = set()

    async def spawn(self, process: ServerProcess) -> Child:
        try:
            try:
                forked, pid = await self._start(process)
            except ForkServerGone:  # it has just died; the next attempt starts another
                forked, pid = await self._start(process)
        except OSError as error:
            raise LaunchError(str(error), code="fork_failed") from error
        child = Child(pid, forked.signal)
        watcher = asyncio.create_task(_watch(child, forked))
        self._watchers.add(watcher)
        watcher.add_done_callback(self._watchers.discard)
        return child

    async def close(self) -> None:
        await asyncio.to_thread(self.fork_server.close)
        if self._watchers:
            await asyncio.wait(self._watchers)

    async def _start(self, process: ServerProcess) -> tuple[ForkedProcess, int]:
        target = "nemo_gym.launch._script:run_script"
        arguments: tuple[object, ...] = (str(process.script), *process.search_path)
        variables = {**process.variables, BOOTSTRAP_FD_VARIABLE: str(_BOOTSTRAP_FD)}
        python = process.python or (None if self._forks else sys.executable)
        if python is not None:
            target, arguments = "os:execv", (python, [python, "-P", _SCRIPT_RUNNER, *arguments])
            variables["PYTHONUNBUFFERED"] = "1"
        with _descriptors(process) as descriptors:
            forked = self.fork_server.fork(
                process.bootstrap.server_name,
                target,
                arguments,
                descriptors=descriptors,
                variables=variables,
            )
        return forked, await forked.wait_for_start()


async def _watch(child: Child, forked: ForkedProcess) -> None:
    child.exited.set_result(await forked.wait_for_end())


@contextlib.contextmanager
def _descriptors(process: ServerProcess) -> Iterator[dict[int, int]]:
    """Log file, bootstrap and sockets of `process` by their numbers in it, open during its start."""
    listeners = [listener.fileno() for held in process.sockets for listener in held.listeners]
    sockets = dict(enumerate(listeners, start=_BOOTSTRAP_FD + 1))
    bootstrap = replace(process.bootstrap, listen_fds=list(sockets))
    with contextlib.ExitStack() as opened:
        log_fd = os.open(process.log_path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        opened.callback(os.close, log_fd)
        bootstrap_fd = bootstrap.write_to_fd()
        opened.callback(os.close, bootstrap_fd)
        yield {1: log_fd, 2: log_fd, _BOOTSTRAP_FD: bootstrap_fd, **sockets}
