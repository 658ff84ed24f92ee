"""Mounting an engine's app on an in-memory transport, at the URLs of a real engine."""

from __future__ import annotations

from typing import Any

from nemo_gym.transport import InMemoryTransport


def mount(transport: InMemoryTransport, app: Any, root: str = "http://engine") -> str:
    """Mount an engine's ASGI app on `transport`. Return the base URL for model servers."""

    async def serve_under_v1(scope: Any, receive: Any, send: Any) -> None:
        await app({**scope, "path": "/v1" + scope["path"]}, receive, send)

    base_url = f"{root}/v1"
    transport.apps[root], transport.apps[base_url] = app, serve_under_v1
    return base_url
