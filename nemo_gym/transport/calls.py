"""One HTTP call as data, and the seam that carries it: `Transport.send(base_url, call) -> reply`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from http.cookies import SimpleCookie
from typing import Any, Protocol, TypeAlias

import orjson
from multidict import CIMultiDict, CIMultiDictProxy


@dataclass(slots=True)
class Call:
    """A request to a peer. `path` starts with a slash and may hold a query; names in `headers` are in lower case."""

    method: str
    path: str
    body: bytes | None = None
    headers: dict[str, str] = field(default_factory=dict)


Headers: TypeAlias = CIMultiDict[str] | CIMultiDictProxy[str]


class Reply:
    """A peer's whole answer; the body has arrived to its last byte."""

    __slots__ = ("_headers", "body", "status")

    def __init__(self, status: int, headers: Headers | Sequence[tuple[bytes, bytes]], body: bytes) -> None:
        """`headers` as they arrived are decoded on first use: most callers read none."""
        self.status = status
        self.body = body
        self._headers = headers

    @property
    def headers(self) -> Headers:
        headers = self._headers
        if not isinstance(headers, CIMultiDict | CIMultiDictProxy):
            decoded = [
                (name.decode("latin-1"), value.decode("latin-1").strip(" \t")) for name, value in headers
            ]
            headers = self._headers = CIMultiDict(decoded)
        return headers

    @property
    def ok(self) -> bool:
        return self.status < 400

    def json(self) -> Any:
        """The body as JSON; raises `orjson.JSONDecodeError` (a ValueError) when it is not."""
        return orjson.loads(self.body)

    def cookies(self) -> SimpleCookie:
        jar = SimpleCookie()
        for value in self.headers.getall("set-cookie", ()):
            jar.load(value)
        return jar


class Transport(Protocol):
    """Carries one call to one address. Raises `TransportError`; never retries, never times out by itself.

    The codes of its errors are those of `nemo_gym.transport._errors`.
    """

    async def send(self, base_url: str, call: Call) -> Reply: ...

    async def close(self) -> None: ...


UNDELIVERED_CODES = frozenset(
    {
        "invalid_url",
        "name_unresolved",
        "connect_refused",
        "connect_timeout",
        "too_many_files",
        "unasked_answer",
    }
)
"""Codes of transport errors after which the peer has certainly not seen the call."""


def cookie_header(cookies: Mapping[str, Any]) -> str:
    """A `Cookie` header from plain values or from morsels of an earlier answer."""
    return "; ".join(f"{name}={getattr(value, 'coded_value', value)}" for name, value in cookies.items())
