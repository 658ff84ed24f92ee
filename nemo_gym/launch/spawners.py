"""Starting server processes: forked from the zygote on Linux, as plain subprocesses elsewhere.

`Spawner` is the seam: the supervisor knows only `spawn`, `Child.exited`, `Child.signal` and `close`.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import json
import logging
import os
import signal
import socket
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from nemo_gym.launch.births import MAX_MESSAGE_BYTES, Birth, listener_fds
from nemo_gym.launch.errors import LaunchError
from nemo_gym.launch.sockets import HeldSocket
from nemo_gym.launch.zygote_process import ZygoteProcess
from nemo_gym.servers.bootstrap import BOOTSTRAP_FD_VARIABLE, Bootstrap

if TYPE_CHECKING:
    from nemo_gym.transport import Transport

log = logging.getLogger(__name__)

_SCRIPT_RUNNER = str(Path(__file__).with_name("script.py"))


@dataclass(frozen=True, slots=True)
class ServerProcess:
    """What to start: everything about one server process but the process."""

    title: str
    script: str
    directory: str
    search_path: Sequence[str]
    sockets: Sequence[HeldSocket]
    bootstrap: Bootstrap
    """`listen_fds` and `parent_pid` are filled in when the process is started."""
    log_path: Path
    python: str | None = None
    """The interpreter of its own virtual environment; None for the launcher's."""
    variables: Mapping[str, str] = field(default_factory=dict)


class Child:
    """A started process. `exited` resolves to its exit code, negative for a signal."""

    def __init__(self, pid: int, send_signal: Callable[[int], None]) -> None:
        self.pid = pid
        self.exited: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        self._send_signal = send_signal

    def signal(self, number: int) -> None:
        """Signal the process unless it is gone; SIGKILL goes to its whole process group."""
        if not self.exited.done():
            self._send_signal(number)


class Spawner(Protocol):
    """Starts processes that die with the launcher."""

    @property
    def transport(self) -> Transport | None:
        """How what it starts is reached without a socket; None where only sockets lead there."""
        ...

    async def spawn(self, process: ServerProcess) -> Child:
        """Start `process`; returns when it exists. Raises `LaunchError` when it cannot be started."""
        ...

    async def close(self) -> None:
        """End what is left of the processes."""
        ...


class ZygoteSpawner:
    """Forks servers from a `ZygoteProcess`, which it owns from then on."""

    transport = None

    def __init__(self, zygote: ZygoteProcess) -> None:
        self._zygote = zygote
        self._control = zygote.control
        self._numbers = itertools.count(1)
        self._children: dict[int, Child] = {}
        self._started: dict[int, asyncio.Future[Child]] = {}
        """Births that were ordered and not answered yet."""
        self._loop = asyncio.get_running_loop()
        self._is_ready: asyncio.Future[None] = self._loop.create_future()
        self._one_at_a_time = asyncio.Lock()
        self._loop.add_reader(self._control, self._receive)

    async def spawn(self, process: ServerProcess) -> Child:
        await asyncio.shield(self._is_ready)
        async with self._one_at_a_time:
            number = next(self._numbers)
            with _descriptors(process, parent_pid=self._zygote.process.pid) as descriptors:
                order = Birth(
                    number=number,
                    title=process.title,
                    script=process.script,
                    directory=process.directory,
                    search_path=process.search_path,
                    python=process.python,
                    variables=process.variables,
                ).to_bytes()
                self._zygote.has_children = True
                self._send(order, descriptors)
                started: asyncio.Future[Child] = self._loop.create_future()
                self._started[number] = started
                return await started

    async def close(self) -> None:
        self._loop.remove_reader(self._control)
        await asyncio.to_thread(self._zygote.close)
        self._zygote_is_gone()

    def _send(self, message: bytes, descriptors: Sequence[int] = ()) -> None:
        try:
            socket.send_fds(self._control, [message], descriptors)
        except (BrokenPipeError, ConnectionResetError) as error:
            raise _zygote_gone() from error

    def _receive(self) -> None:
        try:
            message = self._control.recv(MAX_MESSAGE_BYTES, socket.MSG_DONTWAIT)
        except BlockingIOError:
            return
        except ConnectionResetError:
            message = b""
        if not message:
            self._loop.remove_reader(self._control)
            self._zygote_is_gone()
            return
        self._handle(json.loads(message))

    def _handle(self, event: Mapping[str, Any]) -> None:
        match event["event"]:
            case "ready":
                if event["error"]:
                    log.warning("the server stack cannot be imported ahead: %s", event["error"])
                self._is_ready.set_result(None)
            case "started":
                number = event["number"]
                child = self._children[number] = Child(
                    event["pid"], lambda signal_: self._signal(number, signal_)
                )
                started = self._started.pop(number)
                if not started.cancelled():
                    started.set_result(child)
            case "refused":
                started = self._started.pop(event["number"])
                if not started.cancelled():
                    message = f"no process could be forked: {event['error']}"
                    started.set_exception(LaunchError(message, code="fork_failed"))
            case "exited":
                self._children.pop(event["number"]).exited.set_result(event["code"])

    def _signal(self, number: int, signal_number: int) -> None:
        with contextlib.suppress(LaunchError):  # without a zygote the child is dead already
            self._send(json.dumps({"order": "signal", "number": number, "signal": signal_number}).encode())

    def _zygote_is_gone(self) -> None:
        """The kernel killed the children with the zygote; tell everybody who waits."""
        if not self._is_ready.done():
            self._is_ready.set_exception(_zygote_gone())
            self._is_ready.exception()  # nobody may be waiting
        for started in self._started.values():
            if not started.done():
                started.set_exception(_zygote_gone())
        self._started.clear()
        for child in self._children.values():
            child.exited.set_result(-signal.SIGKILL)
        self._children.clear()


