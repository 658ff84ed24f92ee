"""The transport of the inline placement and of tests: calls go straight into the ASGI apps of this event loop."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import unquote

from nemo_gym.failures import TransportError
from nemo_gym.transport.calls import Call, Reply

_ASGI = {"version": "3.0", "spec_version": "2.3"}
_CLIENT = ("127.0.0.1", 0)


class InMemoryTransport:
    """Maps base URLs to ASGI apps. A cancelled call cancels the app's handler, as a closed socket would."""

    def __init__(self, apps: Mapping[str, Any] | None = None) -> None:
        self.apps: dict[str, Any] = dict(apps or {})

    async def send(self, base_url: str, call: Call) -> Reply:
        app = self.apps.get(base_url)
        if app is None:
            raise TransportError(
                f"no app is mounted at {base_url}", code="connect_refused", retryable=True, peer=base_url
            )
        exchange = _Exchange(call.body)
        await app(_scope_of(call, base_url), exchange.receive, exchange.send)
        if not exchange.is_finished:
            raise TransportError(
                f"{base_url} ended before its response was whole",
                code="disconnected",
                retryable=True,
                peer=base_url,
            )
        return Reply(exchange.status, exchange.headers, exchange.body)

    async def close(self) -> None:
        self.apps.clear()


def _scope_of(call: Call, base_url: str) -> dict[str, Any]:
    path, _, query = call.path.partition("?")
    host = base_url.partition("://")[2]
    headers = [(name.lower().encode(), value.encode("latin-1")) for name, value in call.headers.items()]
    headers.append((b"host", host.encode()))
    if call.body is not None:
        headers.append((b"content-length", b"%d" % len(call.body)))
    return {
        "type": "http",
        "asgi": _ASGI,
        "http_version": "1.1",
        "method": call.method,
        "scheme": "http",
        "path": unquote(path) if "%" in path else path,
        "raw_path": path.encode(),
        "query_string": query.encode(),
        "root_path": "",
        "headers": headers,
        "client": _CLIENT,
        "server": (host, 0),
    }


class _Exchange:
    """The client's side of one call: ASGI's `receive` and `send`, and the response so far."""

    def __init__(self, body: bytes | None) -> None:
        self._unsent: bytes | None = body or b""
        self.status = 0
        self.headers: Sequence[tuple[bytes, bytes]] = ()
        self.body = b""
        self.is_finished = False

    async def receive(self) -> dict[str, Any]:
        body, self._unsent = self._unsent, None
        if body is not None:
            return {"type": "http.request", "body": body, "more_body": False}
        await asyncio.get_running_loop().create_future()  # the client stays until it is cancelled
        raise AssertionError("unreachable")

    async def send(self, message: Mapping[str, Any]) -> None:
        if message["type"] == "http.response.start":
            self.status = message["status"]
            self.headers = message.get("headers", ())
        elif message["type"] == "http.response.body":
            part = message.get("body", b"")
            self.body = self.body + part if self.body else part
            self.is_finished = not message.get("more_body", False)
