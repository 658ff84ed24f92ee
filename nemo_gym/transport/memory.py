"""The transport of the inline placement and of tests: calls go straight into the apps of this event loop.

An app of the gym is asked for a whole answer (`answer_to`); any other ASGI app, and a route that needs it, by ASGI.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any

from nemo_gym.failures import TransportError
from nemo_gym.transport.calls import Call, Reply


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
        exchange = _Exchange(call, base_url)
        ask = getattr(app, "answer_to", None)
        answering = ask(call, exchange) if ask is not None else None
        if answering is None:
            await app(exchange.scope(), exchange.receive, exchange.send)
            return exchange.reply()
        answer = await answering
        if answer is None:
            return exchange.reply()
        return Reply(answer.status_code, answer.raw_headers, answer.body)

    async def close(self) -> None:
        self.apps.clear()


class _Exchange:
    """A call as ASGI has it, and what is answered bit by bit."""

    _sent_body = False
    _status = 0
    _headers: Sequence[tuple[bytes, bytes]] = ()
    _body = b""
    _finished = False

    def __init__(self, call: Call, base_url: str) -> None:
        self._call = call
        self._base_url = base_url

    def reply(self) -> Reply:
        """What was answered; raises `TransportError` where that is not whole."""
        if not self._finished:
            raise TransportError(
                f"{self._base_url} ended before its answer was whole",
                code="disconnected",
                retryable=True,
                peer=self._base_url,
            )
        return Reply(self._status, self._headers, self._body)

    def scope(self) -> dict[str, Any]:
        path, _, query = self._call.path.partition("?")
        host = self._base_url.partition("://")[2]
        headers = [
            (name.lower().encode(), value.encode("latin-1")) for name, value in self._call.headers.items()
        ]
        headers.append((b"host", host.encode()))
        if self._call.body is not None:
            headers.append((b"content-length", str(len(self._call.body)).encode()))
        return {
            "type": "http",
            "asgi": {"version": "3.0", "spec_version": "2.3"},
            "http_version": "1.1",
            "method": self._call.method,
            "scheme": "http",
            "path": path,
            "raw_path": path.encode(),
            "query_string": query.encode(),
            "root_path": "",
            "headers": headers,
            "client": ("127.0.0.1", 0),
            "server": (host, 0),
        }

    async def receive(self) -> dict[str, Any]:
        if not self._sent_body:
            self._sent_body = True
            return {"type": "http.request", "body": self._call.body or b"", "more_body": False}
        await asyncio.get_running_loop().create_future()  # the caller stays until it is cancelled
        raise AssertionError("unreachable")

    async def send(self, message: Mapping[str, Any]) -> None:
        if message["type"] == "http.response.start":
            self._status = message["status"]
            self._headers = list(message.get("headers", ()))
        elif message["type"] == "http.response.body":
            self._body += message.get("body", b"")
            self._finished = not message.get("more_body", False)
