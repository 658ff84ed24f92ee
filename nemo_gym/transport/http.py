"""The transport over real sockets: a lean client of our own for plain HTTP, aiohttp for everything else.

Three clocks (design decision 5): connecting is bounded in seconds; silent sockets are probed by TCP keep-alive;
how long an answer may take is the caller's deadline alone, because a universal read timeout would cut off the
longest trajectories and bias training.

The pool itself has no bound. Above it stands an admission: so many calls are in flight as the limit of open files
allows, and the others wait for their turn.
"""

from __future__ import annotations

import asyncio
import errno
import logging
import resource
import socket
from collections import deque
from importlib import import_module
from typing import TYPE_CHECKING

from nemo_gym.failures import TransportError
from nemo_gym.transport.calls import Call, Reply
from nemo_gym.transport.plain_http import ConnectTimeout, InvalidCall, NotConnected, PlainHttp

if TYPE_CHECKING:
    import aiohttp

    from nemo_gym.transport.full_http import FullHttp

log = logging.getLogger(__name__)

_RESERVED_FILES = 256
_MOST_FILES = 1 << 20
"""What to ask for where the system names no limit."""


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
        """As many as may be; 0 until the first call asks what the limit of open files allows."""
        self._in_flight = 0
        self._waiting: deque[asyncio.Future[None]] = deque()
        self._plain = PlainHttp()
        self._full: FullHttp | None = None
        self._has_told = False

    def session(self) -> aiohttp.ClientSession:
        """aiohttp's pooled client. Calls made through it directly pass no admission."""
        return self._full_http().session()

    def _full_http(self) -> FullHttp:
        if self._full is None:
            from nemo_gym.transport.full_http import FullHttp

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
                await asyncio.to_thread(import_module, "nemo_gym.transport.full_http")  # holds no event loop
            return await self._full_http().send(base_url, call)
        except InvalidCall as error:
            raise _failure("invalid_url", base_url, error, retryable=False) from error
        except socket.gaierror as error:
            raise _failure("name_unresolved", base_url, error, retryable=False) from error
        except ConnectTimeout as error:
            raise _failure("connect_timeout", base_url, error) from error
        except NotConnected as error:
            code = "too_many_files" if error.cause.errno == errno.EMFILE else "connect_refused"
            raise _failure(code, base_url, error) from error
        except OSError as error:
            raise _failure("disconnected", base_url, error) from error
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
        self._tell_once(base_url)
        turn = asyncio.get_running_loop().create_future()
        self._waiting.append(turn)
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():
                self._leave()
            raise

    def _leave(self) -> None:
        """Give a place up, to who has waited longest."""
        while self._waiting:
            turn = self._waiting.popleft()
            if not turn.done():
                turn.set_result(None)
                return
        self._in_flight -= 1

    def _tell_once(self, base_url: str) -> None:
        if not self._has_told:
            self._has_told = True
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


_MESSAGES = {
    "name_unresolved": "the name of {peer} does not resolve",
    "connect_refused": "{peer} refuses the connection",
    "too_many_files": "no file descriptor is left to connect to {peer}",
    "connect_timeout": "{peer} did not accept the connection in time",
    "invalid_url": "{peer} is not a valid URL",
    "disconnected": "{peer} broke the connection off before its answer was whole",
}
_REMEDIES = {
    "name_unresolved": "Check the host in the URL.",
    "connect_refused": "Check that it runs and that host and port are right.",
    "too_many_files": "Raise `ulimit -n` or lower the number of rollouts in parallel.",
    "invalid_url": "A base URL looks like http://host:port/v1.",
}


def _failure(code: str, peer: str, error: BaseException, *, retryable: bool = True) -> TransportError:
    detail = str(error) or type(error).__name__
    return TransportError(
        f"{_MESSAGES[code].format(peer=peer)} ({detail})",
        code=code,
        retryable=retryable,
        remedy=_REMEDIES.get(code),
        peer=peer,
    )
