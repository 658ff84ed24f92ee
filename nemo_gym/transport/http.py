"""The transport over real sockets: a lean client of our own for plain HTTP, aiohttp for everything else.

Three clocks (design decision 5): connecting is bounded in seconds; silent sockets are probed by TCP keep-alive;
how long an answer may take is the caller's deadline alone, because a universal read timeout would cut off the
longest trajectories and bias training.

Calls in flight are capped at half of the limit of open files; further calls wait in the order in which they came.
"""

from __future__ import annotations

import asyncio
import logging
import resource
from collections import deque
from importlib import import_module
from typing import TYPE_CHECKING

from nemo_gym.transport._plain_http import PlainHttp
from nemo_gym.transport.calls import Call, Reply

if TYPE_CHECKING:
    import aiohttp

    from nemo_gym.transport._full_http import FullHttp

log = logging.getLogger(__name__)

_RESERVED_FILES = 256
_MOST_FILES = 1 << 20
"""Asked for where the system names no limit."""


def raise_file_limit() -> int:
    """Raise this process's limit of open files as far as it may, and return it."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = _MOST_FILES if hard == resource.RLIM_INFINITY else hard
    if soft == resource.RLIM_INFINITY or soft >= wanted:
        return wanted
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
    except (ValueError, OSError) as error:  # macOS names no limit and has one
        log.info("the limit of open files stays at %d: %s", soft, error)
        return soft
    return wanted


def calls_within(files: int) -> int:
    """How many calls may be in flight where so many files may be open: half, because a server's own callers need
    as many."""
    return max(16, (files - min(max(_RESERVED_FILES, files // 20), files // 2)) // 2)


class HttpTransport:
    """Sends calls through pooled connections, made on first use inside the running event loop."""

    def __init__(self, *, in_flight: int | None = None) -> None:
        """`in_flight`: the most calls at once; by default what the limit of open files allows."""
        self._given_bound = in_flight
        self._most_in_flight = 0
        """0 until the first call reads the limit of open files."""
        self._in_flight = 0
        self._waiting: deque[asyncio.Future[None]] = deque()
        self._plain = PlainHttp()
        self._full: FullHttp | None = None
        self._has_logged = False

    def session(self) -> aiohttp.ClientSession:
        """aiohttp's pooled client. Calls made through it directly pass no admission."""
        return self._full_http().session()

    def _full_http(self) -> FullHttp:
        if self._full is None:
            from nemo_gym.transport._full_http import FullHttp

            self._full = FullHttp()
        return self._full

    async def send(self, base_url: str, call: Call) -> Reply:
        if self._in_flight < self._most_in_flight:
            self._in_flight += 1
        else:
            await self._turn(base_url)
        try:
            if base_url.startswith("http://"):
                return await self._plain.send(base_url, call)
            if self._full is None:
                await asyncio.to_thread(import_module, "nemo_gym.transport._full_http")  # holds no event loop
            return await self._full_http().send(base_url, call)
        finally:
            self._leave()

    async def _turn(self, base_url: str) -> None:
        """Wait for a place among the calls in flight, and take it."""
        if not self._most_in_flight:
            within = calls_within(raise_file_limit())
            self._plain.most_open = within
            self._most_in_flight = within if self._given_bound is None else self._given_bound
        if self._in_flight < self._most_in_flight:
            self._in_flight += 1
            return
        self._log_once(base_url)
        turn = asyncio.get_running_loop().create_future()
        self._waiting.append(turn)
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():
                self._leave()
            raise

    def _leave(self) -> None:
        """Give a place up, to the call that has waited longest."""
        while self._waiting:
            turn = self._waiting.popleft()
            if not turn.done():
                turn.set_result(None)
                return
        self._in_flight -= 1

    def _log_once(self, base_url: str) -> None:
        if not self._has_logged:
            self._has_logged = True
            files, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
            log.warning(
                "%d calls are in flight, as many as may be where a process may open %d files; a call to %s waits. "
                "Raise `ulimit -Hn`, or lower the number of rollouts in parallel.",
                self._most_in_flight, files, base_url,
            )  # fmt: skip

    async def close(self) -> None:
        await self._plain.close()
        self._plain, self._most_in_flight = PlainHttp(), 0
        if self._full is not None:
            await self._full.close()
