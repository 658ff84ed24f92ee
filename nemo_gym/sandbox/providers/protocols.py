"""The protocol of a sandbox provider, and the abilities that a provider may have besides.

A provider is a class with the methods of `SandboxProvider`. Its abilities are further methods, found with
`isinstance(provider, SupportsSandboxEndpoint)`. `nemo_gym.sandbox.providers.registry` describes its registration.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Protocol, Self, runtime_checkable

from nemo_gym.sandbox.providers.specification import (
    SandboxEndpoint,
    SandboxExecResult,
    SandboxHandle,
    SandboxPtySpec,
    SandboxSpec,
    SandboxStatus,
)


class SandboxProvider(Protocol):
    """Creates and operates sandboxes of one kind."""

    name: str

    async def create(self, spec: SandboxSpec) -> SandboxHandle:
        """Create a sandbox that is ready for commands. Raises SandboxCreateError."""

    async def exec(
        self,
        handle: SandboxHandle,
        command: str,
        *,
        cwd: str | None = None,
        env: dict[str, str] | None = None,
        timeout_s: float | None = None,
        user: str | int | None = None,
    ) -> SandboxExecResult:
        """Run a shell command in a sandbox, for at most `timeout_s` seconds.

        A command that fails or takes too long is a result, not an exception.
        """

    async def upload_file(self, handle: SandboxHandle, source_path: Path, target_path: str) -> None:
        """Copy a file of this machine into a sandbox, and create its folder. Raises OSError."""

    async def download_file(self, handle: SandboxHandle, source_path: str, target_path: Path) -> None:
        """Copy a file out of a sandbox. Raises OSError."""

    async def status(self, handle: SandboxHandle) -> SandboxStatus: ...

    async def close(self, handle: SandboxHandle) -> None:
        """Stop and delete a sandbox. Idempotent."""

    async def aclose(self) -> None:
        """Release the resources of the provider itself."""


def lacks(provider: SandboxProvider, ability: str) -> NotImplementedError:
    """Return the error of a provider without an ability that was asked of it."""
    name = getattr(provider, "name", type(provider).__name__)
    return NotImplementedError(f"the sandbox provider {name!r} has no {ability}")


@runtime_checkable
class SupportsAvailabilityCheck(Protocol):
    """Names the reason why its sandboxes cannot run here, before anything starts."""

    @classmethod
    def find_missing(cls, options: Mapping[str, Any]) -> str | None:
        """Return the missing part, such as a program, for a provider with `options`; None if nothing is missing.

        Names and types of the options are checked before. Raises ValueError for options that exclude each other.
        """


@runtime_checkable
class SupportsImageCheck(Protocol):
    """Names the reason why an image cannot be used here, before anything starts."""

    @classmethod
    def find_missing_image(cls, image: str) -> str | None:
        """Return the reason why an image is not on this machine, and None if it is. The provider itself works."""


@runtime_checkable
class SupportsSandboxEndpoint(Protocol):
    """Gives access to services in a sandbox."""

    async def endpoint(self, handle: SandboxHandle, port: int) -> SandboxEndpoint:
        """Return the endpoint of a port that the specification declares. Raises ValueError for another one."""


@runtime_checkable
class SupportsSandboxPauseResume(Protocol):
    """Pauses sandboxes. The file system survives a pause; the provider decides about processes."""

    async def pause(self, handle: SandboxHandle) -> None: ...

    async def resume(self, handle: SandboxHandle) -> None: ...


@runtime_checkable
class SupportsSandboxSnapshots(Protocol):
    """Keeps the files of sandboxes. Processes and their memory are not kept."""

    async def snapshot(self, handle: SandboxHandle, path: Path) -> bool:
        """Write the files of a sandbox into a new file of this machine. Raises OSError.

        Returns False while processes go on in the sandbox, because its files alone are not its state.
        """

    async def restore(self, spec: SandboxSpec, path: Path) -> SandboxHandle:
        """Create a sandbox as `create`, with the files of a snapshot of one that had this specification.

        Raises SandboxCreateError.
        """


@runtime_checkable
class ConnectableProvider(Protocol):
    """Connects another process to a running sandbox, by a description in JSON."""

    async def serialize_handle(self, handle: SandboxHandle, *, scope: str | None = None) -> dict[str, Any]:
        """Return a description for `connect`. A provider that grants leases reads the `scope` of one."""

    async def connect(self, descriptor: Mapping[str, Any]) -> SandboxHandle: ...


@runtime_checkable
class SupportsSandboxBackgroundServices(Protocol):
    """Runs commands whose background processes survive them."""

    async def exec_with_background_services(
        self, handle: SandboxHandle, command: str, *, cwd: str | None = None, timeout_s: float | None = None
    ) -> SandboxExecResult:
        """Run a command as `exec`. A provider that takes `env` and `user` here too has them as arguments."""


@runtime_checkable
class SupportsSandboxNetwork(Protocol):
    """Connects sandboxes directly with each other."""

    def validate_networking(self) -> None:
        """Raise ValueError if the configuration of the provider has no such network."""

    async def network_address(self, handle: SandboxHandle) -> str:
        """Return the address at which other sandboxes reach this one."""

    async def set_hosts(self, handle: SandboxHandle, hosts: Mapping[str, str]) -> None:
        """Let a sandbox find others: host name → address."""


@runtime_checkable
class SupportsSandboxRuntimeRequirements(Protocol):
    """Grants capabilities and shared memory that a task declares."""

    def validate_runtime_requirements(
        self, *, cap_add: tuple[str, ...], shm_size: int | None
    ) -> dict[str, str] | None:
        """Return metadata that the sandbox must be created with. Raises ValueError for an unsupported requirement."""

    async def configure_runtime(
        self, handle: SandboxHandle, *, cap_add: tuple[str, ...], shm_size: int | None
    ) -> None: ...


@runtime_checkable
class SupportsSandboxPortForwarding(Protocol):
    """Forwards ports on the loopback of a sandbox to another one, until it is cancelled."""

    def validate_port_forwarding(self) -> None: ...

    async def forward_ports(
        self, handle: SandboxHandle, target_address: str, ports: tuple[int, ...], *, ready_file: str
    ) -> None: ...


@runtime_checkable
class SupportsSandboxSharedStorage(Protocol):
    """Mounts a storage of the operator into several sandboxes."""

    def shared_volume_options(
        self, source: str | None, target: str, *, read_only: bool = False
    ) -> dict[str, Any]:
        """Return `provider_options` whose list `volumes` mounts `source`, relative to the storage, at `target`."""

    def shared_volume_metadata(self) -> dict[str, str]:
        """Return metadata that places a sandbox where the storage is."""


@runtime_checkable
class SandboxPtySession(Protocol):
    """A terminal session in a sandbox. At the end of its `async with` block it is closed."""

    session_id: str
    mode: str | None
    """`pty` or `pipe`; None before the session is connected."""

    @property
    def closed(self) -> bool: ...

    async def read(self, *, timeout_s: float | None = None) -> bytes:
        """Return the next output; empty after its end. Raises TimeoutError, and SandboxPtyError for a lost session."""

    async def read_stderr(self, *, timeout_s: float | None = None) -> bytes:
        """Return the next error output of a session with pipes; empty after its end, and always in a terminal."""

    def __aiter__(self) -> AsyncIterator[bytes]:
        """Iterate over the output until its end."""

    async def write(self, data: bytes) -> None: ...

    async def resize(self, rows: int, cols: int) -> None: ...

    async def send_signal(self, signal: str) -> None:
        """Send a signal, such as `SIGTERM`, to the process group of the session."""

    async def wait_exit(self, *, timeout_s: float | None = None) -> int:
        """Return the exit code of the program, once it has ended."""

    async def run_detached(self, command: str, *, poll_interval_s: float = 15.0) -> tuple[bytes, int | None]:
        """Run a command without a connection while it works, and return its output and exit code."""

    async def close(self) -> None:
        """Release the session. A session that this process created ends, an attached one goes on. Idempotent."""

    async def __aenter__(self) -> Self: ...

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...


@runtime_checkable
class SupportsSandboxPty(Protocol):
    """Opens terminal sessions in a sandbox."""

    async def create_pty(self, handle: SandboxHandle, spec: SandboxPtySpec) -> SandboxPtySession: ...


@runtime_checkable
class SupportsSandboxPtyAttach(Protocol):
    """Attaches to terminal sessions that live in the sandbox."""

    async def attach_pty(
        self, handle: SandboxHandle, session_id: str, *, takeover: bool = True, since: int | None = None
    ) -> SandboxPtySession:
        """Attach to a session. `takeover` detaches its holder; output from byte `since` on is repeated."""
