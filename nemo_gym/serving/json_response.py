"""A response whose body is JSON bytes."""

from __future__ import annotations

from collections.abc import Mapping

from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from nemo_gym.transport.whole_response import send_response

_HEADERS = [(b"content-type", b"application/json")]


class JsonResponse(Response):
    """A JSON response that skips Starlette's header handling, which costs 3 µs per call.

    Its Content-Length is added when it is sent.
    """

    def __init__(self, body: bytes, status_code: int = 200, headers: Mapping[str, str] | None = None) -> None:
        self.status_code = status_code
        self.background = None
        self.body = body
        self.raw_headers = _HEADERS.copy()
        if headers:
            self.raw_headers += [
                (name.encode("latin-1"), value.encode("latin-1")) for name, value in headers.items()
            ]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await send_response(send, self.status_code, self.raw_headers, bytes(self.body))
        if self.background is not None:
            await self.background()
