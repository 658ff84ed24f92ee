"""Calls by server name: the choice of the replica, the deadline, and retries.

A call is retried only when that is safe (docs/decisions/06-safe-retries.md): it was not delivered; or a proxy or
engine replied 408, 429, 502, 503 or 504; or the connection broke and the call is repeatable (a model call, a session
opened by id, a pure verify). A call with side effects whose connection broke fails as `ambiguous_delivery`: it may
have been executed. An error envelope of the gym is never retried here, because the server that met the root cause has
retried already.

The budget bounds the attempts and the seconds since the first failure; a long generation does not use it up. While the
circuit breaker of an endpoint is open (`nemo_gym.transport.circuit_breaker`), calls to it wait within the seconds of
their budget.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Awaitable, Callable, Coroutine, Iterable
from dataclasses import dataclass, replace
from email.utils import parsedate_to_datetime
from typing import Any

from nemo_gym import clock
from nemo_gym.failures import DeadlineError, Failure, TransportError, build_error
from nemo_gym.json_objects import object_in
from nemo_gym.names import TOKEN_HEADER
from nemo_gym.transport._errors import DISCONNECTED, REDIRECTED, call_failed
from nemo_gym.transport.calls import UNDELIVERED_CODES, Call, Received, Reply, Transport
from nemo_gym.transport.circuit_breaker import (
    UNREACHABLE_CODES,
    UNREACHABLE_STATUSES,
    find_breakers,
)
from nemo_gym.transport.deadline import DEADLINE_HEADER, Deadline, Timer
from nemo_gym.transport.directory import Directory

log = logging.getLogger(__name__)

RETRIED_STATUSES = frozenset({408, 429, 502, 503, 504})
REDIRECTS = frozenset({301, 302, 303, 307, 308})
AMBIGUOUS = "ambiguous_delivery"
"""The failure code of a call with side effects whose connection broke."""


@dataclass(frozen=True, slots=True)
class RetryBudget:
    """Limits for the attempts and the seconds of a call; waits between attempts have full jitter."""

    attempts: int = 5
    seconds: float = 30.0
    first_wait_s: float = 0.1
    longest_wait_s: float = 5.0
    is_logged: bool = True
    """Whether failures that are retried are logged; a check reports its failure by itself."""

    def wait(self, attempt: int, rng: random.Random) -> float:
        """Return the seconds to wait after attempt `attempt` (1-based): uniform below an exponential bound."""
        return rng.uniform(0.0, min(self.longest_wait_s, self.first_wait_s * 2.0**attempt))


class Caller:
    """Sends calls to servers by name."""

    def __init__(
        self,
        directory: Directory,
        transport: Transport,
        *,
        budget: RetryBudget | None = None,
        clock: Callable[[], float] = clock.rollout_time,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
        rng: random.Random | None = None,
        token: str | None = None,
    ) -> None:
        """`token`: the run's, which `call` sends."""
        self.token = token
        self._own_headers = {} if token is None else {TOKEN_HEADER: token}
        self._headers_with_body = {"content-type": "application/json", **self._own_headers}
        self.directory = directory
        self.transport = transport
        self._breakers = find_breakers(transport)
        self._out = self._breakers.by_url
        self._budget = budget or RetryBudget()
        self._clock = clock
        self._sleep = sleep
        self._rng = rng or _new_rng()

    def narrow_to_urls(self, urls: Iterable[str], budget: RetryBudget | None = None) -> Caller:
        """Return a caller for which the base URLs `urls` are server names: it calls one replica and no other."""
        return Caller(
            Directory({url: [url] for url in urls}), self.transport, budget=budget, token=self.token
        )

    def stop_following(self) -> None:
        """End what keeps the directory current, when no more calls follow. Here nothing does: no server moves."""

    async def call(
        self,
        server: str,
        method: str,
        path: str,
        *,
        body: bytes | None = None,
        headers: dict[str, str] | None = None,
        session: str | None = None,
        deadline: Deadline | None = None,
        propagated: Deadline | None = None,
        repeatable: bool = False,
        fails_over: bool = False,
    ) -> Reply:
        """Send a call with these fields, the run's token, and the content type of a `body`, which is JSON.

        `deadline` bounds it; `propagated` is sent to the peer.
        """
        own = self._own_headers if body is None else self._headers_with_body
        call = Call(
            method,
            path,
            body,
            {**own, **headers} if headers else dict(own),
            session,
            repeatable,
            fails_over,
            propagated,
        )
        return await self.send(server, call, deadline)

    async def get(self, server: str, path: str, seconds: float) -> Reply:
        """Return the reply to a `GET`, which may be repeated within `seconds`. Raises as `send` does."""
        return await self.call(server, "GET", path, deadline=Deadline.after(seconds), repeatable=True)

    def send(self, server: str, call: Call, deadline: Deadline | None = None) -> Coroutine[Any, Any, Reply]:
        """Return the peer's reply, whatever its status, redirects excepted.

        Raises `TransportError`, `DeadlineError` or `ConfigError`.
        """
        url = self.directory.choose(server, call.session, self._is_out if self._out else None)
        if deadline is None:
            return self._try(server, url, call)
        return self._try_until(deadline, server, url, call)

    async def _try_until(self, deadline: Deadline, server: str, url: str, call: Call) -> Reply:
        timer = Timer(max(deadline.seconds_left(self._clock), 0.0))
        try:
            return await self._try(server, url, call)
        except asyncio.CancelledError as error:
            if not timer.takes_back_cancellation():
                raise
            breaker = self._out.get(url)
            cause = f" ({breaker.cause})" if breaker is not None else ""
            raise DeadlineError(
                f"the deadline passed while waiting for {call.method} {_strip(call.path)} of `{server}` ({url}){cause}",
                code="rollout_deadline",
                retryable=True,
                remedy="Raise +rollout_timeout_s if rollouts need longer.",
                peer=server,
            ) from error
        finally:
            timer.stop()

    async def _try(self, server: str, url: str, call: Call) -> Reply:
        attempt = 0
        failing_since: float | None = None
        while True:
            attempt += 1
            if self._out and (given_up := await self._wait_while_open(url)) is not None:
                return _return_or_raise(given_up, url)
            if call.propagated is not None:
                call.headers[DEADLINE_HEADER] = f"{call.propagated.seconds_left(self._clock):.3f}"
            last: TransportError | Reply
            try:
                last = await self.transport.send(url, call)
                if last.status < 300 and not self._out:  # most calls: no breaker needs to hear of the answer
                    return last
            except TransportError as error:
                last = error
            if _is_unreachable(last):
                self._breakers.note_failure(url, last, self._clock())
            elif isinstance(last, Reply):
                self._breakers.note_answer(url, self._clock())
            if isinstance(last, Reply) and last.status == 429 and not is_our_envelope(last):
                self._breakers.refusals += 1
            if not _may_be_sent_again(last, call.repeatable) or (call.fails_over and _is_undelivered(last)):
                return _return_or_raise(last if call.repeatable else _ambiguous(last, call), url)
            now = self._clock()
            failing_since = now if failing_since is None else failing_since
            wait = self._wait_before_next(url, last, attempt, now - failing_since)
            if wait is None:
                return _return_or_raise(last, url)
            self._log(server, url, call, last, now)
            await self._sleep(wait)

    def _wait_before_next(
        self, url: str, last: TransportError | Reply, attempt: int, spent_s: float
    ) -> float | None:
        """Return the seconds to wait before the next attempt; None if the budget is used up."""
        breaker = self._out.get(url)
        is_unreachable = breaker is not None and breaker.is_open and isinstance(last, TransportError)
        if is_unreachable and self._budget.attempts > 1:
            return 0.0  # the open circuit breaker sets the pace, and only the seconds are bounded
        wait = retry_after_s(last) if isinstance(last, Reply) else None
        if wait is None:
            wait = self._budget.wait(attempt, self._rng)
        is_over = attempt >= self._budget.attempts or spent_s + wait > self._budget.seconds
        return None if is_over else wait

    # --- Circuit breakers ---------------------------------------------------------------------------------------

    def _is_out(self, url: str) -> bool:
        return self._breakers.is_out(url, self._clock())

    async def _wait_while_open(self, url: str) -> TransportError | Reply | None:
        """Wait while the circuit breaker of `url` is open. Returns its last failure once the budget is used up."""
        while (breaker := self._out.get(url)) is not None:
            now = self._clock()
            if breaker.would_admit(now):
                breaker.admit(now)
                return None
            left = self._budget.seconds - (now - breaker.since)
            if left <= 0:
                return breaker.give_up(now)
            await self._sleep(min(left, breaker.seconds_to_wait(now)))
        return None

    def _log(self, server: str, url: str, call: Call, last: TransportError | Reply, now: float) -> None:
        kind = f"HTTP {last.status}" if isinstance(last, Reply) else last.failure.code
        if self._budget.is_logged and self._breakers.should_log(url, kind, now):
            cause = kind if isinstance(last, Reply) else last.failure.message
            log.warning("%s %s of `%s` (%s) failed: %s; retrying [%s]",
                        call.method, _strip(call.path), server, url, cause, call.session or "no session")  # fmt: skip


