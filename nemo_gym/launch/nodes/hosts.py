"""The machines of a gym, and how a node host is started on them (a command, such as ssh)."""

from __future__ import annotations

import asyncio
import contextlib
import shlex
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Protocol

from nemo_gym.config.keys import DEFAULT_HOST_COMMAND, HostKeys
from nemo_gym.failures import ConfigError
from nemo_gym.launch.errors import LaunchError
from nemo_gym.launch.nodes.places import Moved
from nemo_gym.launch.nodes.placing import ReplicaKey
from nemo_gym.processes.process_tree import kill_group

MODULE = "nemo_gym.launch.nodes.node_host"
END_S = 5.0
"""Seconds that a node host has to end its servers and itself."""
RAY_FAILED = "ray_failed"
"""The code of a request that Ray could not carry out."""
RAY_IS_GONE = "ray_is_gone"
"""The code of a request without a connection to Ray."""


class StartedHost(Protocol):
    """A node host that was started, and may have ended."""

    @property
    def ends_node(self) -> bool:
        """True if the node is lost with its end, although the connection to the node host may still be open."""

    async def wait(self) -> str:
        """Wait until it has ended. Returns how it ended, for a message."""

    async def end(self) -> None:
        """End it, unless it ends by itself within seconds."""


class Hosts(Protocol):
    """The machines of a gym."""

    @property
    def keys(self) -> Sequence[HostKeys]: ...

    @property
    def moved(self) -> Moved | None:
        """The folders that machines may have elsewhere; None if there are none."""

    async def start(self, host: str, document: bytes, log_path: Path) -> StartedHost:
        """Start a node host with `document` as its input. Its output goes to `log_path`."""

    async def reserve(
        self, host: str, replica: ReplicaKey, needs: Mapping[str, float]
    ) -> Sequence[str] | None:
        """Reserve what a replica needs on a host, which others may share.

        Returns the GPUs that are reserved, or nothing if the launcher chooses them; None if others use too much now.
        """

    def release(self, replica: ReplicaKey) -> None:
        """End the reservation of a replica, if it has one."""

    def remedy(self, host: str) -> str:
        """Return the advice for a node host that does not start."""

    async def close(self) -> None:
        """Free what the start of node hosts needed. They have ended."""


class CommandHosts:
    """The hosts of the configuration, on which a command such as `ssh` starts programs."""

    moved: None = None

    def __init__(self, config: Mapping[str, Any]) -> None:
        """Raises `ConfigError` for hosts that cannot be used."""
        self._command: str = config.get("host_command") or DEFAULT_HOST_COMMAND
        given = [each if isinstance(each, Mapping) else {"host": each} for each in config.get("hosts") or ()]
        self.keys = [HostKeys.model_validate(each) for each in given]
        names = [host.host for host in self.keys]
        if not names:
            raise ConfigError(
                "placement=hosts has no hosts", code="no_hosts", remedy="Name them: +hosts=[a,b]."
            )
        if len(set(names)) < len(names):
            raise ConfigError(
                f"hosts has a name twice: {', '.join(names)}", code="host_twice", remedy="Remove one."
            )
        if "{host}" not in self._command and len(names) > 1:
            raise _wrong_command(f"has no {{host}}: {self._command}")
        try:
            self._parts = shlex.split(self._command)
        except ValueError as error:
            raise _wrong_command(f"is no command line ({error}): {self._command}") from error
        if not self._parts:
            raise _wrong_command("is empty")

    def _words(self, host: str) -> list[str]:
        return [part.replace("{host}", host) for part in self._parts]

    async def start(self, host: str, document: bytes, log_path: Path) -> StartedHost:
        words = [*self._words(host), *map(shlex.quote, (sys.executable, "-P", "-m", MODULE))]
        with log_path.open("ab") as log:
            try:
                process = await asyncio.create_subprocess_exec(
                    *words, stdin=asyncio.subprocess.PIPE, stdout=log, stderr=log, start_new_session=True
                )
            except OSError as error:
                raise LaunchError(
                    f"the node host on {host} cannot be started by `{words[0]}`: {error.strerror}",
                    code="node_not_started",
                    remedy="Install it on this machine, or give another host_command.",
                    peer=host,
                ) from error
        started = _Command(process)
        try:
            await started.write(document)
        except BaseException:
            await started.end()
            raise
        return started

    async def reserve(
        self, host: str, replica: ReplicaKey, needs: Mapping[str, float]
    ) -> Sequence[str] | None:
        return ()  # no one else is known here

    def release(self, replica: ReplicaKey) -> None:
        """Do nothing: nothing was reserved."""

    def remedy(self, host: str) -> str:
        return f"Try `{' '.join(self._words(host))} true`; it is the host_command."

    async def close(self) -> None:
        """Do nothing: every command has ended."""


def _wrong_command(problem: str) -> ConfigError:
    return ConfigError(f"host_command {problem}", code="host_command", remedy="For example: ssh {host}")


@dataclass(frozen=True, slots=True)
class _Command:
    process: asyncio.subprocess.Process
    ends_node: ClassVar[bool] = False
    """The command may lose its own connection while the node host is connected."""

    async def write(self, document: bytes) -> None:
        assert self.process.stdin is not None
        with contextlib.suppress(OSError):  # it has ended, which is reported with its log
            self.process.stdin.write(document)
            await self.process.stdin.drain()
            self.process.stdin.close()
            await self.process.stdin.wait_closed()

    async def wait(self) -> str:
        return f"exit code {await self.process.wait()}"

    async def end(self) -> None:
        await end_process(self.process)


async def end_process(process: asyncio.subprocess.Process) -> None:
    """Wait until a process has ended, and kill its process group after `END_S`."""
    with contextlib.suppress(TimeoutError):
        await asyncio.wait_for(process.wait(), END_S)
    kill_group(process.pid)
    await process.wait()
