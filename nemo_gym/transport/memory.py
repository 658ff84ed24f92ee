"""The in-memory transport of the inline placement and of tests: it calls ASGI apps in the same event loop."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import unquote

from nemo_gym.failures import TransportError
from nemo_gym.transport.calls import Call, Reply
from nemo_gym.transport.request_body import Message, WholeBody

CLIENT_CANCELS = "nemo_gym.client_cancels"
"""Scope key: the handler runs in the client's task, so cancelling the client cancels the handler."""
_SCOPE: Mapping[str, Any] = {
    "type": "http",
    "asgi": {"version": "3.0", "spec_version": "2.3"},
    "http_version": "1.1",
    "scheme": "http",
    "root_path": "",
    "client": ("127.0.0.1", 0),
    CLIENT_CANCELS: True,
}
"""The scope fields that all calls share."""


class InMemoryTransport:
    """Maps base URLs to ASGI apps. Cancelling a call cancels the app's handler, as closing a socket does."""

    def __init__(self, apps: Mapping[str, Any] | None = None) -> None:
        self.apps: dict[str, Any] = dict(apps or {})

    async def send(self, base_url: str, call: Call) -> Reply:
        app = self.apps.get(base_url)
        if app is None:
            raise TransportError(
                f"no app is mounted at {base_url}", code="connect_refused", retryable=True, peer=base_url
            )
        reply = _ReplySoFar()
        await app(_scope_of(call, base_url), WholeBody(call.body or b"", _until_cancelled), reply.send)
        if not reply.is_finished:
            raise TransportError(
                f"the app at {base_url} returned before its response was complete",
                code="disconnected",
                retryable=True,
                peer=base_url,
            )
        return Reply(reply.status, reply.headers, reply.body)

    async def close(self) -> None:
        self.apps.clear()


def _scope_of(call: Call, base_url: str) -> dict[str, Any]:
    path, _, query = call.path.partition("?")
    host = base_url.partition("://")[2]
    headers = [(name.lower().encode(), value.encode("latin-1")) for name, value in call.headers.items()]
    headers.append((b"host", host.encode()))
    return {
        **_SCOPE,
        "method": call.method,
        "path": unquote(path) if "%" in path else path,
        "raw_path": path.encode(),
        "query_string": query.encode(),
        "headers": headers,
        "server": (host, 0),
    }


async def _until_cancelled() -> Message:
    """Wait forever: an in-memory client disconnects by cancellation only."""
    await asyncio.get_running_loop().create_future()
    raise AssertionError("unreachable")


class _ReplySoFar:
    """Collects a response from ASGI `send` messages."""

    def __init__(self) -> None:
        self.status = 0
        self.headers: Sequence[tuple[bytes, bytes]] = ()
        self.body = b""
        self.is_finished = False

    async def send(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.status = message["status"]
            self.headers = message.get("headers", ())
        else:
            part = message.get("body", b"")
            self.body = self.body + part if self.body else part
            self.is_finished = not message.get("more_body", False)
