"""An environment's server, asked by HTTP: JSON, and streams of events that go on where they broke.

The server is on a loopback port of the sandbox, or at the other end of a socket that the gym forwards to one address
(`nemo_gym.sources.foreign.forwarding`). A request whose answer is lost is never sent again, as the environment may have
acted on it. Only a server that says that it is still starting is asked until the deadline of the request.
"""

from __future__ import annotations

import contextlib
import http.client
import json
import socket
import time
from collections.abc import Iterator, Mapping
from typing import Any
from urllib.parse import urlsplit

from .faults import HostError

_SILENCE_S = 60.0
"""Seconds without a byte after which a connection counts as broken. Event streams have a comment every ten."""
_RESUMES = 5
_SHOWN_CHARS = 500
_STARTING_S = 2.0
_BROKEN = (OSError, http.client.HTTPException)


class Remote:
    """The server at a URL. `through` is the path of the socket that leads to it, if the network does not."""

    def __init__(self, url: str, through: str | None = None) -> None:
        parts = urlsplit(url)
        self._url, self._address, self._base = url, parts.netloc, parts.path.rstrip("/")
        self._through = through

    def ask(self, method: str, path: str, body: Any = None, headers: Mapping[str, str] | None = None) -> Any:
        """Return the JSON that the server answers. Raises `HostError`; `not_found` for status 404."""
        try:
            with self._open(method, path, body, headers or {}) as answer:
                return json.loads(answer.read())
        except _BROKEN as error:
            raise self._break(path, error) from error
        except ValueError as error:
            raise HostError("environment_error", f"{self._url}{path} did not answer with JSON") from error

    def follow(self, path: str, body: Mapping[str, Any], headers: Mapping[str, str]) -> tuple[str, str]:
        """Return the text of an event stream, and the id of its task. Raises `HostError`, also for its `error`.

        A stream that breaks after it has named its task is asked for again by that name.
        """
        task = ""
        last: BaseException | None = None
        for attempt in range(1 + _RESUMES):
            named = {"task_id": task} if task else {}
            chunks = []
            try:
                for event, data in self._read_events(path, {**body, **named}, headers):
                    if event == "task_id":
                        task = data.strip()
                    elif event == "error":
                        raise HostError(
                            "environment_error", data or "an error without a text", retryable=True
                        )
                    elif event in ("chunk", "end"):
                        chunks.append(data)
                    if event == "end":
                        return "".join(chunks), task
                last = http.client.HTTPException("the stream ended early")
            except _BROKEN as error:
                last = error
            if not task:
                break
            time.sleep(0.1 * 2**attempt)
        raise self._break(path, last)

    def _read_events(
        self, path: str, body: Mapping[str, Any], headers: Mapping[str, str]
    ) -> Iterator[tuple[str, str]]:
        with self._open("POST", path, body, {**headers, "Accept": "text/event-stream"}) as answer:
            event, data = "message", list[str]()
            for raw in answer:
                line = raw.decode("utf-8").rstrip("\r\n")
                if not line:
                    if data:
                        yield event, "\n".join(data)
                    event, data = "message", []
                    continue
                field, _, value = line.partition(":")  # a comment has an empty field
                value = value.removeprefix(" ")
                if field == "event":
                    event = value
                elif field == "data":
                    data.append(value)

    @contextlib.contextmanager
    def _open(
        self, method: str, path: str, body: Any, headers: Mapping[str, str]
    ) -> Iterator[http.client.HTTPResponse]:
        """Send a request, and give its answer of status 200. Raises `HostError` for another status."""
        data = None if body is None else json.dumps(body).encode()
        given = {"Host": self._address, "Content-Type": "application/json", **headers}
        while True:
            with contextlib.closing(self._connect()) as connection:
                connection.request(method, self._base + path, data, given)
                answer = connection.getresponse()
                if answer.status == 200:
                    yield answer
                    return
                error = self._explain(path, answer)
            if answer.status != 503 or answer.getheader("X-Backend-State") != "starting":
                raise error
            time.sleep(_STARTING_S)

    def _connect(self) -> http.client.HTTPConnection:
        if self._through is None:
            return http.client.HTTPConnection(self._address, timeout=_SILENCE_S)
        connection = http.client.HTTPConnection("localhost", timeout=_SILENCE_S)
        connection.sock = socket.socket(socket.AF_UNIX)
        connection.sock.settimeout(_SILENCE_S)
        connection.sock.connect(self._through)
        return connection

    def _explain(self, path: str, answer: http.client.HTTPResponse) -> HostError:
        text = answer.read().decode("utf-8", "replace")
        try:
            told = json.loads(text)["detail"]
        except (ValueError, KeyError, TypeError):
            told = text
        status = answer.status
        code = {404: "not_found", 401: "unsupported", 403: "unsupported"}.get(status, "environment_error")
        message = f"{self._url}{path} answered {status}: {str(told)[:_SHOWN_CHARS]}"
        return HostError(code, message, retryable=status >= 500 or status in (408, 410, 429))

    def _break(self, path: str, error: BaseException | None) -> HostError:
        told = f"{self._url}{path} did not answer: {type(error).__name__}: {error}"
        return HostError("environment_error", told, retryable=True)
