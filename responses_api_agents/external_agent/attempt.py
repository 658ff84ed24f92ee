"""One attempt of an external agent: its workspace, its command in the sandbox, and the way in which it ended."""

from __future__ import annotations

import asyncio
import os
import re
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Protocol

from nemo_gym import clock
from nemo_gym.isolation.execution import (
    ConfinedRunner,
    Ending,
    IsolationKind,
    SandboxedProcess,
    SandboxLimits,
    Workspace,
    remove_workspace,
)
from nemo_gym.isolation.python_installation import PythonInstallation
from nemo_gym.isolation.workspace_files import put_files
from nemo_gym.rows.verdict import EndReason
from responses_api_agents.external_agent.folder import is_larger

SEEN_AS = Path("/attempt")
"""The path of the workspace in bubblewrap and in containers: the same in every attempt, so that prompts are, too."""
WORK, HOME = "work", "home"
PORT = 8080
"""The port of the gateway in the sandbox's own network."""
FORWARDER = Path(__file__).with_name("forwarder.py")
_WATCH_INTERVAL_S = 1.0
_PLACEHOLDER = re.compile(r"\{(\w+)\}")


@dataclass(frozen=True, slots=True)
class AttemptPlaces:
    """The folders of an attempt, and the gateway's socket."""

    workspace: Workspace

    @property
    def work(self) -> Path:
        """The working folder, on this machine."""
        return self.workspace.folder / WORK

    @property
    def home(self) -> Path:
        return self.workspace.folder / HOME

    @property
    def socket(self) -> Path:
        return self.workspace.folder / "gateway"

    def open_socket(self) -> None:
        """Give the gateway's socket to the agent's user, who alone can connect to it."""
        if self.workspace.user is not None:
            os.chown(self.socket, self.workspace.user.uid, self.workspace.user.uid)

    def seen(self, place: Path) -> str:
        """The path at which the agent sees one of these."""
        return str(self.workspace.place / place.name)

    def put_home(self, files: Mapping[str, str]) -> None:
        """Put files into the home folder, before the agent runs."""
        put_files(self.workspace, files, HOME)


@dataclass(frozen=True, slots=True)
class AgentExit:
    """The end of an agent's command."""

    status: int
    """Its exit status: 127 if it could not be started, 128 + its number for a signal."""
    ending: Ending
    seconds: float
    stdout: str
    stderr: str
    isolation: str
    """An `IsolationKind`, or the provider of the container."""
    is_folder_full: bool

    @property
    def reason(self) -> EndReason:
        """The reason why the attempt ended."""
        if self.ending is Ending.TIMED_OUT:
            return EndReason.TIMED_OUT
        if self.is_folder_full or self.ending is not Ending.EXITED:
            return EndReason.RESOURCE_LIMIT
        return EndReason.FINAL_ANSWER if self.status == 0 else EndReason.AGENT_EXITED


@dataclass(frozen=True, slots=True)
class AgentCommand:
    """A command and its surroundings, with placeholders such as `{prompt}`."""

    command: Sequence[str]
    stdin: str
    environment: Mapping[str, str]
    files: Mapping[str, str]
    """Path → text of files in the home folder."""

    def filled(self, values: Mapping[str, str]) -> AgentCommand:
        """Replace the placeholders of `values`; other braces stay."""

        def fill(text: str) -> str:
            return _PLACEHOLDER.sub(lambda match: values.get(match[1], match[0]), text)

        return AgentCommand(
            [fill(part) for part in self.command],
            fill(self.stdin),
            {name: fill(value) for name, value in self.environment.items()},
            {fill(path): fill(text) for path, text in self.files.items()},
        )


def accounts_of(workspace: Workspace) -> tuple[Path, Path]:
    """Write the list of users, in which some runtimes look for their own name, and return it with its place."""
    user = workspace.user.uid if workspace.user is not None else os.getuid()
    place = workspace.folder / "passwd"
    place.write_text(f"agent:x:{user}:{user}::{workspace.place / HOME}:/bin/bash\n", encoding="utf-8")
    place.chmod(0o644)
    return place, Path("/etc/passwd")


