"""An environment with a synchronous `verify`. It has its own module, because workers import it."""

from __future__ import annotations

import os
from typing import Any

from pydantic import ConfigDict, PrivateAttr

from nemo_gym.base_resources_server import (
    BaseResourcesServerConfig,
    BaseVerifyRequest,
    BaseVerifyResponse,
    SimpleResourcesServer,
)
from nemo_gym.failures import InputError
from nemo_gym.verify.answers import final_text
from tests.resources.unreadable import NO_REWARDS, UNREADABLE


class ComputingConfig(BaseResourcesServerConfig):
    factor: float = 1.0


class ComputingRequest(BaseVerifyRequest):
    model_config = ConfigDict(extra="allow")

    mode: str


class ComputingResponse(BaseVerifyResponse):
    model_config = ConfigDict(extra="allow")

    pid: int


class ComputingEnvironment(SimpleResourcesServer):
    config: ComputingConfig
    _doubled: float = PrivateAttr(default=0.0)

    def model_post_init(self, context: Any, /) -> None:
        super().model_post_init(context)
        self._doubled = 2 * self.config.factor

    def verify(self, body: ComputingRequest) -> ComputingResponse:  # type: ignore[override]
        if body.mode == "spin":
            while True:
                pass
        if body.mode == "refuse":
            raise InputError("this row has no answer", code="invalid_row")
        if body.mode == "raise":
            raise ZeroDivisionError("by zero")
        return ComputingResponse(**body.model_dump(exclude_unset=True), reward=self._doubled, pid=os.getpid())


class StatefulEnvironment(SimpleResourcesServer):
    def verify(self, request: Any, body: BaseVerifyRequest) -> BaseVerifyResponse:  # type: ignore[override]
        raise NotImplementedError


class EchoEnvironment(SimpleResourcesServer):
    """Echoes a value that no row can hold, or raises with it, as the answer or the row asks."""

    def verify(self, body: ComputingRequest) -> ComputingResponse:  # type: ignore[override]
        text = final_text(body.response)
        name = text if body.mode == "score" else "surrogate"
        if name == "raise":
            raise ValueError("no number in \ud800")
        echo = UNREADABLE[name]() if name in UNREADABLE else name
        return ComputingResponse.model_validate(
            {**dict(body), "reward": NO_REWARDS.get(name, 1.0), "pid": os.getpid(), "echo": echo}
        )
