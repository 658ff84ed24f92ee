"""A client for any OpenAI-compatible API, over the process's pooled connections.

The `openai` package needs milliseconds of CPU per call; this client passes JSON through. It wraps the `Engine` of
`nemo_gym.engines.engine` in the interface that environments use.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

import orjson
from pydantic import BaseModel, Field, PrivateAttr

if TYPE_CHECKING:
    from nemo_gym.transport import Transport

RATE_LIMIT_ERROR_CODES: list[int] = [429, 502, 503, 504, 520]
"""Statuses of temporary overload: too many requests, or no engine behind the proxy.

They are for environments that make their own calls. `transport.caller` decides what this client retries.
"""

RETRY_ERROR_CODES: list[int] = [*RATE_LIMIT_ERROR_CODES, 500]
"""Statuses after which the same request may succeed."""


MAX_NUM_TRIES = 3
"""Attempts at a call that environments make themselves."""


class EngineClient(BaseModel):
    """Calls the endpoints under `base_url`, which usually ends in `/v1`.

    Every method takes the fields of the request as keyword arguments and returns the parsed answer. Calls are
    retried within `attempts` and `retry_s`, and end with the rollout's deadline. Raises `EngineError` without a reply,
    and `UpstreamError` (an `aiohttp.ClientResponseError` with the body as `.response_content`) for an error status.
    """

    base_url: str
    api_key: str = Field(repr=False)
    default_headers: dict[str, str] = Field(default_factory=dict, repr=False)
    """Sent with every request, in addition to the authorization."""
    internal: bool = False
    """True if the peer is a server of this gym. It has no effect on the calls."""
    attempts: int = 8
    retry_s: float = 120.0
    """Seconds after which a failed call is not retried."""

    _transport: Transport | None = PrivateAttr(default=None)

    @classmethod
    def from_transport(cls, transport: Transport, **fields: Any) -> EngineClient:
        """Create a client over `transport`."""
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
        """List the models of the engine."""
        return await self._call("GET", "/models")

    async def create_tokenize(self, **params: Any) -> dict[str, Any]:
        """Call vLLM's `/tokenize`, which is beside `/v1` and not below it."""
        return await self._call("POST", "/tokenize", params, at_root=True)

    async def _call(
        self,
        method: Literal["GET", "POST"],
        path: str,
        params: dict[str, Any] | None = None,
        *,
        at_root: bool = False,
    ) -> dict[str, Any]:
        # Imported here: the schemas' import path leads through this module and needs no HTTP client.
        from nemo_gym.engines.engine import UpstreamEngine
        from nemo_gym.responses import parse_answer
        from nemo_gym.transport import RetryBudget
        from nemo_gym.transport.server_client import ServerReply

        engine = UpstreamEngine(
            self.base_url,
            api_key=self.api_key,
            headers=self.default_headers,
            transport=self._transport,
            budget=RetryBudget(self.attempts, self.retry_s, first_wait_s=0.5, longest_wait_s=20.0),
        )
        body = None if params is None else orjson.dumps(params, default=_dump_model)
        reply, url = await engine.call(method, path, body, at_root=at_root)
        ServerReply(reply, method, url + path).raise_for_status()
        return parse_answer(reply.body, peer=url)


def _dump_model(value: object) -> object:
    if isinstance(value, BaseModel):
        return value.model_dump(mode="json", by_alias=True, exclude_unset=True)
    raise TypeError(f"a {type(value).__name__} is not JSON")
