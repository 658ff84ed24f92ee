"""The sandbox provider `docker`: one container a sandbox, by the command line that docker and podman share."""

from __future__ import annotations

import asyncio
import shlex
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, ClassVar

from nemo_gym.sandbox.providers.command_line import CommandDone, find_program
from nemo_gym.sandbox.providers.containers import (
    SHORT_S,
    Container,
    ContainerCall,
    ContainerProvider,
    ExecContext,
    find_call_failure,
    warn_unused,
)
from nemo_gym.sandbox.providers.docker._run_command import (
    environment_arguments,
    find_unused_options,
    normalize_image,
    run_arguments,
)
from nemo_gym.sandbox.providers.docker.options import (
    DockerCreateConfig,
    DockerExecConfig,
    DockerProbeConfig,
)
from nemo_gym.sandbox.providers.leftovers import LeftoverRemover
from nemo_gym.sandbox.providers.options import section
from nemo_gym.sandbox.providers.specification import (
    SandboxCreateError,
    SandboxEndpoint,
    SandboxHandle,
    SandboxResources,
    SandboxSpec,
    SandboxStatus,
)

_STATUS = {
    "running": SandboxStatus.RUNNING,
    "paused": SandboxStatus.PAUSED,
    **dict.fromkeys(("created", "configured", "initialized", "restarting"), SandboxStatus.STARTING),
    **dict.fromkeys(("exited", "dead", "removing", "stopped", "stopping"), SandboxStatus.STOPPED),
}
_MISSING = ("no such container", "no such object")


