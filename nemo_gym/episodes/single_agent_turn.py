"""The episode of one agent turn as an environment server, driven by the same driver as an agent's `/run`.

The driver opens the session of the resources server, verifies and closes. The turn itself opens a session of the agent
with the tools that are granted to it, asks the agent once, and closes that session on every path.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

import orjson
from fastapi import Request
from fastapi import Response as HttpResponse
from pydantic import BaseModel, Field

from nemo_gym.config.current import get_first_server_config_dict
from nemo_gym.config.types import AgentServerRef, ResourcesServerRef
from nemo_gym.episodes.driver import (
    Act,
    Episode,
    OnTruncation,
    SessionBodies,
    close_quietly,
    drive,
    parse_row,
    require_ok,
)
from nemo_gym.episodes.environment_server import (
    BaseEnvironmentServer,
    BaseEnvironmentServerConfig,
    CleanupContext,
    HandledEpisodeError,
)
from nemo_gym.failures import Boundary, ConfigError, GymError
from nemo_gym.json_objects import dump_json
from nemo_gym.metrics.hooks import AggregateMetrics, AggregateMetricsRequest
from nemo_gym.names import OBSERVATIONS_KEY, OUTPUT_ERROR_KEY
from nemo_gym.protocol.agent_sessions import AgentCloseSessionRequest, AgentSeedSessionRequest
from nemo_gym.protocol.episodes import EpisodeId
from nemo_gym.protocol.failure_kinds import FailureStage
from nemo_gym.protocol.resources_sessions import (
    ResourcesCloseSessionRequest,
    ResourcesMCPTools,
    ResourcesSeedSessionRequest,
)
from nemo_gym.protocol.single_agent_turn import (
    SingleAgentTurnFailure,
    SingleAgentTurnRequest,
    SingleAgentTurnResponse,
)
from nemo_gym.protocol.tasks import materialize_task
from nemo_gym.protocol.tool_access import (
    DirectHTTPToolAccess,
    MCPStreamableHTTPConnection,
    MCPToolAccess,
    ToolAccess,
)
from nemo_gym.rows.compose import note_failed_call, replace_params
from nemo_gym.rows.forms import AnyRow, ScoredRow
from nemo_gym.rows.parts import read_response
from nemo_gym.rows.tool_errors import read_failed_outputs
from nemo_gym.rows.verdict import EndReason, describe_failure, read_failure_class
from nemo_gym.serving.json_response import JsonResponse
from nemo_gym.transport.rollout_context import current_rollout_id, maybe_rollout_id_from_run_body
from nemo_gym.transport.server_client import ServerClient, ServerReply

__all__ = ["SingleAgentTurnLegacyServer", "SingleAgentTurnServer", "SingleAgentTurnServerConfig"]

_AGENT_SESSIONS = "/v1/agent_sessions"
_STAGES: Mapping[Boundary, FailureStage] = {Boundary.AGENT: "agent", Boundary.VERIFIER: "verification"}


class SingleAgentTurnServerConfig(BaseEnvironmentServerConfig):
    """The options of `single_agent_turn` and `single_agent_turn_legacy`."""

    resources_server: ResourcesServerRef
    agent_server: AgentServerRef
    resources_tool_transports: list[Literal["direct_http", "mcp"]] = Field(default_factory=list)
    """How the agent may call the tools of the resources server. Empty grants none."""


class SingleAgentTurnServer(BaseEnvironmentServer[SingleAgentTurnRequest, SingleAgentTurnResponse]):
    """`POST /run` takes an episode and answers its result or its failure."""

    config: SingleAgentTurnServerConfig
    request_model = SingleAgentTurnRequest
    response_model = SingleAgentTurnResponse

    async def run(self, request: SingleAgentTurnRequest, cleanup: CleanupContext) -> SingleAgentTurnResponse:
        try:
            row = await drive_turn(self, request)
        except GymError as error:
            raise HandledEpisodeError(_convert_failure(error)) from error
        if read_failure_class(row) is not None:
            raise HandledEpisodeError(_read_verifier_failure(row))
        content = {"episode_id": request.episode_id, "task_id": request.task.task_id, "result": row}
        return SingleAgentTurnResponse.model_validate(content)

    async def aggregate_metrics(self, body: AggregateMetricsRequest) -> AggregateMetrics:
        resources = self.config.resources_server.name
        reply = await self.server_client.post(resources, "/aggregate_metrics", json=body)
        require_ok(reply, resources, "aggregate metrics")
        return AggregateMetrics.model_validate_json(reply.body)


class SingleAgentTurnLegacyServer(SingleAgentTurnServer):
    """`POST /run` takes a task row and answers the scored row, as an agent's does."""

    async def _run_route(self, request: Request) -> HttpResponse:
        row = parse_row(await request.body())
        task = materialize_task(row, taskset=self.config.resources_server.name, task_index=0)
        attempt = maybe_rollout_id_from_run_body(row) or current_rollout_id() or self.config.name
        episode = SingleAgentTurnRequest.model_validate(
            {"episode_id": EpisodeId(rollout_id=attempt), "task": task.model_dump()}
        )
        return JsonResponse(dump_json({**row, **await drive_turn(self, episode)}))