class AgentSandbox(Protocol):
    """Runs agents' commands, each in a sandbox without network but the port of its gateway."""

    async def start(self) -> None:
        """Prepare the first attempt. Raises ConfigError if agents cannot run on this machine."""

    async def stop(self) -> None:
        """Release what `start` made. No attempt is running."""

    async def forwards(self) -> bool:
        """Return whether agents have a network of their own, in which the forwarder offers the gateway's socket."""

    def places(self, files: Mapping[str, str]) -> AbstractAsyncContextManager[AttemptPlaces]:
        """Create the folders of an attempt, with `files` in its working folder; they are deleted at the end."""

    async def run(self, places: AttemptPlaces, command: AgentCommand) -> AgentExit:
        """Run a filled command to its end, and end all its processes."""


class ConfinedSandbox:
    """The sandboxes of this machine (`nemo_gym.isolation`)."""

    def __init__(self, readable: Sequence[Path], limits: SandboxLimits) -> None:
        self._python = PythonInstallation.from_gym()
        self._limits = limits
        self._runner = ConfinedRunner(
            probe=self._python.command("pass"),
            readable=[*self._python.folders, *readable],
            python=self._python,
            own_network=True,
        )

    async def start(self) -> None:
        """Find the isolation of agents on this machine. Raises ConfigError if there is none."""
        await self._runner.isolation()

    async def stop(self) -> None:
        """Do nothing: an attempt releases all that it has."""

    async def forwards(self) -> bool:
        """True but for a bare process, which has the gym's network."""
        return await self._runner.isolation() is not IsolationKind.UNSANDBOXED

    @asynccontextmanager
    async def places(self, files: Mapping[str, str]) -> AsyncIterator[AttemptPlaces]:
        """Create the folders of an attempt, with `files` in its working folder; they are deleted at the end."""
        is_mounted = await self._runner.isolation() is IsolationKind.BUBBLEWRAP
        workspace = await self._runner.make_workspace(SEEN_AS if is_mounted else None)
        try:
            if is_mounted:
                workspace = replace(workspace, mounts=(accounts_of(workspace),))
            places = AttemptPlaces(workspace)
            put_files(workspace, files, WORK)
            yield places
        finally:
            await remove_workspace(workspace)

    async def run(self, places: AttemptPlaces, command: AgentCommand) -> AgentExit:
        """Run a filled command to its end."""
        forwards = await self.forwards()
        socket = places.seen(places.socket) if forwards else os.devnull
        forwarder = self._python.command(FORWARDER.read_text(encoding="utf-8"))
        arguments = [socket, str(PORT if forwards else 0), places.seen(places.work), *command.command]
        began = clock.monotonic()
        async with self._runner.open(
            [*forwarder, *arguments],
            stdin=command.stdin.encode(),
            limits=self._limits,
            workspace=places.workspace,
            environment=command.environment,
        ) as process:
            watch = asyncio.create_task(self._watch(process, places.workspace.folder))
            try:
                output = await process.read_all()
            finally:
                watch.cancel()
            process.refuse_machine_fault()
            status = process.exit_status
            assert status is not None
            return AgentExit(
                status,
                process.ending,
                clock.monotonic() - began,
                output.stdout.decode(errors="replace"),
                output.stderr.decode(errors="replace"),
                process.isolation.value,
                is_folder_full=watch.done() and not watch.cancelled(),
            )

    async def _watch(self, process: SandboxedProcess, folder: Path) -> None:
        """End the agent when its folder has outgrown its limit."""
        await until_full(folder, self._limits.folder_bytes)
        process.kill(Ending.STOPPED)


async def until_full(folder: Path, most_bytes: int) -> None:
    """Wait until the folder of a running attempt has outgrown its limit."""
    while not await asyncio.to_thread(is_larger, folder, most_bytes):  # noqa: ASYNC110 - no event tells it
        await asyncio.sleep(_WATCH_INTERVAL_S)
