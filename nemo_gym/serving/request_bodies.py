"""Reading the bodies of requests whose head was admitted.

A request with the run's token may have a body of any size. The body of every other request is bounded in size and time,
and so is the memory that unfinished bodies take together.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from http import HTTPStatus

from nemo_gym.failures import InputError
from nemo_gym.names import DEFAULT_MAX_BODY_MIB, MAX_BODY_MIB
from nemo_gym.transport.request_body import Message, Receive, WholeBody, read_body

BODY_S = 60.0
"""Seconds in which a bounded body must be complete."""
_TOGETHER = 4
"""Unfinished bodies may take the memory of so many of the largest ones."""
_MIB = 1 << 20


_CODINGS = (b"content-encoding", b"transfer-encoding")
_PLAIN = frozenset({b"", b"identity", b"chunked"})


def require_plain(headers: Iterable[tuple[bytes, bytes]]) -> None:
    """Raise `InputError` (415) for a body in a coding such as gzip: nothing here decodes it.

    `headers`: all of a request with a body.
    """
    given = [value for name, value in headers if name in _CODINGS]
    coded = [value for value in given if not _PLAIN.issuperset(_split_codings(value))]
    if coded:
        raise InputError(
            f"the body is sent as {b', '.join(coded).decode('latin-1')!r}, and this server reads only plain ones",
            code="content_encoding",
            status=HTTPStatus.UNSUPPORTED_MEDIA_TYPE,
            remedy="Send it without Content-Encoding: bodies are read as they are.",
        )


def _split_codings(value: bytes) -> list[bytes]:
    return [each.strip().lower() for each in value.split(b",")]


class BodyReader:
    """Reads the bodies of requests to one server process."""

    __slots__ = ("_body_s", "_most_bytes", "_unfinished_bytes")

    def __init__(self, max_mib: float = DEFAULT_MAX_BODY_MIB, body_s: float = BODY_S) -> None:
        """`max_mib`: the largest body without the token; `body_s`: the seconds that it may take."""
        self._most_bytes = int(max_mib * _MIB)
        self._body_s = body_s
        self._unfinished_bytes = 0

    async def read(self, receive: Receive, announced: bytes | None, *, is_trusted: bool) -> bytes | None:
        """Return the complete body; None if the client disconnected before its end.

        `announced`: the header Content-Length. Raises `InputError` (408, 413, 503) unless the request is trusted.
        """
        if is_trusted or type(receive) is WholeBody:
            return await read_body(receive)
        if announced is not None and int(announced) > self._most_bytes:
            raise self._too_large()
        size = 0

        async def receive_counted() -> Message:
            nonlocal size
            message = await receive()
            part = len(message.get("body", b""))
            size += part
            self._unfinished_bytes += part
            if size > self._most_bytes:
                raise self._too_large()
            if self._unfinished_bytes > _TOGETHER * self._most_bytes:
                raise self._too_many()
            return message

        try:
            async with asyncio.timeout(self._body_s):
                return await read_body(receive_counted)
        except TimeoutError as error:
            raise InputError(
                f"the body of the request was not complete within {self._body_s:g} s",
                code="body_timeout",
                retryable=True,
                status=HTTPStatus.REQUEST_TIMEOUT,
            ) from error
        finally:
            self._unfinished_bytes -= size

    def _too_large(self) -> InputError:
        return InputError(
            f"the body of a request without the run's token has at most {self._most_bytes / _MIB:g} MiB",
            code="body_too_large",
            status=HTTPStatus.REQUEST_ENTITY_TOO_LARGE,
            remedy=f"Send the run's token in x-ng-token, or set {MAX_BODY_MIB}.",
        )

    def _too_many(self) -> InputError:
        return InputError(
            f"the bodies of unfinished requests have {_TOGETHER * self._most_bytes / _MIB:g} MiB, and this server "
            "reads no more of them",
            code="bodies_too_large",
            retryable=True,
            status=HTTPStatus.SERVICE_UNAVAILABLE,
            remedy=f"Send the request again, with the run's token in x-ng-token, or set {MAX_BODY_MIB}.",
        )
