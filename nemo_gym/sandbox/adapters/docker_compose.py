"""The services of a Compose file as sandboxes that reach each other by their names.

Every service gets a sandbox of the provider. First all sandboxes start and learn the addresses of the others, then the
commands of the services start in the order of their dependencies.
"""

from __future__ import annotations

import asyncio
import shlex
import uuid
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Self

from nemo_gym.sandbox._session import AsyncSandbox
from nemo_gym.sandbox.adapters._compose_file import ComposeFile, ComposeService, read_compose_file
from nemo_gym.sandbox.providers.protocols import SandboxProvider, SupportsSandboxNetwork, lacks
from nemo_gym.sandbox.providers.registry import resolve_provider
from nemo_gym.sandbox.providers.specification import SandboxResources, SandboxSpec

_PROJECT, _SERVICES = "project", "services"
_FOLDER = "/tmp/.nemo_gym_service"
_START = "mkdir -p {folder} && {{ setsid sh -c {script} > {folder}/log 2>&1 < /dev/null & }}; sleep 0.1"


class AsyncSandboxCompose:
    """The sandboxes of a Compose file: `services`, by name, from `start` to `stop`.

    `service_specs` are the specifications to start from; the fields of the file come first.
    """

    def __init__(
        self,
        provider: Mapping[str, Any] | SandboxProvider,
        compose_file: str | Path | None,
        *,
        service_specs: Mapping[str, SandboxSpec] | None = None,
        timeout_s: float = 1200.0,
        poll_interval_s: float = 0.5,
    ) -> None:
        self._provider = resolve_provider(provider)
        self._owns_provider = isinstance(provider, Mapping)
        self._file = Path(compose_file) if compose_file is not None else None
        self._specs = dict(service_specs or {})
        self._timeout_s, self._poll_interval_s = timeout_s, poll_interval_s
        self._is_stopped = False
        self.project = f"nemo-gym-{uuid.uuid4().hex[:12]}"
        self.services: dict[str, AsyncSandbox] = {}

    async def start(self) -> Self:
        """Start all services. Raises ValueError for an unsupported file, and TimeoutError after `timeout_s`."""
        if self._file is None:
            raise ValueError("a Compose file is needed to start services")
        if self.services or self._is_stopped:
            raise RuntimeError("the services of a Compose file can be started once")
        described = read_compose_file(self._file)
        order = described.order()
        _check(described)
        network = self._network() if len(order) > 1 else None
        try:
            async with asyncio.timeout(self._timeout_s):
                for name in order:
                    await self._create(name, described.services[name])
                if network is not None:
                    await self._introduce(network)
                for name in order:
                    await self._run(name, described)
        except BaseException:
            await self.stop()
            raise
        return self

    async def stop(self) -> None:
        """Stop all sandboxes and release the provider. Idempotent. Raises ExceptionGroup for those that stay."""
        if self._is_stopped:
            return
        self._is_stopped = True
        done = await asyncio.gather(
            *(sandbox.stop() for sandbox in self.services.values()), return_exceptions=True
        )
        if self._owns_provider:
            await self._provider.aclose()
        errors = [error for error in done if isinstance(error, Exception)]
        if errors:
            raise ExceptionGroup("sandboxes of the Compose file are not stopped", errors)

    async def serialize(self, *, scope: str | None = None) -> dict[str, Any]:
        """Return a description in JSON, from which another process connects to all services."""
        return {
            _PROJECT: self.project,
            _SERVICES: {
                name: await sandbox.serialize(scope=scope) for name, sandbox in self.services.items()
            },
        }

    @classmethod
    async def connect(
        cls, descriptor: Mapping[str, Any], *, provider: Mapping[str, Any] | SandboxProvider
    ) -> Self:
        """Connect to running services. `stop` then stops them, as it does where they were started."""
        compose = cls(provider, None)
        compose.project = str(descriptor[_PROJECT])
        for name, member in descriptor[_SERVICES].items():
            compose.services[name] = await AsyncSandbox.connect(
                member, provider=compose._provider, owns_provider=False
            )
        return compose

    async def __aenter__(self) -> Self:
        return await self.start()

    async def __aexit__(self, *_: object) -> None:
        await self.stop()

    def _network(self) -> SupportsSandboxNetwork:
        if not isinstance(self._provider, SupportsSandboxNetwork):
            raise lacks(self._provider, "network between sandboxes")
        self._provider.validate_networking()
        return self._provider

    async def _create(self, name: str, service: ComposeService) -> None:
        given = self._specs.get(name, SandboxSpec())
        assert isinstance(given.resources, SandboxResources)
        spec = replace(
            given,
            image=service.image,
            workdir=service.working_dir or given.workdir,
            env={**given.env, **service.environment},
            metadata={**given.metadata, "nemo-gym.project": self.project, **service.labels},
            resources=replace(given.resources, **service.resources),
            ports=tuple(dict.fromkeys([*given.ports, *service.ports])),
        )
        sandbox = AsyncSandbox(self._provider, spec, owns_provider=False)
        self.services[name] = await sandbox.start()

    async def _introduce(self, network: SupportsSandboxNetwork) -> None:
        """Let every sandbox find the others by the names of their services."""
        handles = {name: sandbox._require_handle() for name, sandbox in self.services.items()}
        addresses = {name: await network.network_address(handle) for name, handle in handles.items()}
        for name, handle in handles.items():
            others = {other: address for other, address in addresses.items() if other != name}
            await network.set_hosts(handle, others)

    async def _run(self, name: str, described: ComposeFile) -> None:
        """Start the command of a service, once the services that it depends on are as far as it needs."""
        service = described.services[name]
        for other, dependency in service.depends_on.items():
            if dependency.condition == "service_healthy":
                await self._wait_until_healthy(other, described.services[other])
            elif dependency.condition == "service_completed_successfully":
                await self._wait_until_completed(other)
        script = f"{shlex.join(service.program)}; echo $? > {_FOLDER}/exit_code"
        start = _START.format(folder=_FOLDER, script=shlex.quote(script))
        done = await self.services[name].exec(start, user=service.user)
        if done.return_code != 0:
            raise RuntimeError(f"the service {name!r} does not start: {done.stderr or done.stdout}")
        if await self._exit_code(name) not in (None, 0):
            log = await self.services[name].exec(f"tail -n 20 {_FOLDER}/log")
            raise RuntimeError(f"the service {name!r} ended at once: {log.stdout}")

    async def _wait_until_healthy(self, name: str, service: ComposeService) -> None:
        check = service.healthcheck
        assert check is not None, "the file was checked"
        command = check.command or "true"
        failures = 0
        clock = asyncio.get_running_loop().time
        started = clock()
        while True:
            done = await self.services[name].exec(command, timeout_s=check.timeout, user=service.user)
            if done.return_code == 0:
                return
            failures += clock() - started >= check.start_period
            if failures >= check.retries:
                raise RuntimeError(f"the service {name!r} is not healthy: {done.stderr or done.stdout}")
            await asyncio.sleep(min(check.interval, self._poll_interval_s))

    async def _wait_until_completed(self, name: str) -> None:
        while (code := await self._exit_code(name)) is None:  # noqa: ASYNC110 - the event is in the sandbox
            await asyncio.sleep(self._poll_interval_s)
        if code != 0:
            raise RuntimeError(f"the service {name!r} ended with exit code {code}")

    async def _exit_code(self, name: str) -> int | None:
        done = await self.services[name].exec(f"cat {_FOLDER}/exit_code")
        return int(done.stdout or 0) if done.return_code == 0 else None


def _check(described: ComposeFile) -> None:
    """Raise ValueError naming every service that could not start."""
    problems = []
    for name, service in described.services.items():
        if not service.program:
            problems.append(f"{name} has neither a command nor an entrypoint")
        for other, dependency in service.depends_on.items():
            check = described.services[other].healthcheck
            is_checked = check is not None and check.command is not None
            if dependency.condition == "service_healthy" and not is_checked:
                problems.append(f"{name} waits for {other}, which has no healthcheck")
    if problems:
        raise ValueError(f"the services cannot start: {'; '.join(problems)}")