def _strip(path: str) -> str:
    """Return a path for messages: without its query, which may contain a key."""
    return path.partition("?")[0]


def _may_be_sent_again(last: TransportError | Reply, repeatable: bool) -> bool:
    """Return whether another attempt is safe and may succeed."""
    if isinstance(last, Reply):
        return last.status in RETRIED_STATUSES and repeatable and not is_our_envelope(last)
    return last.failure.retryable and (repeatable or _is_undelivered(last))


def _is_undelivered(last: TransportError | Reply) -> bool:
    return isinstance(last, TransportError) and last.failure.code in UNDELIVERED_CODES


def _is_unreachable(last: TransportError | Reply) -> bool:
    """Return whether the failure concerns the endpoint and not only this call."""
    if isinstance(last, Reply):
        return last.status in UNREACHABLE_STATUSES and not is_our_envelope(last)
    return last.failure.code in UNREACHABLE_CODES


def _ambiguous(last: TransportError | Reply, call: Call) -> TransportError | Reply:
    """Convert a broken connection of a call with side effects to `ambiguous_delivery`."""
    if isinstance(last, Reply) or last.failure.code != DISCONNECTED:
        return last
    what = f"{call.method} {_strip(call.path)}"
    message = f"{last.failure.message}; {what} may have been executed, so it was not retried"
    ambiguous = build_error(replace(last.failure, code=AMBIGUOUS, message=message))
    ambiguous.__cause__ = last
    assert isinstance(ambiguous, TransportError)
    return ambiguous


def _return_or_raise(end: TransportError | Reply, url: str) -> Reply:
    if not isinstance(end, Reply):
        raise end
    if end.status in REDIRECTS:
        target = _strip(end.headers.get("location", "nowhere"))
        raise call_failed(REDIRECTED, url, f"HTTP {end.status} to {target}")
    return end


def is_our_envelope(reply: Reply) -> bool:
    """Return whether a server of this gym wrote the error reply."""
    return b'"retryable":' in reply.body and read_reply_failure(reply) is not None


def read_reply_failure(reply: Received) -> Failure | None:
    """Return the failure in an error envelope of the gym; None for other replies."""
    return Failure.from_wire(object_in(reply.body), status=reply.status)


def retry_after_s(reply: Reply) -> float | None:
    """Return the seconds of the `Retry-After` header (a number or an HTTP date), or None."""
    value = reply.headers.get("retry-after")
    if value is None:
        return None
    try:
        return max(0.0, float(value))
    except ValueError:
        pass
    try:
        return max(0.0, parsedate_to_datetime(value).timestamp() - clock.wall_clock())
    except ValueError:
        return None


def _new_rng() -> random.Random:
    return clock.rng()