class SubprocessSpawner:
    """Starts every server from nothing: slower, and works wherever Python does."""

    transport = None

    def __init__(self) -> None:
        self._children: set[Child] = set()
        self._watchers: set[asyncio.Task[None]] = set()

    async def spawn(self, process: ServerProcess) -> Child:
        with _descriptors(process, parent_pid=os.getpid(), numbered_as_here=True) as descriptors:
            log_fd, bootstrap_fd, *listeners = descriptors
            try:
                started = await asyncio.create_subprocess_exec(
                    process.python or sys.executable,
                    "-P",
                    _SCRIPT_RUNNER,
                    str(os.getpid()),
                    process.directory,
                    process.script,
                    *process.search_path,
                    env={
                        **os.environ,
                        **process.variables,
                        "PYTHONUNBUFFERED": "1",
                        BOOTSTRAP_FD_VARIABLE: str(bootstrap_fd),
                    },
                    stdin=asyncio.subprocess.DEVNULL,
                    stdout=log_fd,
                    stderr=log_fd,
                    pass_fds=[bootstrap_fd, *listeners],
                    start_new_session=True,
                )
            except OSError as error:
                raise LaunchError(
                    f"{process.python or sys.executable} cannot be started: {error.strerror}",
                    code="fork_failed",
                ) from error
        child = Child(started.pid, lambda number: _signal_group(started.pid, number))
        self._children.add(child)
        watcher = asyncio.create_task(self._watch(child, started))
        self._watchers.add(watcher)
        watcher.add_done_callback(self._watchers.discard)
        return child

    async def _watch(self, child: Child, started: asyncio.subprocess.Process) -> None:
        code = await started.wait()
        _signal_group(started.pid, signal.SIGKILL)
        self._children.discard(child)
        child.exited.set_result(code)

    async def close(self) -> None:
        for child in self._children:
            child.signal(signal.SIGKILL)
        if self._watchers:
            await asyncio.wait(self._watchers)


@contextlib.contextmanager
def _descriptors(
    process: ServerProcess, *, parent_pid: int, numbered_as_here: bool = False
) -> Iterator[list[int]]:
    """Log file, bootstrap and sockets of `process`, open while it is being started."""
    here = [held.listener.fileno() for held in process.sockets]
    listen_fds = here if numbered_as_here else listener_fds(len(here))
    bootstrap = replace(process.bootstrap, listen_fds=listen_fds, parent_pid=parent_pid)
    log_fd = os.open(process.log_path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    try:
        bootstrap_fd = bootstrap.write_to_fd()
        try:
            yield [log_fd, bootstrap_fd, *here]
        finally:
            os.close(bootstrap_fd)
    finally:
        os.close(log_fd)


def _signal_group(leader_pid: int, number: int) -> None:
    # macOS answers EPERM for a group of zombies.
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(leader_pid, number)


def _zygote_gone() -> LaunchError:
    return LaunchError(
        "the process that servers are forked from is gone",
        code="zygote_gone",
        remedy="Somebody killed it; where memory was short, the system did.",
    )
