"""Agent servers: the base class runs the episode (`/run`); an author writes the policy loop (`act` or `responses`)."""

from __future__ import annotations

import inspect
from contextlib import suppress
from typing import Any, ClassVar

import orjson
from fastapi import Body, FastAPI, Request
from fastapi import Response as HttpResponse
from pydantic import Field, PrivateAttr
from starlette.types import ASGIApp, Receive, Scope, Send

from nemo_gym.agents.sessions import AgentSessions, _AgentSessionRecord
from nemo_gym.config.current import get_first_server_config_dict
from nemo_gym.config.types import BaseRunServerInstanceConfig
from nemo_gym.episodes.driver import Act, Episode, OnTruncation, SessionBodies, drive_episode
from nemo_gym.failures import AgentError, Boundary, ConfigError
from nemo_gym.json_objects import dump_json
from nemo_gym.metrics.hooks import (
    AggregateMetrics,
    AggregateMetricsMixin,
    AggregateMetricsRequest,
    MetricHooks,
    overrides_hooks,
)
from nemo_gym.protocol.tool_access import ToolAccess
from nemo_gym.responses.schemas import Response, ResponseCreateParams
from nemo_gym.rows.compose import replace_params
from nemo_gym.rows.forms import AnyRow
from nemo_gym.rows.token_lists import fill_response, write_lists
from nemo_gym.rows.verdict import EndReason
from nemo_gym.serving.base import BaseServer, SimpleServer
from nemo_gym.serving.json_response import JsonResponse
from nemo_gym.serving.rollout_paths import apply_rollout_prefix
from nemo_gym.serving.routes import dump_body, parse_body
from nemo_gym.serving.run_gate import add_run_gate
from nemo_gym.transport.context import current_context
from nemo_gym.transport.rollout_context import current_rollout_id


class BaseResponsesAPIAgentConfig(BaseRunServerInstanceConfig):
    """The options of all agents."""

    skip_verification: bool = False
    """Do not call `/verify`; every attempt gets `skip_verification_reward`."""
    skip_verification_reward: float = 0.0
    on_truncation: OnTruncation = OnTruncation.VERIFY
    """The reward of a truncated attempt: the verifier's, zero, or the verifier's with a mark that excludes the attempt
    from training. A task row can override it with a field of the same name."""
    tool_accesses: list[ToolAccess] = Field(default_factory=list)
    """Tools of every session, beside those that an environment server grants to it."""
    session_close_retry_window_seconds: float = Field(default=300.0, ge=0)
    """Seconds for which a repeated close of a session gets the answer of the first."""
    token_id_capture: bool = False
    """Accepted without effect: the model server of every rollout records its tokens."""


class BaseResponsesAPIAgent(BaseServer):
    config: BaseResponsesAPIAgentConfig


