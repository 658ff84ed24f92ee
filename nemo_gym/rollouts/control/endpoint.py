"""The address of a run that a command collects, on loopback, and `<stem>_control.json`, which announces it.

The file holds the address and the token of the run, so only its user can read it. It is removed when the run ends. The
file of a run that was killed stays until the next start, and its process id tells that the run is over.

The HTTP server is imported at the first connection. Before it, the endpoint is a socket that the event loop watches.
"""

from __future__ import annotations

import asyncio
import hmac
import json
import os
import secrets
import socket
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from nemo_gym.clock import wall_clock, write_time
from nemo_gym.discovery_files import is_alive
from nemo_gym.failures import GymError, InputError
from nemo_gym.names import TOKEN_HEADER
from nemo_gym.rollouts.control.run_control import RunControl
from nemo_gym.transport.local_sockets import listen_at

if TYPE_CHECKING:
    from starlette.types import Receive, Scope, Send

    from nemo_gym.serving.listening import Listener

_LOOPBACK = "127.0.0.1"
_BACKLOG = 64
_GRACE_S = 1.0
_MOST_BYTES = 1 << 20
_ENDING = "_control.json"


class Announced(NamedTuple):
    """A run that can be controlled."""

    run: str
    """Its name: that of its rows without the ending."""
    url: str
    token: str
    place: Path
    """The file that announces it."""


class Endpoint:
    """Answers requests to one run. Without the token 401, from pages of other origins 403."""

    def __init__(self, control: RunControl, token: str) -> None:
        self._control = control
        self._token = token.encode()
        self._listener: Listener | None = None
        self._opening: asyncio.Task[None] | None = None
        self.socket = listen_at(socket.AF_INET, (_LOOPBACK, 0), _BACKLOG)

    @property
    def url(self) -> str:
        return f"http://{_LOOPBACK}:{self.socket.getsockname()[1]}"

    def open(self) -> None:
        """Serve from the first connection on."""
        asyncio.get_running_loop().add_reader(self.socket, self._begin)

    async def close(self) -> None:
        asyncio.get_running_loop().remove_reader(self.socket)
        if self._opening is not None:
            await self._opening
        if self._listener is not None:
            await self._listener.stop(_GRACE_S)
        self.socket.close()

    def _begin(self) -> None:
        asyncio.get_running_loop().remove_reader(self.socket)
        self._opening = asyncio.create_task(self._serve())

    async def _serve(self) -> None:
        def build() -> Listener:
            from nemo_gym.serving.listening import Listener

            return Listener(self._answer)

        self._listener = await asyncio.to_thread(build)
        await self._listener.start(self.socket.dup())

    async def _answer(self, scope: Scope, receive: Receive, send: Send) -> None:
        from starlette.requests import Request
        from starlette.responses import JSONResponse

        from nemo_gym.rollouts.control.routes import answer

        request = Request(scope, receive)
        try:
            self._admit(dict(scope["headers"]))
            body = b""
            async for piece in request.stream():
                body += piece
                if len(body) > _MOST_BYTES:
                    raise InputError("the body is too large", code="too_large", status=413)
            told = await answer({self._control.name: self._control}, scope["method"], scope["path"], body)
            response = JSONResponse(told)
        except GymError as error:
            response = JSONResponse(error.failure.to_wire(), error.failure.http_status)
        await response(scope, receive, send)

    def _admit(self, headers: Mapping[bytes, bytes]) -> None:
        from nemo_gym.serving.browser_requests import BrowserCheck

        BrowserCheck().check(headers)
        if not hmac.compare_digest(headers.get(TOKEN_HEADER.encode(), b""), self._token):
            raise InputError(
                f"control of a run requires its token in {TOKEN_HEADER}",
                code="token_required",
                status=401,
                remedy=f"It is in the file <stem>{_ENDING} beside the rows of the run; `gym ctl` reads it.",
            )


@asynccontextmanager
async def serve_control(control: RunControl, announcement: Path) -> AsyncIterator[None]:
    """Serve the routes of a run, and announce its address in the file `announcement`, while the block runs."""
    token = secrets.token_urlsafe(24)
    endpoint = Endpoint(control, token)
    try:
        endpoint.open()
        _announce(announcement, {"run": control.name, "url": endpoint.url, "token": token})
        yield
    finally:
        _withdraw(announcement)
        await endpoint.close()


def _announce(path: Path, content: dict[str, Any]) -> None:
    began = write_time(wall_clock())
    _withdraw(path)  # that of a run that was killed
    path.touch(0o600, exist_ok=False)
    path.write_text(json.dumps({**content, "pid": os.getpid(), "started_at": began}))


def _withdraw(path: Path) -> None:
    path.unlink(missing_ok=True)


def read_announcement(path: Path) -> Announced | None:
    """Return the run that a file announces; None if it has ended, or if the file is damaged or not readable."""
    try:
        told = json.loads(path.read_bytes())
        found = Announced(str(told["run"]), str(told["url"]), str(told["token"]), path)
        return found if is_alive(int(told["pid"]), str(told["started_at"])) else None
    except (OSError, ValueError, KeyError, TypeError):
        return None


def find_announced(folder: Path) -> list[Announced]:
    """Return the runs that go on below `folder`, in the order of their files."""
    found = map(read_announcement, sorted(folder.rglob(f"*{_ENDING}")))
    return [each for each in found if each is not None]
