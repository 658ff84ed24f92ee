"""Supervision of server processes: readiness, restart after a death, end on request.

The sockets outlive the processes, so callers of a restarting server wait in the backlog. A server that keeps dying
fails the whole gym: `Supervisor.failure` resolves to the reason.
"""

from __future__ import annotations

import asyncio
import logging
import signal
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from nemo_gym.launch import _logs as logs
from nemo_gym.launch._spawners import Child, NodePlace, ServerProcess, Spawner
from nemo_gym.launch._states import TERMINAL_STATES, TRANSITIONS, DeathRecord, RestartPolicy, ServerState
from nemo_gym.launch.errors import LaunchError, UnusableServerError
from nemo_gym.launch.observation import answers
from nemo_gym.tls import read_ca

log = logging.getLogger(__name__)

STOP_GRACE_S = 1.0
"""Seconds between SIGTERM and SIGKILL to a server."""
STARTUP_TIMEOUT_S = 600.0
"""Seconds from the start of a process to its first answer, unless the configuration says otherwise."""
PROBE_TIMEOUT_S = 30.0
_PROBE_PAUSE_S = 0.05
_ROTATION_INTERVAL_S = 1.0
"""Seconds between two looks at the sizes of logs."""


@dataclass(frozen=True, slots=True)
class ServerEvent:
    """A server entered a state."""

    server: str
    replica: int
    url: str
    state: ServerState
    pid: int | None = None
    detail: str | None = None
    """The reason, if there is one."""


@dataclass(slots=True)
class SupervisedServer:
    """One server process and its state."""

    name: str
    kind: str
    """`resources_servers`, `responses_api_agents`, `responses_api_models`, or `head_server`."""
    implementation: str
    replica: int
    url: str
    process: ServerProcess
    requirements: Path | None = None
    """The `requirements.txt` that its interpreter must satisfy."""
    state: ServerState = ServerState.PREPARING
    child: Child | None = None
    restarts: int = 0
    has_answered: asyncio.Event = field(default_factory=asyncio.Event)
    """Set at the first answer."""
    listeners: list[Callable[[ServerEvent], None]] = field(default_factory=list)
    find_changed_modules: Callable[[], Sequence[str]] = tuple
    """Returns its Python files, and the rooms of the gym, that have changed since the gym started."""

    @property
    def pid(self) -> int | None:
        return self.child.pid if self.child is not None and not self.child.exited.done() else None

    @property
    def is_leaving(self) -> bool:
        """Return whether it is being removed, so that it is not restarted."""
        return self.state in (ServerState.DRAINING, ServerState.STOPPING)

    @property
    def place(self) -> NodePlace:
        """Its place, on a node or on the launcher's machine."""
        on_node = self.child.place if self.child is not None else None
        return on_node or NodePlace(self.url, node="", generation=0)

    @property
    def ca(self) -> str | None:
        """The certificates that its own must be signed by; None without TLS."""
        return read_ca(self.process.bootstrap.global_config)

    @property
    def log_path(self) -> Path:
        return self.process.log_path

    def become(self, state: ServerState, detail: str | None = None) -> None:
        """Enter `state` and notify the listeners."""
        if state not in TRANSITIONS[self.state]:
            raise ValueError(f"`{self.name}` cannot change from {self.state} to {state}")
        self.state = state
        if state is ServerState.READY:
            self.has_answered.set()
        event = ServerEvent(self.name, self.replica, self.url, state, self.pid, detail)
        for listener in self.listeners:
            listener(event)

    def signal(self, number: int) -> None:
        """Signal the process, if it exists."""
        if self.child is not None:
            self.child.signal(number)


ChooseInterpreter = Callable[[Path], str | None]
"""Returns the interpreter that satisfies a `requirements.txt`, and may take minutes; None is the launcher's own."""


