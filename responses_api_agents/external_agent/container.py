"""Agents in containers of docker or podman, with the promises of bubblewrap.

Each attempt has a container of its own, made by a sandbox provider (`nemo_gym.sandbox`): no network, a read-only root,
no capabilities, no new privileges, a user that is not root, limits on memory and processes. Its way out is the
gateway's socket in the mounted workspace, which the forwarder offers at a loopback port; the forwarder runs by the
gym's own Python, which is mounted, too (`portable_python.py`). Before the first attempt a program in such a container
looks for itself whether all this holds. A container is removed after its attempt; a program beside the gym removes it
if the gym is killed, and it ends by itself at the latest when the attempt would have.
"""

from __future__ import annotations

import asyncio
import json
import os
import resource
import tempfile
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from nemo_gym import clock
from nemo_gym.failures import AgentError, ConfigError
from nemo_gym.isolation.confinement import MIB
from nemo_gym.isolation.execution import Ending, SandboxLimits, new_workspace, remove_workspace
from nemo_gym.isolation.portable_python import PortablePython
from nemo_gym.isolation.users import claim_user
from nemo_gym.isolation.workspace_files import put_files
from nemo_gym.sandbox import (
    SandboxCreateError,
    SandboxExecResult,
    SandboxHandle,
    SandboxResources,
    SandboxSpec,
    SandboxStatus,
    get_provider_class,
)
from nemo_gym.sandbox.providers.containers import ExecContext
from nemo_gym.sandbox.providers.docker import DockerProvider
from nemo_gym.sandbox.providers.leftovers import LeftoverRemover
from responses_api_agents.external_agent.attempt import (
    FORWARDER,
    PORT,
    SEEN_AS,
    WORK,
    AgentCommand,
    AgentExit,
    AttemptPlaces,
    accounts_of,
    until_full,
)
from responses_api_agents.external_agent.gateway import bound_socket

CONTAINER_PROVIDERS = ("docker", "podman")
_FACTS = Path(__file__).with_name("container_facts.py")
_ANSWER = "the gateway's socket"
_NOBODY = 65534
_OUTLIVES_S = 120.0
_CHECK_S = 60.0
_KILLED = 137
_ENDINGS = {"timeout": Ending.TIMED_OUT, "output_exceeded": Ending.OUTPUT_EXCEEDED}


@dataclass(frozen=True, slots=True)
class ContainerOptions:
    """The containers of an agent server."""

    provider: str
    """`docker` or `podman`."""
    provider_options: Mapping[str, Any]
    image: str
    labels: Mapping[str, str]
    readable: Sequence[Path]
    """Folders that are mounted read-only, at their own paths."""
    limits: SandboxLimits
    most_attempts: int
    """Attempts at the same time."""


