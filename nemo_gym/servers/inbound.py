"""A request on its way to its handler, however it came: by ASGI, over a socket or through memory."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, MutableMapping
from functools import cached_property
from typing import Any, Protocol, TypeAlias
from urllib.parse import unquote

from starlette.requests import Request
from starlette.responses import Response

from nemo_gym.transport.calls import Call

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]


class Carrier(Protocol):
    """The way back to the caller, for answers that are sent bit by bit: ASGI's `send`, and its `receive` after the
    request's body, which waits until the caller is gone."""

    @property
    def receive(self) -> Receive: ...
    @property
    def send(self) -> Send: ...


class Inbound:
    """One request, with its whole body. What the gate finds out about it is added on the way."""

    session: dict[str, Any]
    """What `request.session` holds."""
    answer_headers: tuple[tuple[bytes, bytes], ...] = ()
    """What the gate adds to the answer."""
    before_answer: Callable[[], None] | None = None
    """What is to be done before the answer goes out."""
    status = 0
    """The answer's, once it has begun."""
    has_token = False
    """Whether it brought the run's token, once that was looked at."""
    _is_read = False

    def __init__(
        self,
        method: str,
        path: str,
        query: str,
        headers: Mapping[str, str],
        body: bytes,
        carrier: Carrier,
        app: Any = None,
        scope: Scope | None = None,
    ) -> None:
        """`path` is decoded and without the query; the names in `headers` are in lower case."""
        self.method = method
        self.path = path
        self.query = query
        self.headers = headers
        self.body = body
        self.carrier = carrier
        self.app = app
        self._scope = scope

    @classmethod
    def of_call(cls, call: Call, carrier: Carrier, app: Any) -> Inbound:
        """The request that a call through memory is."""
        path, _, query = call.path.partition("?")
        if "%" in path:
            path = unquote(path)
        return cls(call.method, path, query, call.headers, call.body or b"", carrier, app)

    @classmethod
    def of_scope(cls, scope: Scope, body: bytes, carrier: Carrier) -> Inbound:
        """The request of an ASGI scope."""
        headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]}
        return cls(scope["method"], scope["path"], "", headers, body, carrier, scope.get("app"), scope)

    def scope(self) -> Scope:
        """The request as ASGI has it."""
        scope = self._scope
        if scope is None:
            headers = self.headers.items()
            scope = self._scope = {
                "type": "http",
                "asgi": {"version": "3.0", "spec_version": "2.3"},
                "http_version": "1.1",
                "method": self.method,
                "scheme": "http",
                "path": self.path,
                "raw_path": self.path.encode(),
                "query_string": self.query.encode("latin-1"),
                "root_path": "",
                "headers": [(name.encode("latin-1"), value.encode("latin-1")) for name, value in headers],
                "client": ("127.0.0.1", 0),
                "server": ("127.0.0.1", 0),
            }
        scope["app"], scope["session"] = self.app, self.session
        return scope

    def request(self) -> Request:
        """The request as endpoints see it."""
        return _Request(self)

    async def receive(self) -> MutableMapping[str, Any]:
        """ASGI's `receive`: the body, and then what the carrier has to say."""
        if self._is_read:
            return await self.carrier.receive()
        self._is_read = True
        return {"type": "http.request", "body": self.body, "more_body": False}

    async def send(self, message: MutableMapping[str, Any]) -> None:
        """ASGI's `send`, for an answer that goes out bit by bit."""
        if message["type"] == "http.response.start":
            message["headers"] = [*message.get("headers", ()), *self.begin(message["status"])]
        await self.carrier.send(message)

    def begin(self, status: int) -> tuple[tuple[bytes, bytes], ...]:
        """The answer begins: what the gate adds to its headers."""
        self.status = status
        if self.before_answer is not None:
            self.before_answer()
        return self.answer_headers


Handle: TypeAlias = Callable[[Inbound], Awaitable[Response | None]]
"""Answers a request; None where the answer went out by `Inbound.send`."""


class _Request(Request):
    """Starlette's request on an `Inbound`. What most endpoints never look at is made when one does."""

    _stream_consumed = False
    _is_disconnected = False
    _form = None

    def __init__(self, inbound: Inbound) -> None:
        self.inbound = inbound
        self._body = inbound.body
        self._receive = inbound.carrier.receive
        self._send = inbound.send

    @cached_property
    def scope(self) -> Scope:  # type: ignore[override]
        return self.inbound.scope()

    @property
    def session(self) -> dict[str, Any]:
        return self.inbound.session


def header_of(request: Request, name: str) -> str | None:
    """A header of a request, without making an object of all of them."""
    return request.inbound.headers.get(name) if isinstance(request, _Request) else request.headers.get(name)


class JsonAnswer(Response):
    """A JSON answer, made of its bytes without what Starlette does for others: it is made for every call."""

    def __init__(self, body: bytes, status_code: int = 200, headers: Mapping[str, str] | None = None) -> None:
        self.status_code = status_code
        self.background = None
        self.body = body
        self.raw_headers = [_JSON, (b"content-length", b"%d" % len(body))]
        if headers:
            self.raw_headers += [
                (name.encode("latin-1"), value.encode("latin-1")) for name, value in headers.items()
            ]


_JSON = (b"content-type", b"application/json")


def is_whole(answer: Response) -> bool:
    """Whether an answer is its head and its body and nothing else, such as a stream or work that follows it."""
    return type(answer).__call__ is Response.__call__ and answer.background is None
