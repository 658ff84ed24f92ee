"""The models of one attempt: one for each seat and for each judge, with a record and a way out of the host for each."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, Final

from nemo_gym.episodes.driver import Act
from nemo_gym.failures import Failure
from nemo_gym.isolation.execution import Workspace
from nemo_gym.sources.foreign.process import HostProcess
from nemo_gym.transport.server_client import ServerClient
from responses_api_agents.external_agent.gateway import AttemptGateway, GatewayTargets
from responses_api_agents.external_agent.record import AttemptRecord
from responses_api_agents.external_agent.tool_failures import ToolFailures

MODEL: Final = "policy"
"""The name of every model in an environment."""
_PINS: Final = {"temperature": "temperature", "top_p": "top_p", "max_output_tokens": "max_tokens"}


def pin_sampling(params: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return the sampling fields that replace those of every call; None for none."""
    given = {pin: params[name] for name, pin in _PINS.items() if params.get(name) is not None}
    return given or None


@dataclass(slots=True)
class CastMember:
    """A seat or a judge, and its model."""

    name: str
    server: str
    sampling: dict[str, Any] | None
    gateway: AttemptGateway = field(init=False)
    trace: dict[str, Any] | None = None
    """Its calls as one Responses object, once the attempt is over; None without an answer."""

    def read_trace(self) -> dict[str, Any]:
        return self.trace or Act.build_empty_response(MODEL)


class Cast:
    """The members of an attempt. The first one is the policy."""

    def __init__(
        self,
        client: ServerClient,
        rollout_id: str,
        resources: str,
        members: Sequence[CastMember],
        expires_s: float,
    ) -> None:
        self._client = client
        self._rollout_id = rollout_id
        self._resources = resources
        self._members = members
        self._expires_s = expires_s

    @property
    def policy(self) -> CastMember:
        return self._members[0]

    def count_calls(self) -> dict[str, int]:
        """Return the model calls of each member."""
        return {member.name: member.gateway.calls for member in self._members}

    def find_failure(self) -> Failure | None:
        """Return the failure of a model whose last call was not answered."""
        failures = (member.gateway.failure for member in self._members)
        return next((failure for failure in failures if failure is not None), None)

    @asynccontextmanager
    async def listening(self, host: HostProcess) -> AsyncIterator[dict[str, dict[str, str]]]:
        """Yield what a host needs to call the models. Every record is sealed at the end, whatever happened."""
        async with AsyncExitStack() as stack:
            models = {}
            for number, member in enumerate(self._members):
                models[member.name] = await self._open(stack, host, number, member)
            yield models

    async def _open(
        self, stack: AsyncExitStack, host: HostProcess, number: int, member: CastMember
    ) -> dict[str, str]:
        place = self._rollout_id + (f".seat{number}" if number else "")
        record = AttemptRecord(self._client, member.server, place)
        key, path = await record.open(sampling=member.sampling, expires_s=self._expires_s)

        async def seal() -> None:
            member.trace = await record.seal()

        stack.push_async_callback(seal)
        targets = GatewayTargets(key, member.server, path, self._resources, None)
        member.gateway = AttemptGateway(self._client, targets, ToolFailures(None))
        if not host.has_own_network:
            port = await stack.enter_async_context(member.gateway.listening())
            return {"base_url": f"http://127.0.0.1:{port}/v1", "key": key, "model": MODEL}
        folder = host.folder
        assert folder is not None  # a host that calls models has one
        return {"socket": await self._bind(stack, folder, number, member), "key": key, "model": MODEL}

    async def _bind(self, stack: AsyncExitStack, folder: Workspace, number: int, member: CastMember) -> str:
        """Listen at a socket in the host's folder, and return the path at which the host sees it."""
        place = folder.folder / f"model{number}"
        place.unlink(missing_ok=True)  # of the attempt before
        await stack.enter_async_context(member.gateway.listening(place))
        if folder.user is not None:
            os.chown(place, folder.user.uid, folder.user.uid)
        return str(folder.place / place.name)
