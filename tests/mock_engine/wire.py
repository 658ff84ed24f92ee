"""A running engine's HTTP, without a client library that would tidy up what is on the wire."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import aiohttp

from nemo_gym.mock_engine import EngineOptions, MockEngine, MockPolicy, ModelReply, ScriptPolicy, ToolCall
from nemo_gym.mock_engine.policies import Scene
from tests.waiting import until

USER = {"role": "user", "content": "What is 1 + 2?"}
ADD = {
    "type": "function",
    "function": {
        "name": "add",
        "parameters": {
            "type": "object",
            "properties": {"a": {"type": "integer"}, "b": {"type": "integer"}},
            "required": ["a", "b"],
        },
    },
}
LOOK_UP = {
    "type": "function",
    "function": {"name": "look_up", "parameters": {"properties": {"word": {"enum": ["x"]}}}},
}


@dataclass
class Wire:
    """An engine and a connection pool to it."""

    engine: MockEngine
    session: aiohttp.ClientSession

    async def post(self, path: str, **payload: Any) -> tuple[int, Any]:
        """The status and the JSON of an answer."""
        async with self.session.post(self.engine.root_url + path, json=payload) as answer:
            return answer.status, await answer.json()

    async def chat(self, **payload: Any) -> tuple[int, Any]:
        return await self.post("/v1/chat/completions", **{"messages": [USER], **payload})

    async def in_flight(self, count: int) -> None:
        """Returns once so many requests are in flight."""
        await until(lambda: self.engine.stats.in_flight == count)

    async def get(self, path: str) -> tuple[int, Any]:
        async with self.session.get(self.engine.root_url + path) as answer:
            return answer.status, await answer.json()


@asynccontextmanager
async def running(speaker: MockPolicy | None = None, /, **options: Any) -> AsyncIterator[Wire]:
    """An engine with these options; `speaker` stands in for the policy that they describe."""
    async with (
        MockEngine(EngineOptions(**options), policy=speaker) as engine,
        aiohttp.ClientSession() as session,
    ):
        yield Wire(engine, session)


THOUGHTFUL = ScriptPolicy(
    (Scene((ModelReply("Let me add.", "Two numbers.", (ToolCall("add", '{"a": 1}'),)),)),)
)


TRAINING = {
    "return_token_ids": True,
    "logprobs": True,
    "top_logprobs": 0,
    "return_tokens_as_token_ids": True,
}


async def raw(wire: Wire, **fields: Any) -> bytes:
    url = f"{wire.engine.base_url}/chat/completions"
    async with wire.session.post(url, json={"messages": [USER], **fields}) as answer:
        return await answer.read()
