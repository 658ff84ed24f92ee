"""The connection of a rollout session: calls that are repeated, and a stream that notices when its server is gone."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from nemo_gym.client._rollout import build_broken_stream_error, refusal
from nemo_gym.failures import GymError, TransportError
from nemo_gym.names import ROLLOUT_SESSIONS_ROUTE

if TYPE_CHECKING:
    from nemo_gym.client._gym import AsyncGym

EngineTreatment: TypeAlias = Literal["abort", "keep", "wait", "none"]
"""The treatment of generations in flight while new weights are pushed."""
_LOST_S = 10.0
"""Seconds without a line after which a connection is lost. The session writes one every 2 seconds."""
_FIRST_WAIT_S, _LONGEST_WAIT_S = 0.05, 5.0


class SessionConnection:
    """Makes the calls of one session. They are repeatable, so a broken connection is no error at once."""

    def __init__(self, gym: AsyncGym, *, reconnect_s: float) -> None:
        """`reconnect_s`: seconds for which an unreachable gym is tried again."""
        self._gym = gym
        self._reconnect_s = reconnect_s
        self._http = gym._session()

    async def close(self) -> None:
        await self._http.close()

    async def ask(self, method: str, path: str, body: Any = None, *, lines: bytes | None = None) -> Any:
        """Return the JSON of an answer. Raises `TransportError` if the gym is unreachable for too long.

        `body` is sent as JSON; `lines` as it is.
        """
        content = json.dumps(body).encode() if body is not None else lines
        url = ROLLOUT_SESSIONS_ROUTE + path
        async for is_last in self.attempts():
            try:
                return await self._gym._exchange(self._http, self._gym.address.url, method, url, content)
            except TransportError:
                if is_last:
                    raise
        raise AssertionError("unreachable: the last attempt returns or raises")

    async def attempts(self) -> AsyncIterator[bool]:
        """Yield whether an attempt is the last one; wait between two of them."""
        end, wait_s = time.monotonic() + self._reconnect_s, _FIRST_WAIT_S
        while (left_s := end - time.monotonic()) > wait_s:
            yield False
            await asyncio.sleep(min(wait_s, left_s))
            wait_s = min(_LONGEST_WAIT_S, 2 * wait_s)
        yield True

    async def read(self, path: str) -> AsyncGenerator[dict[str, Any], None]:
        """Yield the lines of a stream. Raises `TransportError` when the connection is lost."""
        from nemo_gym.client._gym import errors_named, split_lines

        url = self._gym.address.url
        with errors_named(url):
            async with self._http.get(url + ROLLOUT_SESSIONS_ROUTE + path) as answer:
                if answer.status != HTTPStatus.OK:
                    raise refusal(answer.status, await answer.read(), url)
                async with aclosing(split_lines(answer.content)) as lines:
                    while True:
                        try:
                            async with asyncio.timeout(_LOST_S):
                                line = await anext(lines, None)
                        except TimeoutError as error:
                            raise build_broken_stream_error(url, error) from error
                        if line is None:
                            return
                        yield json.loads(line)


def is_lost(error: GymError) -> bool:
    """Return whether the gym does not know the session: it was restarted, or the session has ended."""
    return error.failure.code == "no_session"
