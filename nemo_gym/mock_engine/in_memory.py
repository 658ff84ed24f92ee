"""An engine's app in memory, at the URLs where a real engine would have its routes."""

from __future__ import annotations

from typing import Any

from nemo_gym.transport import InMemoryTransport


def mount(transport: InMemoryTransport, app: Any, root: str = "http://engine") -> str:
    """Have `transport` reach an engine's ASGI app; the base URL that model servers are given."""

    async def under_v1(scope: Any, receive: Any, send: Any) -> None:
        await app({**scope, "path": "/v1" + scope["path"]}, receive, send)

    base_url = f"{root}/v1"
    transport.apps[root], transport.apps[base_url] = app, under_v1
    return base_url
