"""Small real servers for the tests of this folder."""

from __future__ import annotations

import asyncio
from typing import Any

from fastapi import Body, FastAPI, HTTPException, Request
from pydantic import BaseModel, Field

from nemo_gym.base_resources_server import (
    BaseResourcesServerConfig,
    BaseSeedSessionRequest,
    BaseSeedSessionResponse,
    BaseVerifyRequest,
    BaseVerifyResponse,
    SimpleResourcesServer,
)
from nemo_gym.base_responses_api_model import SimpleResponsesAPIModel
from nemo_gym.failures import EngineError
from nemo_gym.openai_utils import (
    NeMoGymChatCompletion,
    NeMoGymChatCompletionCreateParamsNonStreaming,
    NeMoGymResponse,
    NeMoGymResponseCreateParamsNonStreaming,
)
from nemo_gym.server_utils import SESSION_ID_KEY


class Amount(BaseModel):
    amount: int


class CounterEnvironment(SimpleResourcesServer):
    """Counts for each session; the reward is the count."""

    config: BaseResourcesServerConfig
    counts: dict[str, int] = Field(default_factory=dict)
    closed: list[str] = Field(default_factory=list)
    verify_error: str | None = None

    def setup_webserver(self) -> FastAPI:
        app = super().setup_webserver()
        app.post("/add")(self.add)
        app.post("/refuse")(self.refuse)
        app.post("/crash")(self.crash)
        return app

    async def seed_session(  # type: ignore[override]
        self, request: Request, body: BaseSeedSessionRequest
    ) -> BaseSeedSessionResponse:
        self.counts[request.session[SESSION_ID_KEY]] = 0
        return BaseSeedSessionResponse()

    async def add(self, request: Request, body: Amount) -> dict[str, int]:
        session = request.session[SESSION_ID_KEY]
        self.counts[session] += body.amount
        return {"count": self.counts[session]}

    async def refuse(self) -> None:
        raise HTTPException(403, "not allowed")

    async def crash(self) -> None:
        raise RuntimeError("a bug in the tool")

    async def verify(  # type: ignore[override]
        self, request: Request, body: BaseVerifyRequest
    ) -> BaseVerifyResponse:
        if self.verify_error is not None:
            raise RuntimeError(self.verify_error)
        count = self.counts[request.session[SESSION_ID_KEY]]
        return BaseVerifyResponse(**body.model_dump(), reward=float(count))

    async def release_session(self, session_id: str) -> None:
        self.closed.append(session_id)
        del self.counts[session_id]


def text(words: str) -> dict[str, Any]:
    part = {"type": "output_text", "text": words, "annotations": []}
    return {"type": "message", "id": "msg", "role": "assistant", "status": "completed", "content": [part]}


def call(name: str, arguments: str, call_id: str = "call_1") -> dict[str, Any]:
    return {"type": "function_call", "id": "fc", "call_id": call_id, "name": name, "arguments": arguments}


class ScriptedModel(SimpleResponsesAPIModel):
    """Answers with the turns it was given; a number of seconds waits, a failure is raised."""

    turns: list[Any] = Field(default_factory=list)
    requests: list[dict[str, Any]] = Field(default_factory=list)
    started: asyncio.Event = Field(default_factory=asyncio.Event)
    cancelled: int = 0

    async def responses(self, body: NeMoGymResponseCreateParamsNonStreaming = Body()) -> NeMoGymResponse:
        self.requests.append(body.model_dump(exclude_unset=True))
        turn = self.turns[len(self.requests) - 1]
        self.started.set()
        if isinstance(turn, float):
            try:
                await asyncio.sleep(turn)
            except asyncio.CancelledError:
                self.cancelled += 1
                raise
            turn = [text("late")]
        await asyncio.sleep(0)  # attempts at the same time take turns
        if turn == "overflow":
            raise EngineError("the context is full", code="context_overflow", status=400)
        extra = turn if isinstance(turn, dict) else {"output": turn}
        usage = {"input_tokens": 10, "output_tokens": 5, "total_tokens": 15}
        return NeMoGymResponse.model_validate(
            {
                "id": "resp",
                "created_at": 0,
                "model": "scripted",
                "object": "response",
                "parallel_tool_calls": True,
                "tool_choice": "auto",
                "tools": [],
                "usage": usage,
                **extra,
            }
        )

    async def chat_completions(
        self, body: NeMoGymChatCompletionCreateParamsNonStreaming = Body()
    ) -> NeMoGymChatCompletion:
        raise NotImplementedError


TOOLS = [
    {
        "type": "function",
        "name": name,
        "parameters": {
            "type": "object",
            "properties": {"amount": {"type": "integer"}},
            "required": ["amount"] if name == "add" else [],
        },
    }
    for name in ("add", "refuse", "crash")
]


def task_row(**fields: Any) -> dict[str, Any]:
    return {"responses_create_params": {"input": "count to two", "tools": TOOLS}, "uuid": "row-1", **fields}


VERIFY = {
    **task_row(),
    "response": {
        "id": "r",
        "created_at": 0,
        "model": "m",
        "object": "response",
        "output": [],
        "parallel_tool_calls": True,
        "tool_choice": "auto",
        "tools": [],
    },
}
