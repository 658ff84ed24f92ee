"""An HTTP call and its reply as data, and the protocol of a transport: `send(base_url, call) -> reply`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeAlias

import orjson
from multidict import CIMultiDict, CIMultiDictProxy

from nemo_gym.transport._errors import UNDELIVERED_CODES as UNDELIVERED_CODES
from nemo_gym.transport.deadline import Deadline


@dataclass(slots=True)
class Call:
    """A request to a peer. `path` starts with a slash and may contain a query; header names are in lower case."""

    method: str
    path: str
    body: bytes | None = None
    headers: dict[str, str] = field(default_factory=dict)
    session: str | None = None
    """The session, which selects the replica."""
    repeatable: bool = False
    """True if the call may be sent again after a broken connection."""
    fails_over: bool = False
    """True if an undelivered call fails at once, so that the caller can try another replica."""
    propagated: Deadline | None = None
    """The deadline that is sent to the peer: each attempt carries the seconds left."""


Headers: TypeAlias = CIMultiDict[str] | CIMultiDictProxy[str]


class Received:
    """Status, headers and body of a complete response."""

    __slots__ = ("_headers", "body", "status")

    def __init__(
        self, status: int, headers: Headers | Sequence[tuple[bytes, bytes]] | bytes, body: bytes
    ) -> None:
        """Raw `headers`, pairs or lines, are decoded on first use, because most callers read none."""
        self.status = status
        self.body = body
        self._headers = headers

    @property
    def headers(self) -> Headers:
        headers = self._headers
        if isinstance(headers, bytes):
            lines = [line.partition(":") for line in headers.decode("latin-1").split("\r\n")[:-1]]
            headers = self._headers = CIMultiDict([(name, value.strip(" \t")) for name, _, value in lines])
        elif not isinstance(headers, CIMultiDict | CIMultiDictProxy):
            decoded = [
                (name.decode("latin-1"), value.decode("latin-1").strip(" \t")) for name, value in headers
            ]
            headers = self._headers = CIMultiDict(decoded)
        return headers

    @property
    def raw_headers(self) -> Sequence[tuple[bytes, bytes]]:
        """The headers as pairs of bytes, which are not decoded if they came so."""
        headers = self._headers
        if isinstance(headers, bytes | CIMultiDict | CIMultiDictProxy):
            encoded = self.headers.items()
            return [(name.encode("latin-1"), value.encode("latin-1")) for name, value in encoded]
        return headers

    @property
    def ok(self) -> bool:
        return self.status < 400


class Reply(Received):
    """The complete response of a peer."""

    __slots__ = ()

    def json(self) -> Any:
        """Parse the body. Raises `orjson.JSONDecodeError` (a ValueError) for invalid JSON."""
        return orjson.loads(self.body)


class Transport(Protocol):
    """Sends one call to one base URL. It never retries and has no timeout.

    Raises `TransportError` with a code of `nemo_gym.transport._errors`.
    """

    async def send(self, base_url: str, call: Call) -> Reply: ...

    async def close(self) -> None: ...


def cookie_header(cookies: Mapping[str, Any]) -> str:
    """Build a `Cookie` header from plain values or from the morsels of an earlier reply."""
    return "; ".join(f"{name}={getattr(value, 'coded_value', value)}" for name, value in cookies.items())
