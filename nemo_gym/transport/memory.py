"""The in-memory transport of the inline placement and of tests: it calls ASGI apps in the same event loop."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from functools import lru_cache
from typing import Any
from urllib.parse import unquote

from starlette.types import ASGIApp, Receive, Scope

from nemo_gym.transport._errors import DISCONNECTED, call_failed
from nemo_gym.transport.calls import Call, Reply
from nemo_gym.transport.request_body import Message, WholeBody
from nemo_gym.transport.whole_response import RawHeaders

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
            raise call_failed("connect_refused", base_url, "no app is mounted there")
        receiver = ReplyCollector()
        target = _target(base_url, call.path)
        headers = [(name.lower().encode(), value.encode("latin-1")) for name, value in call.headers.items()]
        headers += target["headers"]
        scope = {**target, "method": call.method, "headers": headers}
        await app(scope, WholeBody(call.body or b"", wait_until_cancelled), receiver)
        if receiver.reply is None:
            raise call_failed(DISCONNECTED, base_url, "the app returned too early")
        return receiver.reply

    async def close(self) -> None:
        self.apps.clear()


@lru_cache(maxsize=1000)
def _target(base_url: str, url_path: str) -> Mapping[str, Any]:
    """Return the scope fields that calls to the same URL share."""
    path, _, query = url_path.partition("?")
    host = base_url.partition("://")[2]
    return {
        **_SCOPE,
        "path": unquote(path),
        "raw_path": path.encode(),
        "query_string": query.encode(),
        "server": (host, 0),
        "headers": [(b"host", host.encode())],
    }


async def wait_until_cancelled() -> Message:
    """Wait forever: an in-memory client disconnects by cancellation only."""
    await asyncio.get_running_loop().create_future()
    raise AssertionError("unreachable")


class ReplyCollector:
    """The ASGI `send` that collects a response."""

    __slots__ = ("_body", "_headers", "_status", "reply")

    def __init__(self) -> None:
        self.reply: Reply | None = None
        """The complete response."""
        self._body = b""

    async def whole(self, status: int, headers: RawHeaders, body: bytes) -> None:
        self.reply = Reply(status, headers, body)

    async def __call__(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self._status: int = message["status"]
            self._headers: RawHeaders = message.get("headers", ())
        else:
            part = message.get("body", b"")
            self._body = self._body + part if self._body else part
            if not message.get("more_body", False):
                self.reply = Reply(self._status, self._headers, self._body)


async def collect_reply(handler: ASGIApp, scope: Scope, receive: Receive) -> Reply:
    """Return the reply of a handler to a request."""
    collector = ReplyCollector()
    await handler(scope, receive, collector)
    assert collector.reply is not None
    return collector.reply