async def drive_turn(server: SingleAgentTurnServer, request: SingleAgentTurnRequest) -> ScoredRow:
    """Run the episode and return its scored row. Raises `GymError` if it fails."""
    task_input = request.task.task_input
    params = task_input.responses_create_params.model_dump(mode="json", exclude_unset=True)
    return await drive(_Turn(server, request), Episode(replace_params(task_input.task_data, params)))


@dataclass(frozen=True)
class _AlwaysVerified:
    """The driver's options of an episode that an environment server drives."""

    skip_verification: bool = False
    skip_verification_reward: float = 0.0
    on_truncation: OnTruncation = OnTruncation.VERIFY


@dataclass(frozen=True)
class _Turn:
    """One episode, as the driver calls it."""

    server: SingleAgentTurnServer
    request: SingleAgentTurnRequest
    config: Any = field(default_factory=_AlwaysVerified)

    @property
    def server_client(self) -> ServerClient:
        return self.server.server_client

    @property
    def resources_server_name(self) -> str:
        return self.server.config.resources_server.name

    def session_bodies(self, episode: Episode) -> SessionBodies:
        named, task = self._name_session("resources"), self.request.task
        opening = ResourcesSeedSessionRequest(
            **named, task_id=task.task_id, task_data=task.task_input.task_data
        )
        return SessionBodies(_dump(opening), _dump(ResourcesCloseSessionRequest(**named)))

    async def act(self, episode: Episode) -> Act:
        agent = self.server.config.agent_server.name
        named = self._name_session("agent")
        assert episode.seed is not None
        seeded = orjson.loads(episode.seed.body) or {}
        opening = AgentSeedSessionRequest(
            **named,
            task_id=self.request.task.task_id,
            tool_accesses=self._tool_accesses(episode.seed, seeded),
            sandbox_access=seeded.get("sandbox_access"),
        )
        closing = _dump(AgentCloseSessionRequest(**named))
        try:
            await self._ask(agent, _AGENT_SESSIONS, _dump(opening), "open its session")
            # An agent that is asked twice would call its tools twice.
            reply = await self._ask(
                agent, "/v1/responses", orjson.dumps(episode.params), "respond", repeatable=False
            )
        finally:
            closed = await close_quietly(self.server_client, agent, f"{_AGENT_SESSIONS}/close", closing)
        response = orjson.loads(reply.body)
        observations = orjson.loads(closed.body).get("agent_observations") if closed and closed.ok else None
        notes = {OBSERVATIONS_KEY: observations} if observations else {}
        if OUTPUT_ERROR_KEY.encode() in reply.body:
            for failed in read_failed_outputs(response["output"]):
                note_failed_call(notes, failed)
        return Act(response, EndReason.from_response(response), notes=notes)

    async def _ask(
        self, server: str, path: str, body: bytes, purpose: str, repeatable: bool | None = None
    ) -> ServerReply:
        reply = await self.server_client.post(server, path, data=body, repeatable=repeatable)
        require_ok(reply, server, purpose)
        return reply

    def _name_session(self, participant: str) -> dict[str, Any]:
        """Return the fields that name a session in the requests to open and to close it."""
        episode = self.request.episode_id
        return {f"{participant}_session_id": f"{episode.capture_key}-{participant}", "episode_id": episode}

    def _tool_accesses(self, seed: ServerReply, seeded: Mapping[str, Any]) -> list[ToolAccess]:
        resources, accesses = self.resources_server_name, list[ToolAccess]()
        block = get_first_server_config_dict(self.server_client.global_config_dict, resources)
        url = self.server_client._build_server_base_url(block)
        transports = self.server.config.resources_tool_transports
        if "direct_http" in transports:
            cookies = {name: morsel.value for name, morsel in seed.cookies.items()}
            accesses.append(
                DirectHTTPToolAccess.model_validate({"name": resources, "base_url": url, "cookies": cookies})
            )
        if "mcp" in transports:
            if not seeded.get("resources_tools"):
                raise ConfigError(
                    f"`{resources}` names no MCP endpoint for the session",
                    code="no_mcp_endpoint",
                    peer=resources,
                    remedy="Remove `mcp` from resources_tool_transports, or return `resources_tools` by seed_session.",
                )
            tools = ResourcesMCPTools.model_validate(seeded["resources_tools"])
            connection = MCPStreamableHTTPConnection.model_validate(
                {"url": f"{url}{tools.url_path}", "headers": tools.headers}
            )
            accesses.append(MCPToolAccess(name=tools.server_name, connection=connection))
        return accesses


def _dump(body: BaseModel) -> bytes:
    return body.model_dump_json(exclude_none=True).encode()


def _convert_failure(error: GymError) -> SingleAgentTurnFailure:
    failure = error.failure
    stage = _STAGES.get(failure.boundary, "episode")
    return SingleAgentTurnFailure(failure_reason=failure.message, terminal=not failure.retryable, stage=stage)


def _read_verifier_failure(row: AnyRow) -> SingleAgentTurnFailure:
    """Return the failure that the verifier's answer names instead of a reward."""
    reason = describe_failure(row).message
    return SingleAgentTurnFailure.model_validate(
        {"failure_reason": reason, "stage": "verification", "partial_response": read_response(row) or None}
    )
