"""A client of any server that speaks OpenAI's API, over the process's pooled connections.

It exists because the `openai` package spends milliseconds of CPU on each call; this one passes JSON through. It is
the `Engine` of `nemo_gym.engines.engine` in the shape that environments make calls with.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

import orjson
from pydantic import BaseModel, Field, PrivateAttr

if TYPE_CHECKING:
    from nemo_gym.transport import Transport

RATE_LIMIT_ERROR_CODES: list[int] = [429, 502, 503, 504, 520]
"""Statuses that say "later": too many requests, or no engine behind the proxy at the moment.

For environments that make calls of their own; what this client tries again is `transport.caller`'s decision.
"""

RETRY_ERROR_CODES: list[int] = [*RATE_LIMIT_ERROR_CODES, 500]
"""Statuses after which the same request may succeed."""


class EngineClient(BaseModel):
    """Calls the endpoints under `base_url`, which usually ends in `/v1`.

    Every method takes the fields of the request as keyword arguments and returns the parsed answer. Calls are
    tried again within `attempts` and `retry_s`, and end with the rollout's deadline. Raises `EngineError` when no
    answer arrives, and `UpstreamError` (an `aiohttp.ClientResponseError` with the body as `.response_content`)
    when the answer is an error.
    """

    base_url: str
    api_key: str = Field(repr=False)
    default_headers: dict[str, str] = Field(default_factory=dict, repr=False)
    """Sent with every request, beside the authorization."""
    internal: bool = False
    """Whether the peer is a server of this gym. Says so to readers; the calls are the same."""
    attempts: int = 8
    retry_s: float = 120.0
    """After so many seconds a failed call is not tried again."""

    _transport: Transport | None = PrivateAttr(default=None)

    @classmethod
    def over(cls, transport: Transport, **fields: Any) -> EngineClient:
        """A client whose calls go through `transport`."""
        client = cls(**fields)
        client._transport = transport
        return client

    async def create_response(self, **params: Any) -> dict[str, Any]:
        return await self._call("POST", "/responses", params)

    async def create_chat_completion(self, **params: Any) -> dict[str, Any]:
        return await self._call("POST", "/chat/completions", params)

    async def create_completion(self, **params: Any) -> dict[str, Any]:
        return await self._call("POST", "/completions", params)

    async def create_models(self) -> dict[str, Any]:
        """The models that the engine serves."""
        return await self._call("GET", "/models")

    async def create_tokenize(self, **params: Any) -> dict[str, Any]:
        """vLLM's `/tokenize`, which stands beside `/v1`, not under it."""
        return await self._call("POST", "/tokenize", params, at_root=True)

    async def _call(
        self,
        method: Literal["GET", "POST"],
        path: str,
        params: dict[str, Any] | None = None,
        *,
        at_root: bool = False,
    ) -> dict[str, Any]:
        # Imported here, because the schemas' import path leads through this module and needs no HTTP client.
        from nemo_gym.engines.engine import Engine
        from nemo_gym.responses import parse_answer
        from nemo_gym.transport import RetryBudget
        from nemo_gym.transport.server_client import ServerReply

        engine = Engine(
            self.base_url,
            api_key=self.api_key,
            headers=self.default_headers,
            transport=self._transport,
            budget=RetryBudget(self.attempts, self.retry_s, first_wait_s=0.5, longest_wait_s=20.0),
        )
        body = None if params is None else orjson.dumps(params, default=_as_json)
        reply, url = await engine.call(method, path, body, at_root=at_root)
        ServerReply(reply, method, url + path).raise_for_status()
        return parse_answer(reply.body, peer=url)


def _as_json(value: object) -> object:
    if isinstance(value, BaseModel):
        return value.model_dump(mode="json", by_alias=True, exclude_unset=True)
    raise TypeError(f"a {type(value).__name__} is not JSON")