class ContainerSandbox:
    """Runs agents' commands, each in a container of its own."""

    def __init__(self, options: ContainerOptions) -> None:
        self._options = options
        self._python = PortablePython.of_the_gym()
        self._provider: DockerProvider | None = None
        self._remover: LeftoverRemover | None = None
        self._calls: tempfile.TemporaryDirectory[str] | None = None
        self._starting = asyncio.Lock()

    async def start(self) -> None:
        """Find the engine and the image, and check a container. Raises ConfigError."""
        async with self._starting:
            if self._provider is not None:
                return
            provider = await asyncio.to_thread(_provider_of, self._options)
            calls = tempfile.TemporaryDirectory(prefix="nemo_gym_calls_")
            provider.call_from(calls.name)
            remover = provider.leftover_remover()
            try:
                await self._check(provider, remover)
            except BaseException:
                await asyncio.to_thread(remover.close)
                calls.cleanup()
                raise
            self._provider, self._remover, self._calls = provider, remover, calls

    async def stop(self) -> None:
        """End the program that removes the containers of a killed gym."""
        if self._remover is not None:
            await asyncio.to_thread(self._remover.close)
        if self._calls is not None:
            self._calls.cleanup()
        self._provider = self._remover = self._calls = None

    async def forwards(self) -> bool:
        """True: a container has no network but its loopback."""
        return True

    @asynccontextmanager
    async def places(self, files: Mapping[str, str]) -> AsyncIterator[AttemptPlaces]:
        """Create the folders of an attempt, with `files` in its working folder; they are deleted at the end."""
        workspace = new_workspace(SEEN_AS, user=claim_user() if os.geteuid() == 0 else None)
        try:
            places = AttemptPlaces(replace(workspace, mounts=(accounts_of(workspace),)))
            put_files(places.workspace, files, WORK)
            yield places
        finally:
            await remove_workspace(workspace)

    async def run(self, places: AttemptPlaces, command: AgentCommand) -> AgentExit:
        """Run a filled command to its end in a new container, which is removed then."""
        await self.start()
        assert self._provider is not None
        assert self._remover is not None
        try:
            return await self._run(self._provider, self._remover, places, command)
        except (SandboxCreateError, OSError) as error:
            raise AgentError(
                f"An agent's container failed: {error}.", code="sandbox_failed", retryable=True
            ) from error

    async def _run(
        self, provider: DockerProvider, remover: LeftoverRemover, places: AttemptPlaces, command: AgentCommand
    ) -> AgentExit:
        began = clock.monotonic()
        handle = await provider.create(self._spec(places, remover))
        watch = asyncio.create_task(until_full(places.workspace.folder, self._options.limits.folder_bytes))
        try:
            done = asyncio.create_task(self._exec(provider, handle, places, command))
            await asyncio.wait((done, watch), return_when=asyncio.FIRST_COMPLETED)
            if not done.done():
                await provider.close(handle)  # the command ends with it, and says what it has printed
            result = await done
            is_full = watch.done() and watch.result() is None
            ending = Ending.STOPPED if is_full else await self._ending(provider, handle, places, result)
        finally:
            watch.cancel()
            done.cancel()
            await asyncio.shield(provider.close(handle))
        return self._exit_of(result, ending, clock.monotonic() - began, is_full=is_full)

    def _exit_of(
        self, result: SandboxExecResult, ending: Ending, seconds: float, *, is_full: bool
    ) -> AgentExit:
        stdout, stderr = (
            (text or "").encode()[: self._options.limits.output_bytes].decode(errors="ignore")
            for text in (result.stdout, result.stderr)
        )
        status = result.return_code if result.error_type is None else _KILLED
        return AgentExit(status, ending, seconds, stdout, stderr, self._options.provider, is_full)

    async def _exec(
        self, provider: DockerProvider, handle: SandboxHandle, places: AttemptPlaces, command: AgentCommand
    ) -> SandboxExecResult:
        forwarder = self._python.command(FORWARDER.read_text(encoding="utf-8"))
        arguments = [places.seen(places.socket), str(PORT), places.seen(places.work), *command.command]
        limits = self._options.limits
        return await provider.run(
            handle,
            [*forwarder, *arguments],
            ExecContext(env=command.environment, user=_user_of(places), has_stdin=True),
            timeout_s=limits.wall_s,
            stdin=command.stdin.encode(),
            max_output_bytes=limits.output_bytes,
        )

    async def _ending(
        self,
        provider: DockerProvider,
        handle: SandboxHandle,
        places: AttemptPlaces,
        result: SandboxExecResult,
    ) -> Ending:
        """The way in which a command ended. Raises AgentError if its container ended under it."""
        if result.error_type in _ENDINGS:
            return _ENDINGS[result.error_type]
        if result.return_code == 0:
            return Ending.EXITED
        if await provider.status(handle) is not SandboxStatus.RUNNING:
            raise AgentError(
                f"An agent's container ended under it: {(result.stderr or '')[-500:]}",
                code="sandbox_failed",
                retryable=True,
            )
        program = [*self._facts_command(), "0", "/"]
        context = ExecContext(user=_idle_user_of(places))
        seen = await provider.run(handle, program, context, timeout_s=_CHECK_S)
        # Processes that the agent left behind may keep the program from running.
        lost = json.loads(seen.stdout or "")["oom_kills"] if seen.return_code == 0 else 0
        return Ending.MEMORY_EXCEEDED if lost else Ending.EXITED

    def _facts_command(self) -> list[str]:
        return self._python.command(_FACTS.read_text(encoding="utf-8"))

    def _spec(self, places: AttemptPlaces, remover: LeftoverRemover) -> SandboxSpec:
        options, workspace = self._options, places.workspace
        shown = [*self._python.mounts, *workspace.mounts, *((path, path) for path in options.readable)]
        volumes = [f"{workspace.folder}:{workspace.place}", *(f"{here}:{there}:ro" for here, there in shown)]
        return SandboxSpec(
            image=options.image,
            ttl_s=options.limits.wall_s + _OUTLIVES_S,
            metadata={**options.labels, **remover.labels},
            resources=SandboxResources(memory_mib=options.limits.memory_bytes // MIB),
            provider_options={"volumes": volumes, "run_args": _run_arguments(options, _idle_user_of(places))},
        )

    async def _check(self, provider: DockerProvider, remover: LeftoverRemover) -> None:
        """Run the program that looks around in a container. Raises ConfigError if a promise does not hold."""
        command = AgentCommand([*self._facts_command(), str(PORT), f"{SEEN_AS / WORK}"], "", {}, {})

        async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            writer.write(_ANSWER.encode())
            writer.close()

        async with self.places({}) as places:
            server = await asyncio.start_unix_server(answer, sock=bound_socket(places.socket))
            places.open_socket()
            async with server:
                try:
                    exit_ = await self._run(provider, remover, places, command)
                except (SandboxCreateError, AgentError, OSError) as error:
                    raise _unusable(self._options, [str(error)]) from error
        if exit_.status != 0:
            raise _unusable(self._options, [exit_.stderr.strip() or f"a program ends with {exit_.status}"])
        broken = list(broken_promises(json.loads(exit_.stdout), self._options.limits))
        if broken:
            raise _unusable(self._options, broken)


def _provider_of(options: ContainerOptions) -> DockerProvider:
    """The provider of the containers. Raises ConfigError if it or the image is missing."""
    found: type[DockerProvider] = get_provider_class(options.provider)
    given = dict(options.provider_options)
    missing = found.find_missing(given) or found.find_missing_image(options.image)
    if missing is not None:
        raise _unusable(options, [missing])
    create, execution = dict(given.get("create") or {}), dict(given.get("exec") or {})
    create |= {
        "network": "none",
        "read_only": True,
        "cap_drop": ["ALL"],
        "security_opt": [*(create.get("security_opt") or ()), "no-new-privileges"],
        "pids_limit": options.limits.processes,
        "apply_resource_limits": True,
    }
    # A call of the engine lasts as long as its attempt, and another one removes the container.
    execution = {"exec_shell": "/bin/sh", **execution, "concurrency": 4 * options.most_attempts}
    return found(create=create, exec=execution, probe=given.get("probe") or {"command": None})


def _run_arguments(options: ContainerOptions, idle_user: str) -> list[str]:
    limits, is_root = options.limits, os.geteuid() == 0
    arguments = ["--pull", "never", "--user", idle_user, "--hostname", "agent"]
    if options.provider == "podman" and not is_root:
        arguments += ["--userns", "keep-id"]  # the files of the agent are the gym's, then
    arguments += ["--tmpfs", f"/tmp:rw,exec,nosuid,nodev,mode=1777,size={limits.folder_bytes}"]
    arguments += ["--shm-size", str(limits.folder_bytes)]
    files = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    bounds = {
        "core": 0,
        "fsize": limits.file_bytes,
        "nofile": limits.open_files if files == resource.RLIM_INFINITY else min(limits.open_files, files),
        # Without users of their own, agents share this limit with other processes of the gym's user.
        **({"nproc": limits.processes} if is_root else {}),
    }
    return [
        *arguments,
        *(part for name, most in bounds.items() for part in ("--ulimit", f"{name}={most}:{most}")),
    ]


def _user_of(places: AttemptPlaces) -> str:
    user = places.workspace.user
    return f"{os.getuid()}:{os.getgid()}" if user is None else f"{user.uid}:{user.uid}"


def _idle_user_of(places: AttemptPlaces) -> str:
    """The user of a container's main process, which sleeps: an agent cannot end it."""
    user = places.workspace.user
    number = _NOBODY if user is None else user.uid + 1  # the id belongs to the sandbox, too
    return f"{number}:{number}"


def broken_promises(facts: Mapping[str, Any], limits: SandboxLimits) -> Iterator[str]:
    """Yield the promises that do not hold in a container, by the facts of `container_facts.py`."""
    if facts["user"] == 0:
        yield "agents would be root"
    if facts["capabilities"] or not facts["no_new_privileges"]:
        yield "agents would have capabilities, or could get them"
    if facts["interfaces"] != ["lo"]:
        yield f"containers have a network ({', '.join(facts['interfaces'])})"
    if not facts["is_read_only"]:
        yield "the root of containers can be written"
    if not _is_at_most(facts["memory"], limits.memory_bytes):
        yield f"the memory of containers is not limited ({facts['memory'] or 'no controller'})"
    if not _is_at_most(facts["processes"], limits.processes):
        yield f"the processes of containers are not limited ({facts['processes'] or 'no controller'})"
    if not facts["has_folder"]:
        yield "agents cannot write to their working folder"
    if facts["gateway"] != _ANSWER:
        yield f"agents cannot reach the gateway's socket ({facts['gateway']})"


def _is_at_most(found: str, most: int) -> bool:
    return found.isdigit() and int(found) <= most


def _unusable(options: ContainerOptions, reasons: Sequence[str]) -> ConfigError:
    return ConfigError(
        f"Agents cannot run in containers of {options.provider} with the image {options.image!r} here: "
        f"{'; '.join(reasons)}.",
        code="sandbox_unavailable",
        remedy=f"Try `{options.provider} run --rm --network none {options.image} true`, and see `Containers` in "
        "responses_api_agents/external_agent/README.md.",
    )
