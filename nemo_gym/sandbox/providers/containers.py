"""Sandboxes of a container engine's command line: commands, files and terminals in a running container.

A container stays up from the start of a sandbox to its end, and every command is one call of the engine. Values of
environment variables never stand on a command line, where every user of the machine could read them. A command over
its timeout is given up; its processes end with the container.
"""

from __future__ import annotations

import abc
import asyncio
import logging
import subprocess
import uuid
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any, ClassVar, NamedTuple

from nemo_gym.failures import ConfigError
from nemo_gym.sandbox.providers.command_line import CommandDone, CommandLine
from nemo_gym.sandbox.providers.options import ReadinessProbe
from nemo_gym.sandbox.providers.readiness import wait_until_ready
from nemo_gym.sandbox.providers.specification import (
    NO_EXIT_CODE,
    SandboxExecResult,
    SandboxHandle,
    SandboxPtySpec,
    SandboxStatus,
)
from nemo_gym.sandbox.providers.terminal import TerminalProcess

__all__ = ["ExecContext"]

_log = logging.getLogger(__name__)

SHORT_S = 60.0
"""The limit of calls that neither start a container nor run a user's command."""
_WRITE = 'mkdir -p -- "$(dirname -- "$0")" && cat > "$0"'
_READ = 'test -f "$0" && cat -- "$0"'
_PID_FILE = "/tmp/.nemo_gym_terminal_{}"


class ContainerCall(NamedTuple):
    """The arguments of an engine's call, and the variables that its client needs."""

    arguments: tuple[str, ...]
    variables: Mapping[str, str] = {}


@dataclass
class Container:
    """A running container."""

    name: str
    shell: str = "sh"
    ports: tuple[int, ...] = ()
    env: Mapping[str, str] = field(default_factory=dict)
    workdir: str | None = None


@dataclass(frozen=True)
class ExecContext:
    """The circumstances of a command in a container."""

    cwd: str | None = None
    env: Mapping[str, str] = field(default_factory=dict)
    user: str | int | None = None
    has_stdin: bool = False
    has_terminal: bool = False


