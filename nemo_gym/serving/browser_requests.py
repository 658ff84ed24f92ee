"""Refuses requests that a web page made a browser send: by their Host, Origin and Content-Type.

A page can reach loopback through the browser of a user. Three headers give it away: a Host that is a name of the page's
own (DNS rebinding), an Origin of another site, and a content type that a page can send without asking first.

A page can't own an IP address or `localhost` as a name, so these are always valid hosts. A page can send a form, plain
text, or a body without a type to any server; for every other type its browser asks the server first, in vain.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable, Mapping
from urllib.parse import urlsplit

from nemo_gym.failures import Boundary, GymError

_SENT_WITHOUT_ASKING = frozenset(
    {"", "text/plain", "application/x-www-form-urlencoded", "multipart/form-data"}
)
_MOST_KEPT = 256


class BrowserRefusal(GymError):
    """The request may come from a web page."""

    boundary = Boundary.INPUT


class BrowserCheck:
    """Checks requests; combinations of headers that were accepted before cost one look-up."""

    __slots__ = ("_accepted", "_hosts")

    def __init__(self, hosts: Iterable[str] = ()) -> None:
        """`hosts`: names under which this server is called, beside `localhost`."""
        self._hosts = frozenset(host.lower() for host in hosts) | {"localhost"}
        self._accepted: set[tuple[bytes | None, bytes | None, bytes | None]] = set()

    def check(self, headers: Mapping[bytes, bytes]) -> None:
        """Raise `BrowserRefusal` for a request that a foreign web page may have made."""
        content_type = headers.get(b"content-type")
        if content_type is None and has_body(headers):
            content_type = b""
        given = headers.get(b"host"), headers.get(b"origin"), content_type
        if given not in self._accepted:
            self._check(*(None if value is None else value.decode("latin-1") for value in given))
            if len(self._accepted) < _MOST_KEPT:
                self._accepted.add(given)

    def _check(self, host: str | None, origin: str | None, content_type: str | None) -> None:
        if host is not None and not self._is_own_host(_name_in(f"//{host}")):
            raise BrowserRefusal(
                f"the host {host!r} is not one of this server",
                code="unknown_host",
                status=421,
                remedy="Call the server by its address, or list the name in `allowed_hosts`.",
            )
        if origin is not None and not self._is_own_page(_name_in(origin)):
            raise BrowserRefusal(
                f"requests of pages from {origin!r} are refused",
                code="foreign_origin",
                status=403,
                remedy="Send the request without a browser, or list the page's host in `allowed_hosts`.",
            )
        kind = None if content_type is None else content_type.partition(";")[0].strip().lower()
        if kind in _SENT_WITHOUT_ASKING:
            raise BrowserRefusal(
                f"a body of type {kind!r} is refused" if kind else "a body without a content type is refused",
                code="content_type",
                status=415,
                remedy="Send JSON with the header `content-type: application/json` (curl: `--json` instead of `-d`).",
            )

    def _is_own_host(self, name: str) -> bool:
        return name in self._hosts or _parse_address(name) is not None

    def _is_own_page(self, name: str) -> bool:
        address = _parse_address(name)
        return name in self._hosts or (address is not None and address.is_loopback)


def has_body(headers: Mapping[bytes, bytes]) -> bool:
    """Return whether a request with these headers has a body."""
    return headers.get(b"content-length", b"0") != b"0" or b"transfer-encoding" in headers


def _name_in(url: str) -> str:
    """Return the host of a URL in lower case; empty if there is none."""
    try:
        return urlsplit(url).hostname or ""
    except ValueError:
        return ""


def _parse_address(name: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        return ipaddress.ip_address(name)
    except ValueError:
        return None
