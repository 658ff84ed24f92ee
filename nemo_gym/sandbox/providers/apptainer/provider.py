"""The sandbox provider `apptainer`: one instance a sandbox, with a writable folder of this machine mounted in it."""

from __future__ import annotations

import asyncio
import contextlib
import json
import re
import shlex
import shutil
import tempfile
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from nemo_gym.sandbox.providers.apptainer.options import (
    ApptainerCreateConfig,
    ApptainerExecConfig,
    ApptainerProbeConfig,
)
from nemo_gym.sandbox.providers.command_line import find_program
from nemo_gym.sandbox.providers.containers import (
    SHORT_S,
    Container,
    ContainerCall,
    ContainerProvider,
    ExecContext,
    warn_unused,
)
from nemo_gym.sandbox.providers.options import section
from nemo_gym.sandbox.providers.specification import (
    SandboxCreateError,
    SandboxHandle,
    SandboxResources,
    SandboxSpec,
    SandboxStatus,
)

_SCHEME = re.compile(r"[a-z][a-z+-]*://")
_MISSING = ("no instance found", "instance not found", "does not exist")


class ApptainerProvider(ContainerProvider):
    """Creates sandboxes as instances of apptainer. `bin_path` is the folder of the program."""

    name = "apptainer"
    check_command = "version"
    engine_errors = ("fatal:", *_MISSING)

    def __init__(
        self,
        *,
        exec: ApptainerExecConfig | Mapping[str, Any] | None = None,
        create: ApptainerCreateConfig | Mapping[str, Any] | None = None,
        probe: ApptainerProbeConfig | Mapping[str, Any] | None = None,
        bin_path: str | None = None,
    ) -> None:
        self._exec_config = section(ApptainerExecConfig, exec, "exec")
        self._create_config = section(ApptainerCreateConfig, create, "create")
        super().__init__(
            find_program("apptainer", bin_path),
            section(ApptainerProbeConfig, probe, "probe"),
            concurrency=self._exec_config.concurrency,
            default_timeout_s=self._exec_config.default_timeout_s,
        )

    async def create(self, spec: SandboxSpec) -> SandboxHandle:
        """Start an instance, and wait until it runs commands. Raises SandboxCreateError with apptainer's reason."""
        assert isinstance(spec.resources, SandboxResources)
        self._refuse(spec, spec.resources)
        folder = Path(tempfile.mkdtemp(prefix="nemo_gym_apptainer_"))
        name = f"nemo-gym-{uuid.uuid4().hex[:16]}"
        instance = _Instance(name, env=dict(spec.env), workdir=spec.workdir)
        instance.folder = folder
        handle = SandboxHandle(name, self.name, instance)
        try:
            with _environment_arguments(spec.env) as env:
                arguments = self._start_arguments(spec, spec.resources, folder)
                limit = spec.ready_timeout_s or self._create_config.start_timeout_s
                done = await self._engine.run(
                    "instance", "start", *env, *arguments, _image(spec.image), name, timeout_s=limit
                )
            done.require_success(f"apptainer cannot start {spec.image!r}", SandboxCreateError)
            await self._make_ready(handle)
        except BaseException:
            await asyncio.shield(self.close(handle))
            raise
        return handle

    async def close(self, handle: SandboxHandle) -> None:
        """Stop the instance and delete its folder. Idempotent. Raises OSError if the instance does not stop."""
        done = await self._engine.run("instance", "stop", handle.sandbox_id, timeout_s=SHORT_S)
        missing = any(words in done.stderr.lower() for words in _MISSING)
        if done.return_code != 0 and not missing:
            raise OSError(f"the instance {handle.sandbox_id} is not stopped: {done.message}")
        if handle.raw.folder is not None:
            await asyncio.to_thread(shutil.rmtree, handle.raw.folder, ignore_errors=True)

    async def status(self, handle: SandboxHandle) -> SandboxStatus:
        done = await self._engine.run("instance", "list", "--json", timeout_s=SHORT_S)
        with contextlib.suppress(ValueError, KeyError, TypeError, AttributeError):
            if done.return_code == 0:
                running = [each["instance"] for each in json.loads(done.stdout)["instances"] or ()]
                is_running = handle.sandbox_id in running
                return SandboxStatus.RUNNING if is_running else SandboxStatus.STOPPED
        return SandboxStatus.UNKNOWN

    async def serialize_handle(self, handle: SandboxHandle, *, scope: str | None = None) -> dict[str, Any]:
        """The instance's name and folder: another process of this machine and user connects with it."""
        instance: _Instance = handle.raw
        return {"sandbox_id": handle.sandbox_id, "folder": str(instance.folder), "workdir": instance.workdir}

    async def connect(self, descriptor: Mapping[str, Any]) -> SandboxHandle:
        """Connect to a running instance. Its environment has the variables with which it started."""
        name = str(descriptor["sandbox_id"])
        instance = _Instance(name, workdir=descriptor.get("workdir"))
        instance.folder = Path(descriptor["folder"]) if descriptor.get("folder") else None
        handle = SandboxHandle(name, self.name, instance)
        status = await self.status(handle)
        if status is not SandboxStatus.RUNNING:
            raise RuntimeError(f"the sandbox {name} cannot be connected to: it is {status}")
        return handle

    def _refuse(self, spec: SandboxSpec, resources: SandboxResources) -> None:
        wanted = {
            "entrypoint": spec.entrypoint,
            "ports": spec.ports,
            "provider_options.network_policy": spec.provider_options.get("network_policy"),
        }
        refused = [name for name, value in wanted.items() if value]
        if refused:
            raise SandboxCreateError(
                f"the sandbox provider apptainer does not support {', '.join(refused)}", retryable=False
            )
        others = sorted(spec.provider_options.keys() - {"binds"})
        warn_unused(
            self.name,
            **{f"provider_options.{name}": True for name in others},
            ttl_s=spec.ttl_s,
            disk_gib=resources.disk_gib,
            gpu_type=resources.gpu_type,
        )

    def _start_arguments(self, spec: SandboxSpec, resources: SandboxResources, folder: Path) -> list[str]:
        create = self._create_config
        more = spec.provider_options.get("binds") or []
        binds = [f"{folder}:{create.mount_point}", *self._exec_config.default_binds]
        binds += [more] if isinstance(more, str) else more
        arguments = [part for bind in binds for part in ("--bind", bind)]
        if create.apply_resource_limits:
            arguments += ["--cpus", f"{resources.cpu:g}"] if resources.cpu else []
            arguments += ["--memory", f"{resources.memory_mib}m"] if resources.memory_mib else []
        arguments += ["--nv"] if resources.gpu else []
        return [*arguments, *create.extra_start_args]

    @contextmanager
    def _call(
        self, container: Container, program: Sequence[str], context: ExecContext
    ) -> Iterator[ContainerCall]:
        options = list(self._exec_config.extra_exec_args)
        folder = context.cwd or container.workdir
        options += ["--pwd", folder] if folder else []
        if context.user is not None and self._exec_config.fakeroot_for_root:
            options.append("--fakeroot")
        if context.user not in (None, "root", 0):
            command = shlex.join(program)
            program = ["su", "-s", "/bin/sh", "-c", command, str(context.user)]
        with _environment_arguments({**container.env, **context.env}) as env:
            yield ContainerCall(("exec", *env, *options, f"instance://{container.name}", *program))


class _Instance(Container):
    folder: Path | None = None
    """The folder of this machine that is mounted in the sandbox."""


def _image(image: str | None) -> str:
    """The image as apptainer's argument: a file, or an address with a scheme, by default `docker://`."""
    if not image:
        raise SandboxCreateError("an apptainer instance needs `image` in its SandboxSpec", retryable=False)
    if _SCHEME.match(image) or image.endswith(".sif") or image.startswith(("/", ".")) or Path(image).exists():
        return image
    return f"docker://{image}"


@contextlib.contextmanager
def _environment_arguments(env: Mapping[str, str]) -> Iterator[list[str]]:
    """Options that set variables from a private file. Its values are quoted for the shell that reads it."""
    if not env:
        yield []
        return
    with tempfile.NamedTemporaryFile("w", prefix="nemo_gym_env_", encoding="utf-8") as file:
        file.writelines(f"{name}={shlex.quote(value)}\n" for name, value in env.items())
        file.flush()
        yield ["--no-eval", "--env-file", file.name]