@dataclass(slots=True)
class Supervisor:
    """Runs one task per server, from its first start until it has stopped or failed."""

    servers: list[SupervisedServer]
    spawner: Spawner
    choose_interpreter: ChooseInterpreter
    policy: RestartPolicy
    startup_timeout_s: float
    failure: asyncio.Future[LaunchError] = field(
        default_factory=lambda: asyncio.get_running_loop().create_future()
    )
    """Resolves when a server has failed."""
    _is_stopping: bool = False
    _tasks: dict[int, asyncio.Task[None]] = field(default_factory=dict)
    """The `id` of a server → the task that runs it."""
    _rotation: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Start all servers concurrently."""
        for server in self.servers:
            self._start(server).add_done_callback(self._note_end)
        self._rotation = asyncio.create_task(self._rotate_logs(), name="rotate logs")

    def _start(self, server: SupervisedServer) -> asyncio.Task[None]:
        task = asyncio.create_task(self._supervise(server), name=f"supervise {server.name}")
        self._tasks[id(server)] = task
        return task

    async def add(self, servers: Sequence[SupervisedServer]) -> None:
        """Start more servers, and wait until they have answered. If one fails, all of them end.

        Raises the `LaunchError` of one that failed, which is no failure of the gym.
        """
        self.servers += servers
        starting = [self._start(server) for server in servers]
        try:
            await _wait_until_answered(servers, *starting)
            for task in starting:
                if task.done():
                    task.result()
        except BaseException:
            await self.remove(servers)
            raise
        for task in starting:
            task.add_done_callback(self._note_end)

    async def remove(self, servers: Sequence[SupervisedServer]) -> None:
        """End servers of a gym that goes on."""
        tasks = [self._tasks[id(server)] for server in servers]
        await self._end(servers)
        await asyncio.wait(tasks)
        for server in servers:
            if server.state not in TERMINAL_STATES:
                server.become(ServerState.STOPPED)
            self.servers[:] = [each for each in self.servers if each is not server]
            del self._tasks[id(server)]

    async def _end(self, servers: Sequence[SupervisedServer]) -> None:
        """Ask servers to end, and kill those that have not after the grace period."""
        tasks = []
        for server in servers:
            task = self._tasks.get(id(server))
            if task is None:  # the gym has not started
                continue
            tasks.append(task)
            if server.pid is None:
                task.cancel()
            else:
                if server.state is not ServerState.STOPPING:
                    server.become(ServerState.STOPPING)
                server.signal(signal.SIGTERM)
        if tasks:
            await asyncio.wait(tasks, timeout=STOP_GRACE_S)
        for server in servers:
            server.signal(signal.SIGKILL)

    async def wait_ready(self) -> None:
        """Wait until every server has answered. Raises the `LaunchError` of one that failed."""
        await _wait_until_answered(self.servers, self.failure)
        if self.failure.done():
            raise self.failure.result()

    async def stop(self) -> None:
        """End all servers: SIGTERM, then SIGKILL after a grace period. Returns when all have ended."""
        self._is_stopping = True
        await self._end(self.servers)
        await self.spawner.close()
        if self._rotation is not None:
            self._rotation.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks.values())
        for server in self.servers:
            if server.state not in TERMINAL_STATES:
                server.become(ServerState.STOPPED)

    async def _rotate_logs(self) -> None:
        """Keep the log of a server that prints much from filling the disk."""
        while True:
            await asyncio.sleep(_ROTATION_INTERVAL_S)
            for path in {server.log_path for server in self.servers}:
                try:
                    await asyncio.to_thread(logs.rotate, path)
                except OSError as error:
                    log.warning("%s cannot be rotated: %s", path, error)

    def _note_end(self, task: asyncio.Task[None]) -> None:
        error = None if task.cancelled() else task.exception()
        if error is None or self.failure.done():
            return
        if isinstance(error, LaunchError):
            self.failure.set_result(error)
        else:
            self.failure.set_exception(error)  # a bug of the supervisor reaches those who await the failure

    async def _supervise(self, server: SupervisedServer) -> None:
        """Restart `server` until it is stopped. Raises `LaunchError` when it is given up."""
        try:
            if server.requirements is not None:
                python = await asyncio.to_thread(self.choose_interpreter, server.requirements)
                server.process = replace(server.process, python=python)
            record, log_start = DeathRecord(self.policy), 0
            while server.state not in TERMINAL_STATES and not self._is_stopping:
                if not record.deaths_at_start:
                    log_start = logs.size(server.log_path)
                await self._live_once(server, record)
                if server.state not in TERMINAL_STATES and not self._is_stopping:
                    self._give_up_if_hopeless(server, record, log_start)
                    await asyncio.sleep(record.delay_s)
        except LaunchError as error:
            if server.state not in TERMINAL_STATES:
                server.become(ServerState.FAILED, str(error))
            raise

    async def _live_once(self, server: SupervisedServer, record: DeathRecord) -> None:
        """Start the process and wait until it ends."""
        if record.deaths:
            server.restarts += 1
            logs.append(server.log_path, f"restart {server.restarts}")
        child = server.child = await self.spawner.spawn(server.process)
        if child.place is not None:
            server.url = child.place.url
        server.become(ServerState.STARTING)
        ready_since = None
        if await self._answers_in_time(server, child):
            if record.deaths:
                await _refuse_changed_code(server, child)
            ready_since = time.monotonic()
            if not self._is_stopping:
                server.become(ServerState.READY)
        code = await child.exited
        if self._is_stopping or server.is_leaving:
            server.become(ServerState.STOPPED, child.reason)
            return
        ready_for_s = None if ready_since is None else time.monotonic() - ready_since
        record.count_death(ready_for_s=ready_for_s, exit_code=code)
        server.become(ServerState.CRASHED, child.reason or describe_exit(code))

    async def _answers_in_time(self, server: SupervisedServer, child: Child) -> bool:
        """Wait until the server answers; False if its process ends first. Raises `LaunchError` at the timeout."""
        try:
            async with asyncio.timeout(self.startup_timeout_s):
                return await _answers(server, child)
        except TimeoutError as error:
            child.signal(signal.SIGKILL)
            await child.exited
            server.become(ServerState.CRASHED, "it did not answer in time")
            raise LaunchError(
                f"`{server.name}` did not answer within {self.startup_timeout_s:g} s after its start.",
                code="startup_timeout",
                remedy=f"Its log: {server.log_path}. Raise +startup_timeout_s if it needs longer.",
                peer=server.name,
            ) from error

    def _give_up_if_hopeless(self, server: SupervisedServer, record: DeathRecord, log_start: int) -> None:
        if record.has_to_be_corrected:
            cause = logs.explain_death(server.log_path, since=log_start)
            if record.has_ended:
                cause = "Its program ended and served nothing: end app.py with `MyServer.run_webserver()`."
            raise UnusableServerError(
                f"{cause}\n`{server.name}` cannot start.",
                code="unusable_server",
                remedy=f"Correct it; its whole log: {server.log_path}",
                peer=server.name,
            )
        if record.is_hopeless:
            cause = logs.explain_death(server.log_path, since=log_start)
            raise LaunchError(
                f"{cause}\n`{server.name}` died {record.deaths_at_start} times in a row before it answered.",
                code="died_at_start",
                remedy=f"Its whole log: {server.log_path}",
                peer=server.name,
            )


async def _refuse_changed_code(server: SupervisedServer, child: Child) -> None:
    """End a restarted server whose code is not that of the run's rows so far, and raise `LaunchError`."""
    changed = await asyncio.to_thread(server.find_changed_modules)
    if not changed:
        return
    child.signal(signal.SIGKILL)
    await child.exited
    server.become(ServerState.CRASHED, "its code has changed")
    raise LaunchError(
        f"`{server.name}` was restarted, and its code has changed since the gym started: {', '.join(changed)}. "
        "It is ended, because the rows of a run would be scored by two versions of the code.",
        code="code_changed",
        remedy="Start the gym again. A run that is resumed then says what to do with the earlier rows.",
        peer=server.name,
    )


