"""An environment with session state: a counter that the task initializes and tools change."""

from __future__ import annotations

from typing import Any, ClassVar

from fastapi import FastAPI, HTTPException, Request
from pydantic import BaseModel, Field

from nemo_gym.base_resources_server import (
    BaseResourcesServerConfig,
    BaseRunRequest,
    BaseSeedSessionRequest,
    BaseSeedSessionResponse,
    BaseVerifyRequest,
    BaseVerifyResponse,
    SimpleResourcesServer,
)
from nemo_gym.server_utils import SESSION_ID_KEY


class CounterSeedRequest(BaseSeedSessionRequest):
    initial_count: int


class IncrementCounterRequest(BaseModel):
    count: int


class IncrementCounterResponse(BaseModel):
    success: bool


class GetCounterValueResponse(BaseModel):
    count: int


class CounterRunRequest(BaseRunRequest):
    initial_count: int
    expected_count: int


class CounterVerifyRequest(CounterRunRequest, BaseVerifyRequest):
    pass


class CounterVerifyResponse(CounterVerifyRequest, BaseVerifyResponse):
    final_count: int


class ExampleSessionStateMgmtResourcesServer(SimpleResourcesServer):
    config: BaseResourcesServerConfig
    reads_tokens: ClassVar[bool] = False
    session_id_to_counter: dict[str, int] = Field(default_factory=dict)

    def setup_webserver(self) -> FastAPI:
        app = super().setup_webserver()
        app.post("/increment_counter")(self.increment_counter)
        app.post("/get_counter_value")(self.get_counter_value)
        return app

    async def seed_session(  # type: ignore[override]  # with the request, for its session
        self, request: Request, body: CounterSeedRequest
    ) -> BaseSeedSessionResponse:
        self.session_id_to_counter[request.session[SESSION_ID_KEY]] = body.initial_count
        return BaseSeedSessionResponse()

    async def increment_counter(
        self, request: Request, body: IncrementCounterRequest
    ) -> IncrementCounterResponse:
        self.session_id_to_counter[request.session[SESSION_ID_KEY]] = self._count_of(request) + body.count
        return IncrementCounterResponse(success=True)

    async def get_counter_value(self, request: Request) -> GetCounterValueResponse:
        return GetCounterValueResponse(count=self._count_of(request))

    async def verify(  # type: ignore[override]  # with the request, for its session
        self, request: Request, body: CounterVerifyRequest
    ) -> CounterVerifyResponse:
        count = self._count_of(request)
        reward = float(count == body.expected_count)
        return CounterVerifyResponse(**dict(body), reward=reward, final_count=count)

    async def release_session(self, session_id: str) -> None:
        self.session_id_to_counter.pop(session_id, None)

    def _count_of(self, request: Any) -> int:
        session = request.session[SESSION_ID_KEY]
        if session not in self.session_id_to_counter:
            raise HTTPException(409, f"session {session} was not opened with /seed_session")
        return self.session_id_to_counter[session]


if __name__ == "__main__":
    ExampleSessionStateMgmtResourcesServer.run_webserver()
