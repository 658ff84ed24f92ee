"""Model servers: one policy or judge behind `/v1/responses` and `/v1/chat/completions`."""

from __future__ import annotations

import secrets
from abc import abstractmethod
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar

import orjson
from fastapi import Body, FastAPI, Request
from fastapi import Response as HttpResponse

from nemo_gym.config import bootstrap
from nemo_gym.config.types import BaseRunServerInstanceConfig
from nemo_gym.engines.compaction import COMPACT_PATH, compactions
from nemo_gym.engines.event_streams import EventStreams
from nemo_gym.engines.gateway.access import RolloutKeys
from nemo_gym.engines.gateway.calls import RolloutCalls, install_model_call_capture
from nemo_gym.engines.gateway.control import RolloutControl
from nemo_gym.engines.gateway.openings import Openings
from nemo_gym.engines.record.files import RecordWriter
from nemo_gym.failures import Boundary
from nemo_gym.names import CALL_ROUTES
from nemo_gym.responses.chat_schemas import ChatCompletion, ChatCompletionCreateParams
from nemo_gym.responses.messages_api import convert_response_to_message
from nemo_gym.responses.messages_request import convert_message_request
from nemo_gym.responses.schemas import Response, ResponseCreateParams
from nemo_gym.serving.app import GymApp
from nemo_gym.serving.base import BaseServer, SimpleServer
from nemo_gym.serving.durability import add_durable_runs, capture_folder
from nemo_gym.serving.json_response import JsonResponse
from nemo_gym.serving.routes import request_object
from nemo_gym.transport.memory import collect_reply
from nemo_gym.transport.request_body import WholeBody

if TYPE_CHECKING:
    from nemo_gym.engines.attempts.calls import AttemptCalls


class BaseResponsesAPIModelConfig(BaseRunServerInstanceConfig):
    """The options of all model servers."""

    require_open_rollouts: bool = False
    """Refuse model calls of no rollout that `POST /ng-rollouts` opened, as training of unadapted agents needs."""


class BaseResponsesAPIModel(BaseServer):
    config: BaseResponsesAPIModelConfig


class SimpleResponsesAPIModel(BaseResponsesAPIModel, SimpleServer):
    """A model server: override `responses` and `chat_completions`. Streams and Messages are derived from them."""

    config: BaseResponsesAPIModelConfig
    boundary: ClassVar[Boundary] = Boundary.ENGINE
    cancel_on_disconnect: ClassVar[frozenset[str]] = CALL_ROUTES
    reads_objects: ClassVar[bool] = False
    """Whether the handlers of model calls read requests as JSON objects (`request_object`)."""

    def setup_webserver(self) -> FastAPI:
        app = self.new_app()
        app.post("/v1/responses")(self.responses)
        app.post("/v1/chat/completions")(self.chat_completions)
        app.post(COMPACT_PATH, include_in_schema=False)(self.responses)
        app.post("/v1/messages", name="messages")(answer_message)
        return app

    def new_app(self) -> GymApp:
        app = super().new_app()
        configuration = getattr(self.server_client, "global_config_dict", None)
        self._install_gateway(app, configuration)
        install_model_call_capture(app, configuration, self.config.name)
        app.layers[:0] = EventStreams(parses=self.reads_objects), compactions
        return app

    def _install_gateway(self, app: GymApp, configuration: Any) -> None:
        given, name = bootstrap.current(), self.config.name or type(self).__name__
        openings = Openings(
            capture_folder(configuration),
            given.cookie_key if given is not None else secrets.token_hex(32),
        )
        process = f"{name}.{given.replica if given else 0}"
        calls = RolloutCalls(openings, RecordWriter(process), name)
        access = self.middleware.access
        access.rollouts = RolloutKeys(
            openings, token=access.token, requires_opening=self.config.require_open_rollouts
        )
        app.layers.append(calls)
        RolloutControl(openings, calls).add_routes(app)
        add_durable_runs(app, openings.root, partial(_build_attempt_calls, name, process))

    @abstractmethod
    async def responses(self, body: ResponseCreateParams = Body()) -> Response: ...

    @abstractmethod
    async def chat_completions(self, body: ChatCompletionCreateParams = Body()) -> ChatCompletion: ...


def _build_attempt_calls(name: str, process: str) -> AttemptCalls:
    from nemo_gym.engines.attempts.calls import AttemptCalls  # of no other run

    return AttemptCalls(name, process)


async def answer_message(request: Request) -> HttpResponse:
    """Answer `POST /v1/messages` by a call of the app's `/v1/responses`."""
    params = convert_message_request(await request_object(request))
    scope = {**request.scope, "path": "/v1/responses", "raw_path": b"/v1/responses"}
    app: GymApp = request.app
    reply = await collect_reply(
        app.find_handler(scope), scope, WholeBody(orjson.dumps(params), request.receive)
    )
    if reply.status != 200:
        return HttpResponse(reply.body, reply.status, dict(reply.headers))
    return JsonResponse(orjson.dumps(convert_response_to_message(orjson.loads(reply.body))))