def describe_exit(code: int) -> str:
    """`exit code 1`, or `killed by SIGSEGV`."""
    if code >= 0:
        return f"exit code {code}"
    try:
        return f"killed by {signal.Signals(-code).name}"
    except ValueError:
        return f"killed by signal {-code}"


async def _wait_until_answered(servers: Sequence[SupervisedServer], *ends: asyncio.Future[Any]) -> None:
    """Wait until all servers have answered, or one of `ends` is done."""
    answered = asyncio.gather(*(server.has_answered.wait() for server in servers))
    try:
        await asyncio.wait([answered, *ends], return_when=asyncio.FIRST_COMPLETED)
    finally:
        answered.cancel()
        await asyncio.gather(answered, return_exceptions=True)


async def _answers(server: SupervisedServer, child: Child) -> bool:
    """Wait until the server answers; False if its process ends first."""
    probing = asyncio.create_task(_probe_until_answered(server))
    either: list[asyncio.Future[Any]] = [probing, child.exited]
    try:
        await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
        return probing.done() and probing.result() and not child.exited.done()
    finally:
        probing.cancel()


async def _probe_until_answered(server: SupervisedServer) -> bool:
    """Probe until the server answers. Its socket is open already, so the first probe usually waits in the backlog."""
    while True:
        if await answers(server.url, ca=server.ca, timeout_s=PROBE_TIMEOUT_S):
            return True
        await asyncio.sleep(_PROBE_PAUSE_S)
