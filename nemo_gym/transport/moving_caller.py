"""Calls in a gym on several machines: each names the generation that it means, and fails when its replica is lost."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Mapping
from typing import Any

from nemo_gym.config import bootstrap
from nemo_gym.failures import TransportError
from nemo_gym.json_objects import object_in
from nemo_gym.names import DIRECTORY_ROUTE, LOCAL_SOCKETS_KEY
from nemo_gym.transport.caller import Caller
from nemo_gym.transport.calls import Call, Reply, Transport
from nemo_gym.transport.deadline import Deadline
from nemo_gym.transport.http import HttpTransport
from nemo_gym.transport.moving_directory import NODE_LOST, MovingDirectory, build_directory

GENERATION_HEADER = "x-ng-generation"
"""The generation of the called replica in the caller's directory. A replica of another generation refuses the call,
because one of the two is not current."""
CALLER_HEADER = "x-ng-caller"
"""The calling replica (`own_name`). After its loss the sessions that it opened are closed."""

ASK_EVERY_S = 1.0
"""Seconds between two requests for the current directory."""
_ANSWER_WITHIN_S = 5.0


def build_caller(config: Mapping[str, Any], transport: Transport, token: str | None) -> Caller:
    """Return a caller of the servers of a running gym."""
    directory = build_directory(config)
    if isinstance(transport, HttpTransport):
        transport.call_locally(config.get(LOCAL_SOCKETS_KEY))
    if isinstance(directory, MovingDirectory):
        return MovingCaller(directory, transport, token)
    return Caller(directory, transport, token=token)


def own_name() -> str | None:
    """Return `server/number/generation` of this process; None if it cannot move."""
    given = bootstrap.current()
    if given is None or given.generation is None:
        return None
    return f"{given.server_name}/{given.replica}/{given.generation}"


class MovingCaller(Caller):
    """Sends calls to servers whose replicas can move."""

    directory: MovingDirectory

    def __init__(self, directory: MovingDirectory, transport: Transport, token: str | None) -> None:
        super().__init__(directory, transport, token=token)
        self._following: asyncio.Task[None] | None = None
        self._name_of_own = {} if (name := own_name()) is None else {CALLER_HEADER: name}

    def send(self, server: str, call: Call, deadline: Deadline | None = None) -> Coroutine[Any, Any, Reply]:
        """Return the reply, as `Caller.send`; raises `node_lost` when the replica is no longer there."""
        self.follow_moves()
        return self._send_while_there(server, call, deadline)

    async def _send_while_there(self, server: str, call: Call, deadline: Deadline | None) -> Reply:
        url = self.directory.choose(server, call.session, self._is_out if self._out else None)
        call.headers[GENERATION_HEADER] = str(self.directory.generation(url))
        call.headers.update(self._name_of_own)
        with self.directory.calling(url) as calling:
            try:
                if deadline is None:
                    return await self._try(server, url, call)
                return await self._try_until(deadline, server, url, call)
            except asyncio.CancelledError as error:
                if not calling.takes_back_cancellation():
                    raise
                raise _node_lost(server, url, call) from error

    def follow_moves(self) -> None:
        """Keep the directory current while the running event loop runs. Idempotent."""
        if self._following is None or self._following.get_loop() is not asyncio.get_running_loop():
            self._following = asyncio.create_task(self._follow(), name="follow the directory")

    def stop_following(self) -> None:
        """End the requests for the directory, which otherwise end with the event loop."""
        if self._following is not None:
            self._following.cancel()

    async def _follow(self) -> None:
        while True:
            await self._ask()
            await asyncio.sleep(ASK_EVERY_S)

    async def _ask(self) -> None:
        call = Call("GET", DIRECTORY_ROUTE, headers=dict(self._own_headers))
        try:
            async with asyncio.timeout(_ANSWER_WITHIN_S):
                reply = await self.transport.send(self.directory.head_url, call)
        except (TransportError, TimeoutError):
            return  # the head server is restarted, this machine is cut off, or the gym has ended
        document = object_in(reply.body) if reply.ok else None
        if document is not None and "version" in document:  # another program may have taken the head's port
            self.directory.update(document)


def _node_lost(server: str, url: str, call: Call) -> TransportError:
    path, session = call.path.partition("?")[0], f" of session {call.session}" if call.session else ""
    return TransportError(
        f"the node of `{server}` at {url} was lost during {call.method} {path}{session}",
        code=NODE_LOST,
        retryable=True,
        peer=server,
    )
