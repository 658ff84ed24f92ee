"""Agent servers: the base class owns the episode (`/run`), an author writes the policy loop (`responses`)."""

from __future__ import annotations

import inspect
from abc import abstractmethod
from typing import Any, ClassVar

import orjson
from fastapi import Body, FastAPI, Request
from fastapi import Response as HttpResponse

from nemo_gym.config.current import get_first_server_config_dict
from nemo_gym.config.types import BaseRunServerInstanceConfig
from nemo_gym.episodes.driver import Act, EndReason, Episode, OnTruncation, drive_episode
from nemo_gym.failures import AgentError, Boundary
from nemo_gym.metrics.hooks import AggregateMetrics, AggregateMetricsMixin, AggregateMetricsRequest
from nemo_gym.responses.schemas import Response, ResponseCreateParams
from nemo_gym.serving.base import BaseServer, SimpleServer
from nemo_gym.serving.json_response import JsonResponse
from nemo_gym.serving.rollout_paths import apply_rollout_prefix
from nemo_gym.serving.routes import dump_body
from nemo_gym.transport.context import current_context


class BaseResponsesAPIAgentConfig(BaseRunServerInstanceConfig):
    """The options every agent takes."""

    skip_verification: bool = False
    """Leave out `verify`, and give every attempt `skip_verification_reward`."""
    skip_verification_reward: float = 0.0
    on_truncation: OnTruncation = OnTruncation.VERIFY
    """What an attempt that was cut short is given: the verifier's reward, zero, or the verifier's reward with a mark
    that keeps it out of training. A task row may say otherwise in a field of this name."""


class BaseResponsesAPIAgent(BaseServer):
    config: BaseResponsesAPIAgentConfig


class SimpleResponsesAPIAgent(BaseResponsesAPIAgent, AggregateMetricsMixin, SimpleServer):
    """An agent: override `responses`; the episode around it is the base class's `run`."""

    config: BaseResponsesAPIAgentConfig
    boundary: ClassVar[Boundary] = Boundary.AGENT
    cancel_on_disconnect: ClassVar[frozenset[str]] = frozenset({"/run", "/v1/responses"})
    policy_paths: ClassVar[frozenset[str]] = frozenset({"/v1/responses"})
    authenticates_sessions: ClassVar[bool] = (
        True  # an agent acts with the run's token: it must not lend it to a stranger
    )

    def setup_webserver(self) -> FastAPI:
        app = self.new_app()
        app.post("/v1/responses")(self.responses)
        app.post("/run")(self.run)
        app.post("/aggregate_metrics")(self.aggregate_metrics)
        return app

    @abstractmethod
    async def responses(
        self, request: Request, response: HttpResponse, body: ResponseCreateParams = Body()
    ) -> Response:
        """The policy loop: call the model and the tools until the attempt is over."""

    async def run(self, request: Request) -> HttpResponse:
        """One attempt at the task row in the body: open the session, act, verify, close; the scored row."""
        row = await drive_episode(self, request)
        return JsonResponse(orjson.dumps(row))

    async def act(self, episode: Episode) -> Act:
        """The policy loop on plain data. By default it validates the row and calls `responses`."""
        params = ResponseCreateParams.model_validate(episode.row["responses_create_params"])
        given: dict[str, Any] = {"request": episode.request, "response": HttpResponse(), "body": params}
        wanted = inspect.signature(self.responses).parameters
        result = await self.responses(**{name: given[name] for name in wanted if name in given})
        answer = orjson.loads(dump_body(result))
        return Act(answer, EndReason.of_response(answer))

    @property
    def resources_server_name(self) -> str:
        """The resources server that opens, verifies and closes this agent's sessions."""
        reference = getattr(self.config, "resources_server", None)
        if reference is None:
            raise AgentError(
                f"the agent `{self.config.name}` has no `resources_server` in its configuration",
                code="no_resources_server",
                remedy="Add resources_server: {type: resources_servers, name: ...}, or override run().",
            )
        name: str = reference.name
        return name

    def rollout_id_from_run(self, body: Any) -> str | None:
        """The id of the attempt that is being run, which is its session; None outside of one."""
        context = current_context.get()
        return context.session if context is not None else None

    def url_path_for_run(self, url_path: str, body: Any) -> str:
        """`url_path` as it is: calls by `server_client` carry the attempt's id by themselves."""
        return url_path

    def url_path_for_request(self, url_path: str, request: Request | None) -> str:
        """As `url_path_for_run`, for code that has the request."""
        return url_path

    def base_url_for_run(self, base_url: str, body: Any) -> str:
        """A model server's root URL that stands for this attempt, for harnesses that make calls of their own."""
        return apply_rollout_prefix(base_url, self.rollout_id_from_run(body))

    def resolve_model_base_url(self, model_server_name: str, rollout_id: str | None = None) -> str:
        """The base URL (ending in `/v1`) of a model server, for OpenAI clients; with an id, for that attempt."""
        block = get_first_server_config_dict(self.server_client.global_config_dict, model_server_name)
        return f"{apply_rollout_prefix(self.server_client._build_server_base_url(block), rollout_id)}/v1"

    async def aggregate_metrics(self, body: AggregateMetricsRequest) -> AggregateMetrics:
        """The environment's metrics where it has some of its own, else the standard ones."""
        reference = getattr(self.config, "resources_server", None)
        if reference is not None:
            reply = await self.server_client.post(reference.name, "/aggregate_metrics", json=body)
            if reply.ok:
                return AggregateMetrics.model_validate_json(reply.body)
        return await AggregateMetricsMixin.aggregate_metrics(self, body)