class SimpleResponsesAPIAgent(BaseResponsesAPIAgent, AgentSessions, AggregateMetricsMixin, SimpleServer):
    """An agent: override `act` or `responses`; `run` of the base class runs the episode around it."""

    config: BaseResponsesAPIAgentConfig
    boundary: ClassVar[Boundary] = Boundary.AGENT
    cancel_on_disconnect: ClassVar[frozenset[str]] = frozenset({"/run", "/v1/responses"})
    policy_paths: ClassVar[frozenset[str]] = frozenset({"/v1/responses"})
    # An agent makes calls with the run's token, so a session without proof must not use it.
    authenticates_sessions: ClassVar[bool] = True
    _session_records: dict[str, _AgentSessionRecord] = PrivateAttr(default_factory=dict)

    def setup_webserver(self) -> FastAPI:
        """Return the app. Raises `ConfigError` for a class without a policy loop."""
        own, base = type(self), SimpleResponsesAPIAgent
        if own.run is base.run and own.act is base.act and own.responses is base.responses:
            raise ConfigError(
                f"the agent class `{own.__name__}` has no policy loop",
                code="no_policy_loop",
                remedy="Write its method act() or responses() (docs/agents.md).",
            )
        app = self.new_app()
        app.post("/v1/responses")(self.responses)
        app.post("/run")(self.run)
        app.layers.append(self._tell_end)
        add_run_gate(app)
        has_own_metrics = own.aggregate_metrics is not base.aggregate_metrics
        aggregate = self.aggregate_metrics if has_own_metrics else self._pass_metrics_on
        app.get("/aggregate_metrics")(self.describe_metrics)
        app.post("/aggregate_metrics", name="aggregate_metrics")(aggregate)
        app.post("/v1/agent_sessions")(self.seed_agent_session)
        app.post("/v1/agent_sessions/close")(self.close_agent_session)
        return app

    async def _tell_end(self, handler: ASGIApp, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request, as a layer of the app, and let model servers know that an attempt is over."""
        try:
            await handler(scope, receive, send)
        finally:
            if scope["path"] == "/run":  # a caller of /v1/responses may go on with the conversation
                self.server_client.ended_sessions.note_end()

    async def before_stop(self) -> None:
        await self._close_open_sessions()

    async def responses(
        self, request: Request, response: HttpResponse, body: ResponseCreateParams = Body()
    ) -> Response:
        """Run the policy loop on typed objects. By default, call `act` with a task row that has nothing but `body`."""
        params = orjson.loads(body.model_dump_json(exclude_unset=True))
        act = await self.act(Episode(replace_params({}, params), request))
        return Response.model_validate(fill_response(act.response))

    async def run(self, request: Request) -> HttpResponse:
        """Run one attempt at the task row in the body and return the scored row."""
        row: AnyRow = await drive_episode(self, request, keeps_lists=True)
        context = current_context.get()
        if context is not None and context.takes_lists:
            with suppress(orjson.JSONEncodeError):  # a long integer, which its reader would round
                return JsonResponse(orjson.dumps(row))
        return JsonResponse(dump_json(write_lists(row)))

    def session_bodies(self, episode: Episode) -> SessionBodies:
        return SessionBodies(orjson.dumps(episode.row))

    async def act(self, episode: Episode) -> Act:
        """Run the policy loop on plain data. By default, validate the row and call `responses`."""
        params = ResponseCreateParams.model_validate(episode.params)
        given: dict[str, Any] = {"request": episode.request, "response": HttpResponse(), "body": params}
        wanted = inspect.signature(self.responses).parameters
        result = await self.responses(**{name: given[name] for name in wanted if name in given})
        answer = orjson.loads(dump_body(result))
        return Act(answer, EndReason.from_response(answer))

    @property
    def resources_server_name(self) -> str:
        """The resources server of this agent's sessions. Raises `AgentError` if none is configured."""
        reference = getattr(self.config, "resources_server", None)
        if reference is None:
            raise AgentError(
                f"the agent `{self.config.name}` has no `resources_server` in its configuration",
                code="no_resources_server",
                remedy="Add resources_server: {type: resources_servers, name: ...}, or override run().",
            )
        return str(reference.name)

    def rollout_id_from_run(self, body: Any) -> str | None:
        """Return the id of the current attempt, which is its session; None outside of an attempt."""
        return current_rollout_id()

    def url_path_for_run(self, url_path: str, body: Any) -> str:
        """Return `url_path` unchanged: `server_client` sends the attempt's id in a header."""
        return url_path

    def url_path_for_request(self, url_path: str, request: Request | None) -> str:
        """Do the same as `url_path_for_run`, for code that has the request."""
        return url_path

    def base_url_for_run(self, base_url: str, body: Any) -> str:
        """Return a root URL that contains the attempt's id, for agent harnesses that make their own calls."""
        return apply_rollout_prefix(base_url, self.rollout_id_from_run(body))

    def resolve_model_base_url(self, model_server_name: str, rollout_id: str | None = None) -> str:
        """Return a model server's base URL (ending in `/v1`) for OpenAI clients, optionally with an attempt's id."""
        block = get_first_server_config_dict(self.server_client.global_config_dict, model_server_name)
        return f"{apply_rollout_prefix(self.server_client._build_server_base_url(block), rollout_id)}/v1"

    # Agents of the ecosystem ask these three before they name the attempt of a call, or record a call themselves.

    def _capture_correlation_enabled(self) -> bool:
        """Return True: every call may name its attempt."""
        return True

    def _model_call_capture_enabled(self) -> bool:
        """Return False: agents need not record the calls of the model."""
        return False

    def _token_id_capture_enabled(self) -> bool:
        """Return False: the model server records tokens under its usual path."""
        return False

    async def describe_metrics(self) -> MetricHooks:
        """Answer `GET /aggregate_metrics`: for the environment, where the agent passes its metrics on."""
        own, base = type(self), SimpleResponsesAPIAgent
        reference = getattr(self.config, "resources_server", None)
        if reference is None or own.aggregate_metrics is not base.aggregate_metrics:
            return MetricHooks(has_own=overrides_hooks(own, base))
        reply = await self.server_client.get(reference.name, "/aggregate_metrics")
        return MetricHooks.model_validate_json(reply.body) if reply.ok else MetricHooks(has_own=True)

    async def aggregate_metrics(self, body: AggregateMetricsRequest) -> AggregateMetrics:
        """Return the environment's own metrics if it has any, else the standard ones."""
        answer = await self._ask_environment(dump_body(body))
        if answer is not None:
            return AggregateMetrics.model_validate_json(answer)
        return await AggregateMetricsMixin.aggregate_metrics(self, body)

    async def _pass_metrics_on(self, request: Request) -> HttpResponse:
        """Answer as `aggregate_metrics`, without reading the rows, which may be many."""
        body = await request.body()
        answer = await self._ask_environment(body)
        if answer is not None:
            return JsonResponse(answer)
        rows = parse_body(AggregateMetricsRequest, body)
        return JsonResponse(dump_body(await AggregateMetricsMixin.aggregate_metrics(self, rows)))

    async def _ask_environment(self, body: bytes) -> bytes | None:
        """Return the environment's answer to a request for metrics; None without one."""
        reference = getattr(self.config, "resources_server", None)
        if reference is None:
            return None
        reply = await self.server_client.post(reference.name, "/aggregate_metrics", data=body)
        return reply.body if reply.ok else None