class DockerProvider(ContainerProvider):
    """Creates sandboxes as containers of a local Docker daemon."""

    name = "docker"
    check_command = "info"
    engine_errors = (
        *_MISSING,
        "is not running",
        "is paused",
        "state improper",
        "cannot connect to the docker daemon",
        "error response from daemon",
    )
    _REMOVE: ClassVar[tuple[str, ...]] = ("rm", "--force")

    def __init__(
        self,
        *,
        exec: DockerExecConfig | Mapping[str, Any] | None = None,
        create: DockerCreateConfig | Mapping[str, Any] | None = None,
        probe: DockerProbeConfig | Mapping[str, Any] | None = None,
    ) -> None:
        self._exec_config = section(DockerExecConfig, exec, "exec")
        self._create_config = section(DockerCreateConfig, create, "create")
        super().__init__(
            find_program(self.name),
            section(DockerProbeConfig, probe, "probe"),
            concurrency=self._exec_config.concurrency,
            default_timeout_s=self._exec_config.default_timeout_s,
        )

    @classmethod
    def find_missing_image(cls, image: str) -> str | None:
        """The reason why an image is not on this machine; None if it is."""
        return find_call_failure(cls.name, "image", "inspect", "--format", "{{.Id}}", normalize_image(image))

    async def create(self, spec: SandboxSpec) -> SandboxHandle:
        """Start a container, and wait until it runs commands. Raises SandboxCreateError with the engine's reason."""
        assert isinstance(spec.resources, SandboxResources)
        unused = find_unused_options(spec.provider_options)
        warn_unused(
            self.name,
            **dict.fromkeys(unused, True),
            disk_gib=spec.resources.disk_gib,
            gpu_type=spec.resources.gpu_type,
            ttl_s=spec.ttl_s is not None and spec.entrypoint,
        )
        name = f"nemo-gym-{uuid.uuid4().hex[:16]}"
        gpus = self._gpus(spec.resources.gpu) if spec.resources.gpu else []
        handle = SandboxHandle(name, self.name, Container(name, ports=tuple(spec.ports)))
        try:
            with environment_arguments(spec.env) as (options, variables):
                verb, *arguments = run_arguments(name, spec, self._create_config, gpus)
                limit = spec.ready_timeout_s or self._create_config.start_timeout_s
                done = await self._engine.run(
                    verb, *options, *arguments, timeout_s=limit, variables=variables
                )
            done.require_success(f"{self.name} cannot start the image {spec.image!r}", SandboxCreateError)
            await self._prepare(handle, spec)
        except BaseException:
            await asyncio.shield(self.close(handle))
            raise
        return handle

    def leftover_remover(self) -> LeftoverRemover:
        """A program that removes containers with its `labels` (`metadata` of a specification) after a kill."""
        return LeftoverRemover(self._engine.program, self._REMOVE)

    async def close(self, handle: SandboxHandle) -> None:
        """Remove the container with its processes. Idempotent. Raises OSError if the engine does not answer."""
        done = await self._engine.run(*self._REMOVE, handle.sandbox_id, timeout_s=SHORT_S)
        if done.return_code != 0 and not _is_missing(done):
            raise OSError(f"the container {handle.sandbox_id} is not removed: {done.message}")

    async def status(self, handle: SandboxHandle) -> SandboxStatus:
        done = await self._inspect(handle.sandbox_id, "{{.State.Status}}")
        if done.return_code != 0:
            return SandboxStatus.STOPPED if _is_missing(done) else SandboxStatus.UNKNOWN
        return _STATUS.get(done.stdout.strip(), SandboxStatus.UNKNOWN)

    async def endpoint(self, handle: SandboxHandle, port: int) -> SandboxEndpoint:
        """The address of this machine at which a declared port is published."""
        if port not in handle.raw.ports:
            raise ValueError(f"port {port} is not among `ports` of the SandboxSpec: {handle.raw.ports}")
        done = await self._engine.run("port", handle.sandbox_id, f"{port}/tcp", timeout_s=SHORT_S)
        if done.return_code != 0 or not done.stdout.strip():
            raise RuntimeError(f"port {port} of {handle.sandbox_id} has no address: {done.message}")
        return SandboxEndpoint(f"http://{done.stdout.split()[0]}")

    async def pause(self, handle: SandboxHandle) -> None:
        """Freeze all processes of the container."""
        await self._must("pause", handle.sandbox_id)

    async def resume(self, handle: SandboxHandle) -> None:
        """Let the processes of the container go on."""
        await self._must("unpause", handle.sandbox_id)

    async def serialize_handle(self, handle: SandboxHandle, *, scope: str | None = None) -> dict[str, Any]:
        """The container's name: another process of this machine connects with it."""
        return {
            "sandbox_id": handle.sandbox_id,
            "ports": list(handle.raw.ports),
            "workdir": handle.raw.workdir,
        }

    async def connect(self, descriptor: Mapping[str, Any]) -> SandboxHandle:
        """Connect to a running container. Raises RuntimeError if it does not run."""
        name = str(descriptor["sandbox_id"])
        container = Container(
            name, ports=tuple(descriptor.get("ports") or ()), workdir=descriptor.get("workdir")
        )
        handle = SandboxHandle(name, self.name, container)
        status = await self.status(handle)
        if status is not SandboxStatus.RUNNING:
            raise RuntimeError(f"the sandbox {name} cannot be connected to: it is {status}")
        handle.raw.shell = await self._find_shell(handle)
        return handle

    def validate_networking(self) -> None:
        """Raise ValueError if containers have no network."""
        if self._create_config.network in ("none", "host"):
            raise ValueError(
                f"services need a network of their own, not `network: {self._create_config.network}`"
            )

    async def network_address(self, handle: SandboxHandle) -> str:
        """The address at which other containers reach this one."""
        done = await self._inspect(
            handle.sandbox_id, "{{range .NetworkSettings.Networks}}{{.IPAddress}} {{end}}"
        )
        if done.return_code != 0 or not done.stdout.split():
            raise RuntimeError(f"the container {handle.sandbox_id} has no address: {done.message}")
        return done.stdout.split()[0]

    async def set_hosts(self, handle: SandboxHandle, hosts: Mapping[str, str]) -> None:
        """Add names of other containers to the container's `/etc/hosts`."""
        lines = "".join(f"{address} {name}\n" for name, address in hosts.items())
        done = await self.exec(handle, "cat >> /etc/hosts", user="root", stdin=lines.encode())
        if done.return_code != 0:
            raise RuntimeError(f"the hosts of {handle.sandbox_id} are not set: {done.stderr}")

    @contextmanager
    def _call(
        self, container: Container, program: Sequence[str], context: ExecContext
    ) -> Iterator[ContainerCall]:
        options = ["exec", *self._exec_config.extra_exec_args]
        options += ["--interactive"] if context.has_stdin else []
        options += ["--tty"] if context.has_terminal else []
        folder = context.cwd or container.workdir
        options += ["--workdir", folder] if folder else []
        if context.user is not None:
            options += ["--user", "0" if context.user == "root" else str(context.user)]
        with environment_arguments(context.env) as (env, variables):
            yield ContainerCall((*options, *env, container.name, *program), variables)

    @staticmethod
    def _gpus(count: int) -> list[str]:
        return ["--gpus", str(count)]

    async def _prepare(self, handle: SandboxHandle, spec: SandboxSpec) -> None:
        handle.raw.shell = await self._find_shell(handle)
        await self._make_ready(handle)
        if spec.workdir and not spec.entrypoint:
            # Docker creates a missing workdir, podman refuses it.
            made = await self.exec(handle, f"mkdir -p {shlex.quote(spec.workdir)}", user="root")
            if made.return_code != 0:
                raise SandboxCreateError(f"the workdir {spec.workdir} cannot be created: {made.stderr}")
        handle.raw.workdir = spec.workdir

    async def _find_shell(self, handle: SandboxHandle) -> str:
        if self._exec_config.exec_shell is not None:
            return self._exec_config.exec_shell
        found = await self.exec(handle, "command -v bash", timeout_s=SHORT_S)
        return "bash" if found.return_code == 0 else "sh"

    async def _inspect(self, name: str, template: str) -> CommandDone:
        return await self._engine.run(
            "inspect", "--type", "container", "--format", template, name, timeout_s=SHORT_S
        )

    async def _must(self, *arguments: str) -> None:
        done = await self._engine.run(*arguments, timeout_s=SHORT_S)
        done.require_success(f"{self.name} {' '.join(arguments)}")


def _is_missing(done: CommandDone) -> bool:
    return any(words in done.stderr.lower() for words in _MISSING)
