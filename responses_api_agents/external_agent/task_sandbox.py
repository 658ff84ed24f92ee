"""Agents in the sandbox of their task, which the environment started.

The command runs beside the task's own programs and files, as the task's user and in its working folder. The way out is
the same as everywhere: the gateway's socket and the forwarder's loopback port. The socket lies in a folder that the
sandbox shows for it, `bridge` of its description, which sandboxes of the provider `rootless` have. The sandbox stays
when the command has ended: the verifier looks at it next.
"""

from __future__ import annotations

import contextlib
import os
import shlex
import tempfile
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from nemo_gym import clock
from nemo_gym.failures import AgentError
from nemo_gym.isolation.execution import Ending, SandboxLimits, Workspace
from nemo_gym.isolation.portable_python import PortablePython
from nemo_gym.sandbox import AsyncSandbox
from responses_api_agents.external_agent.attempt import (
    FORWARDER,
    HOME,
    PORT,
    WORK,
    AgentCommand,
    AgentExit,
    AttemptPlaces,
)

_HOME_IN_TASK = "/attempt/home"
_INPUT = "/attempt/input"
_SHORT_S = 60.0
_KILLED = 137
_ENDINGS = {"timeout": Ending.TIMED_OUT, "output_exceeded": Ending.OUTPUT_EXCEEDED}


@dataclass(frozen=True, slots=True)
class TaskPlaces(AttemptPlaces):
    """The folders of an attempt in a task's sandbox. Only the socket lies in a folder of this machine."""

    workdir: str
    owner: int | None
    """The user of this machine that the sandbox runs as, if it is not the gym's."""
    files: dict[str, str] = field(default_factory=dict)
    """Path → text of the files in the home folder."""

    def seen(self, place: Path) -> str:
        inside = {WORK: self.workdir, HOME: _HOME_IN_TASK}
        return inside.get(place.name) or str(self.workspace.place / place.name)

    def open_socket(self) -> None:
        if self.owner is not None:
            os.chown(self.socket, self.owner, self.owner)

    def put_home(self, files: Mapping[str, str]) -> None:
        self.files.update(files)


class TaskSandbox:
    """Runs one agent's command in the running sandbox of its task."""

    def __init__(
        self, sandbox: AsyncSandbox, descriptor: Mapping[str, Any], provider: str, limits: SandboxLimits
    ) -> None:
        self._sandbox = sandbox
        self._descriptor = descriptor
        self._provider = provider
        self._limits = limits
        self._python = PortablePython.of_the_gym(open_to_others=os.geteuid() == 0)

    @classmethod
    async def connect(cls, access: Mapping[str, Any], limits: SandboxLimits) -> TaskSandbox:
        """Connect to the sandbox that an environment described. Raises AgentError for one that has no bridge."""
        connection = access["connection"]
        provider, descriptor = connection["provider_config_ref"], connection["descriptor"]
        if descriptor.get("bridge") is None:
            raise AgentError(
                f"An external agent cannot run in a sandbox of {provider}.",
                code="sandbox_unsupported",
                remedy="Use the sandbox provider `rootless`, or an agent with the tool `bash`, such as simple_agent.",
            )
        sandbox = await AsyncSandbox.connect(descriptor, provider={provider: {}})
        return cls(sandbox, descriptor, provider, limits)

    async def start(self) -> None:
        """Do nothing: the environment has started the sandbox."""

    async def stop(self) -> None:
        """Do nothing: the environment stops the sandbox."""

    async def forwards(self) -> bool:
        """True: the sandbox has no network but its loopback."""
        return True

    @asynccontextmanager
    async def places(self, files: Mapping[str, str]) -> AsyncIterator[TaskPlaces]:
        """Make the agent's home folder in the sandbox, which is deleted at the end, with the socket."""
        if files:
            raise AgentError(
                "The row has a `folder` with files, and its task has a sandbox with its own.",
                code="two_folders",
            )
        bridge = self._descriptor["bridge"]
        workspace = Workspace(Path(bridge["folder"]), seen_as=Path(bridge["seen_as"]))
        places = TaskPlaces(workspace, self._descriptor["workdir"], bridge["owner"])
        places.socket.unlink(missing_ok=True)
        await self._run_script(f"mkdir -p {_HOME_IN_TASK} && chmod 700 {_HOME_IN_TASK}")
        try:
            yield places
        finally:
            places.socket.unlink(missing_ok=True)
            with contextlib.suppress(AgentError):  # the sandbox may be gone, which the verifier then says
                await self._run_script("rm -rf /attempt")
            await self._sandbox.disconnect()

    async def run(self, places: AttemptPlaces, command: AgentCommand) -> AgentExit:
        """Run a filled command to its end, and end the processes of its group."""
        assert isinstance(places, TaskPlaces)
        for path, text in places.files.items():
            await self._put(f"{_HOME_IN_TASK}/{path}", text)
        await self._put(_INPUT, command.stdin)
        forwarder = self._python.command(FORWARDER.read_text(encoding="utf-8"))
        # The task's user may have another home folder.
        home = ["/usr/bin/env", f"HOME={command.environment.get('HOME', _HOME_IN_TASK)}"]
        arguments = [places.seen(places.socket), str(PORT), places.workdir, *home, *command.command]
        began = clock.monotonic()
        done = await self._sandbox.exec(
            f"exec {shlex.join([*forwarder, *arguments])} < {_INPUT}",
            env=dict(command.environment),
            timeout_s=self._limits.wall_s,
        )
        if done.error_type == "sandbox":
            raise AgentError(
                f"The task's sandbox ended: {done.stderr}.", code="sandbox_failed", retryable=True
            )
        return AgentExit(
            _KILLED if done.error_type else done.return_code,
            _ENDINGS.get(done.error_type or "", Ending.EXITED),
            clock.monotonic() - began,
            done.stdout or "",
            done.stderr or "",
            self._provider,
            is_folder_full=False,
        )

    async def _put(self, target: str, text: str) -> None:
        with tempfile.NamedTemporaryFile("w", encoding="utf-8", newline="") as file:
            file.write(text)
            file.flush()
            try:
                await self._sandbox.upload(file.name, target)
            except OSError as error:
                raise _sandbox_failed(error) from error

    async def _run_script(self, script: str) -> None:
        done = await self._sandbox.exec(script, cwd="/", timeout_s=_SHORT_S, user="root")
        if done.return_code != 0:
            raise _sandbox_failed(done.stderr or done.error_type)


def _sandbox_failed(why: object) -> AgentError:
    return AgentError(
        f"The home folder of an agent could not be made: {why}", code="sandbox_failed", retryable=True
    )
