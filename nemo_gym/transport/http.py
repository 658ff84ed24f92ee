"""The transport over sockets: a lean client of our own for the servers of a gym and other `http://` URLs, aiohttp for
everything else.

Three timeouts: connecting is bounded in seconds; TCP keep-alive probes silent sockets; the caller's deadline alone
bounds how long a response may take. A universal read timeout would cut off the longest trajectories and bias training
(docs/decisions/05-three-clocks.md).

In-flight calls are capped at half of RLIMIT_NOFILE; further calls wait in FIFO order.
"""

from __future__ import annotations

import asyncio
import logging
import resource
from collections import deque
from importlib import import_module
from typing import TYPE_CHECKING

from nemo_gym.tls import context_trusting
from nemo_gym.transport._plain_http import PlainHttp
from nemo_gym.transport.calls import Call, Reply

if TYPE_CHECKING:
    import aiohttp

    from nemo_gym.transport._full_http import FullHttp

log = logging.getLogger(__name__)

_RESERVED_FILES = 256
_MAX_FILES = 1 << 20
"""The requested limit where the system has none."""


def raise_file_limit() -> int:
    """Raise this process's soft limit of open files to the hard limit, and return it."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = _MAX_FILES if hard == resource.RLIM_INFINITY else hard
    if soft == resource.RLIM_INFINITY or soft >= wanted:
        return wanted
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
    except (ValueError, OSError) as error:  # macOS reports no limit but enforces one
        log.info("the limit of open files stays at %d: %s", soft, error)
        return soft
    return wanted


def most_calls_in_flight(open_files: int) -> int:
    """Return the cap of in-flight calls: half of the open files, because a server's own clients need as many."""
    return max(16, (open_files - min(max(_RESERVED_FILES, open_files // 20), open_files // 2)) // 2)


class HttpTransport:
    """Sends calls through pooled connections, which are opened on first use inside the running event loop."""

    def __init__(self, *, in_flight: int | None = None, ca: str | None = None) -> None:
        """`in_flight`: the most calls at once; by default derived from the limit of open files.

        `ca`: the file of certificates that `https://` servers of a gym must be signed by; None for a transport to other
        servers, or to a gym without TLS. Raises `ConfigError` if it is unusable.
        """
        self._most_in_flight = in_flight
        self._ca = ca
        self._tls = context_trusting(ca)
        self._limit = 0
        """Set by the first call, which reads the limit of open files."""
        self._in_flight = 0
        self._waiting: deque[asyncio.Future[None]] = deque()
        """Calls that wait for a place. A call that ends hands its place over, so later calls cannot overtake."""
        self._plain = PlainHttp(tls=self._tls)
        self._full: FullHttp | None = None
        self._has_logged = False

    @property
    def run(self) -> str | None:
        """The run whose servers are called by sockets within the machine, if they have them."""
        return self._plain.run

    def call_locally(self, run: str | None) -> None:
        """Set `run`; None for ports only."""
        self._plain.run = run

    def session(self) -> aiohttp.ClientSession:
        """aiohttp's pooled client, for any server. Calls made through it directly are not capped."""
        return self._full_http().session()

    def _full_http(self) -> FullHttp:
        if self._full is None:
            from nemo_gym.transport._full_http import FullHttp

            self._full = FullHttp(self._ca)
        return self._full

    async def send(self, base_url: str, call: Call) -> Reply:
        if self._in_flight < self._limit:
            self._in_flight += 1
        else:
            await self._enter(base_url)
        try:
            if self._tls is not None or base_url.startswith("http://"):
                return await self._plain.send(base_url, call)
            if self._full is None:  # a slow import, in a thread so that it does not block the event loop
                await asyncio.to_thread(import_module, "nemo_gym.transport._full_http")
            return await self._full_http().send(base_url, call)
        finally:
            if self._waiting:
                self._hand_over()
            else:
                self._in_flight -= 1

    async def _enter(self, base_url: str) -> None:
        """Wait for a place. `asyncio.Semaphore` would take three times the instructions for calls without a wait."""
        if not self._limit:
            self._plain.max_open = most_calls_in_flight(raise_file_limit())
            self._limit = self._plain.max_open if self._most_in_flight is None else self._most_in_flight
        if self._in_flight < self._limit:
            self._in_flight += 1
            return
        self._log_once(base_url)
        place = asyncio.get_running_loop().create_future()
        self._waiting.append(place)
        try:
            await place
        except asyncio.CancelledError:
            if not place.cancelled():  # cancelled after the place was handed over
                self._hand_over()
            raise

    def _hand_over(self) -> None:
        """Give the place of a call that ends to the next call that still waits."""
        while self._waiting:
            place = self._waiting.popleft()
            if not place.done():
                place.set_result(None)
                return
        self._in_flight -= 1

    def _log_once(self, base_url: str) -> None:
        if not self._has_logged:
            self._has_logged = True
            files, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
            log.warning(
                "%d calls are in flight, the cap for a limit of %d open files; a call to %s waits. "
                "Raise `ulimit -Hn`, or lower the number of rollouts in parallel.",
                self._limit, files, base_url,
            )  # fmt: skip

    async def close(self) -> None:
        await self._plain.close()
        self._plain, self._limit = PlainHttp(tls=self._tls, run=self._plain.run), 0
        if self._full is not None:
            await self._full.close()
