"""One call between two processes, with an ASGI side for the server's app and a future for the caller."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

from multidict import CIMultiDict

from nemo_gym.failures import TransportError
from nemo_gym.transport import Call, Reply


class Exchange:
    """A connection with one request.

    As with a real socket, a handler detects a disconnected caller only through `http.disconnect`.
    """

    def __init__(self, base_url: str, call: Call) -> None:
        parts = urlsplit(base_url)
        self.origin = f"{parts.scheme}://{parts.netloc}"
        self.path, _, self._query = (parts.path + call.path).partition("?")
        self.call = call
        self.reply: asyncio.Future[Reply] = asyncio.get_running_loop().create_future()
        """The caller's result."""
        self.closed = asyncio.Event()
        """Set when the connection has ended, for any reason."""
        self._body_was_read = False
        self._status = 0
        self._headers: CIMultiDict[str] = CIMultiDict()
        self._chunks: list[bytes] = []
        self._is_whole = False

    @property
    def status(self) -> int | None:
        """The status that the handler sent, or None."""
        return self._status or None

    async def serve(self, app: Any) -> Reply | None:
        """Return the answer of `app`, or None if it is incomplete."""
        try:
            await app(self._scope(), self._receive, self._send)
        finally:
            self.closed.set()
        return Reply(self._status, self._headers, b"".join(self._chunks)) if self._is_whole else None

    def answer(self, reply: Reply) -> None:
        if not self.reply.done():
            self.reply.set_result(reply)

    def fail(self, error: TransportError) -> None:
        self.closed.set()
        if not self.reply.done():
            self.reply.set_exception(error)
            self.reply.exception()  # a caller that is cancelled at this moment never looks at it

    def broken(self) -> TransportError:
        return _transport_error("disconnected", f"{self.origin} closed the connection")

    def refused(self) -> TransportError:
        return _transport_error("connect_refused", f"{self.origin} refuses the connection")

    def _scope(self) -> dict[str, Any]:
        headers = [
            (name.lower().encode(), value.encode("latin-1")) for name, value in self.call.headers.items()
        ]
        headers.append((b"host", self.origin.partition("://")[2].encode()))
        headers.append((b"content-length", b"%d" % len(self.call.body or b"")))
        return {
            "type": "http",
            "asgi": {"version": "3.0", "spec_version": "2.3"},
            "http_version": "1.1",
            "method": self.call.method,
            "scheme": "http",
            "path": self.path,
            "raw_path": self.path.encode(),
            "query_string": self._query.encode(),
            "root_path": "",
            "headers": headers,
            "client": ("127.0.0.1", 0),
            "server": ("127.0.0.1", 0),
        }

    async def _receive(self) -> dict[str, Any]:
        if not self._body_was_read:
            self._body_was_read = True
            return {"type": "http.request", "body": self.call.body or b"", "more_body": False}
        await self.closed.wait()
        return {"type": "http.disconnect"}

    async def _send(self, message: Mapping[str, Any]) -> None:
        if message["type"] == "http.response.start":
            self._status = message["status"]
            for name, value in message.get("headers", ()):
                self._headers.add(name.decode("latin-1"), value.decode("latin-1"))
        elif message["type"] == "http.response.body":
            self._chunks.append(message.get("body", b""))
            self._is_whole = not message.get("more_body", False)


def _transport_error(code: str, message: str) -> TransportError:
    return TransportError(message, code=code, retryable=True)
