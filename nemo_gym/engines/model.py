"""Model servers: one policy or judge behind `/v1/responses` and `/v1/chat/completions`."""

from __future__ import annotations

from abc import abstractmethod
from typing import ClassVar

from fastapi import Body, FastAPI

from nemo_gym.config.types import BaseRunServerInstanceConfig
from nemo_gym.engines.capture import install_model_call_capture
from nemo_gym.engines.derived_routes import add_derived_routes
from nemo_gym.failures import Boundary
from nemo_gym.responses.chat_schemas import ChatCompletion, ChatCompletionCreateParams
from nemo_gym.responses.schemas import Response, ResponseCreateParams
from nemo_gym.serving.app import GymApp
from nemo_gym.serving.base import BaseServer, SimpleServer


class BaseResponsesAPIModelConfig(BaseRunServerInstanceConfig):
    """The options of all model servers."""


class BaseResponsesAPIModel(BaseServer):
    config: BaseResponsesAPIModelConfig


class SimpleResponsesAPIModel(BaseResponsesAPIModel, SimpleServer):
    """A model server: override `responses` and `chat_completions`. Streams and Messages are derived from them."""

    config: BaseResponsesAPIModelConfig
    boundary: ClassVar[Boundary] = Boundary.ENGINE
    cancel_on_disconnect: ClassVar[frozenset[str]] = frozenset(
        {"/v1/responses", "/v1/chat/completions", "/v1/messages"}
    )

    def setup_webserver(self) -> FastAPI:
        app = self.new_app()
        app.post("/v1/responses")(self.responses)
        app.post("/v1/chat/completions")(self.chat_completions)
        add_derived_routes(app)
        return app

    def new_app(self) -> GymApp:
        app = super().new_app()
        # Tests of authors pass a mock of the client, which has no configuration.
        configuration = getattr(self.server_client, "global_config_dict", None)
        install_model_call_capture(app, configuration, self.config.name)
        return app

    @abstractmethod
    async def responses(self, body: ResponseCreateParams = Body()) -> Response: ...

    @abstractmethod
    async def chat_completions(self, body: ChatCompletionCreateParams = Body()) -> ChatCompletion: ...