class ContainerProvider(abc.ABC):
    """The part that providers of container engines share."""

    name: str
    engine_errors: tuple[str, ...] = ()
    """Words of the engine's own errors, in lower case. A program may print them, so that the state decides."""
    check_command: ClassVar[str]
    """A command of the engine that succeeds if sandboxes can run."""

    def __init__(
        self, program: str, probe: ReadinessProbe, *, concurrency: int, default_timeout_s: float | None
    ) -> None:
        self._engine = CommandLine(program, concurrency)
        self._probe = probe
        self._default_timeout_s = default_timeout_s

    @classmethod
    def find_missing(cls, options: Mapping[str, Any]) -> str | None:
        """The program or the daemon that is missing; None if sandboxes can run."""
        try:
            provider = cls(**options)
        except ConfigError as error:
            return str(error)
        reason = find_call_failure(provider._engine.program, cls.check_command)
        return None if reason is None else f"`{cls.name} {cls.check_command}` fails: {reason}"

    @abc.abstractmethod
    def _call(
        self, container: Container, program: Sequence[str], context: ExecContext
    ) -> AbstractContextManager[ContainerCall]:
        """The call that runs a program in a container."""

    @abc.abstractmethod
    async def status(self, handle: SandboxHandle) -> SandboxStatus: ...

    async def exec(
        self,
        handle: SandboxHandle,
        command: str,
        *,
        cwd: str | None = None,
        env: dict[str, str] | None = None,
        timeout_s: float | None = None,
        user: str | int | None = None,
        stdin: bytes | None = None,
    ) -> SandboxExecResult:
        """Run a shell command; `stdin` is its whole input."""
        container: Container = handle.raw
        context = ExecContext(cwd, env or {}, user, has_stdin=stdin is not None)
        limit = timeout_s if timeout_s is not None else self._default_timeout_s
        return await self.run(handle, [container.shell, "-c", command], context, timeout_s=limit, stdin=stdin)

    async def exec_with_background_services(
        self,
        handle: SandboxHandle,
        command: str,
        *,
        cwd: str | None = None,
        env: dict[str, str] | None = None,
        timeout_s: float | None = None,
        user: str | int | None = None,
    ) -> SandboxExecResult:
        """Run a command as `exec`: the processes that it leaves behind end with the container."""
        return await self.exec(handle, command, cwd=cwd, env=env, timeout_s=timeout_s, user=user)

    async def run(
        self,
        handle: SandboxHandle,
        program: Sequence[str],
        context: ExecContext,
        *,
        timeout_s: float | None,
        stdin: bytes | None = None,
        max_output_bytes: int | None = None,
    ) -> SandboxExecResult:
        """Run a program without a shell. The output of one that was given up is what it had printed."""
        done = await self._run_in(
            handle.raw, program, context, timeout_s, stdin, max_output_bytes=max_output_bytes
        )
        error = done.error
        if error is None and await self._is_engine_failure(handle, done):
            error = "sandbox"
        return SandboxExecResult(done.stdout, done.stderr, NO_EXIT_CODE if error else done.return_code, error)

    async def upload_file(self, handle: SandboxHandle, source_path: Path, target_path: str) -> None:
        """Copy a file into the sandbox, as root. Raises OSError."""
        with await asyncio.to_thread(source_path.open, "rb") as source:
            await self._transfer(handle, _WRITE, target_path, stdin=source)

    async def download_file(self, handle: SandboxHandle, source_path: str, target_path: Path) -> None:
        """Copy a file out of the sandbox. It is read inside, so that a symbolic link cannot lead outside."""
        target_path.parent.mkdir(parents=True, exist_ok=True)
        partial = target_path.with_name(f".{target_path.name}.{uuid.uuid4().hex[:8]}")
        try:
            with await asyncio.to_thread(partial.open, "xb") as target:
                await self._transfer(handle, _READ, source_path, stdout=target)
            partial.replace(target_path)
        finally:
            partial.unlink(missing_ok=True)

    async def create_pty(self, handle: SandboxHandle, spec: SandboxPtySpec) -> TerminalProcess:
        """Open a terminal session. The program's process id is kept in a file, for signals."""
        container: Container = handle.raw
        file = _PID_FILE.format(uuid.uuid4().hex)

        async def send(name: str) -> None:
            kill = f"kill -s {name.removeprefix('SIG')}"
            script = f'{kill} -- "-$(cat {file})" 2>/dev/null || {kill} "$(cat {file})"'
            await self._run_in(container, ["sh", "-c", script], ExecContext(user=spec.user), SHORT_S)

        program = [container.shell] if spec.command is None else [container.shell, "-c", spec.command]
        program = ["sh", "-c", f'{{ echo $$ > {file}; }} 2>/dev/null; exec "$0" "$@"', *program]
        context = ExecContext(spec.cwd, spec.env or {}, spec.user, True, spec.pty)
        with ExitStack() as stack:
            call = stack.enter_context(self._call(container, program, context))
            session = TerminalProcess(pty=spec.pty, send=send, owned=stack.pop_all())
        command = [self._engine.program, *call.arguments]
        return await session.open(command, call.variables, spec.rows, spec.cols)

    def call_from(self, folder: str) -> None:
        """Call the engine from `folder`: podman's monitor leaves the file `oom` where a container lacked memory.

        Relative paths among the options are relative to `folder` then.
        """
        self._engine.folder = folder

    async def aclose(self) -> None:  # noqa: B027 - nothing to release is a complete implementation
        """Do nothing: the provider holds no resources of its own."""

    async def _make_ready(self, handle: SandboxHandle) -> None:
        await wait_until_ready(
            self._probe, lambda command, limit: self.exec(handle, command, timeout_s=limit)
        )

    async def _run_in(
        self,
        container: Container,
        program: Sequence[str],
        context: ExecContext,
        timeout_s: float | None,
        stdin: bytes | IO[bytes] | None = None,
        stdout: IO[bytes] | None = None,
        max_output_bytes: int | None = None,
    ) -> CommandDone:
        with self._call(container, program, context) as call:
            return await self._engine.run(
                *call.arguments,
                timeout_s=timeout_s,
                stdin=stdin,
                stdout=stdout,
                variables=call.variables,
                max_output_bytes=max_output_bytes,
            )

    async def _transfer(
        self,
        handle: SandboxHandle,
        script: str,
        path: str,
        *,
        stdin: IO[bytes] | None = None,
        stdout: IO[bytes] | None = None,
    ) -> None:
        context = ExecContext(user="root", has_stdin=stdin is not None)
        program = ["sh", "-c", script, path]
        done = await self._run_in(handle.raw, program, context, self._default_timeout_s, stdin, stdout)
        done.require_success(f"{path} in the sandbox {handle.sandbox_id}", OSError)

    async def _is_engine_failure(self, handle: SandboxHandle, done: CommandDone) -> bool:
        if done.return_code == 0:
            return False
        said = done.stderr.lower()
        suspected = any(words in said for words in self.engine_errors)
        return suspected and await self.status(handle) is not SandboxStatus.RUNNING


def warn_unused(name: str, **values: object) -> None:
    """Log the fields of a specification that a provider does not use."""
    unused = [field for field, value in values.items() if value]
    if unused:
        _log.warning("The sandbox provider %s does not use %s.", name, ", ".join(unused))


def find_call_failure(program: str, *arguments: str) -> str | None:
    """The reason why a call of a program fails; None if it succeeds. Blocks up to 20 seconds."""
    try:
        done = subprocess.run(
            [program, *arguments], capture_output=True, text=True, timeout=20, check=False, errors="replace"
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return str(error)
    return None if done.returncode == 0 else " ".join(done.stderr.split()) or f"exit code {done.returncode}"
