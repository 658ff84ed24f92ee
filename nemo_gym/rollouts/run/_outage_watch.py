"""Logs the outages that a run is waiting for.

Calls to an unreachable endpoint wait inside the calling server (`nemo_gym.transport.circuit_breaker`). During a run its
servers are polled twice a second for open circuit breakers and for the number of rejected calls.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from contextlib import asynccontextmanager
from typing import Any

from nemo_gym.failures import GymError
from nemo_gym.json_objects import object_in
from nemo_gym.transport import Caller, Deadline, RetryBudget

log = logging.getLogger(__name__)

EVERY_S = 0.5
_ANSWER_WITHIN_S = 2.0


@asynccontextmanager
async def log_outages(
    caller: Caller,
    servers: Iterable[str],
    *,
    on_refused: Callable[[], None] = lambda: None,
    every_s: float = EVERY_S,
) -> AsyncIterator[None]:
    """While the block runs, log the endpoints that `servers` can't reach, and their recovery.

    `on_refused` is called when an overloaded endpoint has rejected calls of a server.
    """
    asking = Caller(
        caller.directory, caller.transport, budget=RetryBudget(attempts=1, seconds=0.0), token=caller.token
    )
    watches = [asyncio.create_task(_watch(asking, server, every_s, on_refused)) for server in sorted(servers)]
    try:
        yield
    finally:
        for watch in watches:
            watch.cancel()
        await asyncio.gather(*watches, return_exceptions=True)


async def _watch(caller: Caller, server: str, every_s: float, on_refused: Callable[[], None]) -> None:
    logged: dict[str, str] = {}
    refusals: int | None = None
    while True:
        await asyncio.sleep(every_s)
        with contextlib.suppress(GymError):  # a restarting server does not answer
            stats = await _stats_of(caller, server)
            seen = {str(outage["peer"]): str(outage["cause"]) for outage in stats.get("outages") or ()}
            for peer in logged.keys() - seen.keys():
                log.warning("`%s` reaches %s again", server, peer)
            for peer in seen.keys() - logged.keys():
                log.warning("`%s` is waiting: %s", server, seen[peer])
            logged = seen
            before, refusals = refusals, int(stats.get("refusals") or 0)
            if before is not None and refusals > before:
                on_refused()


async def _stats_of(caller: Caller, server: str) -> Mapping[str, Any]:
    """Return the counters of `server`; empty if it has no stats route."""
    reply = await caller.call(
        server, "GET", "/_ng/stats", deadline=Deadline.after(_ANSWER_WITHIN_S), repeatable=True
    )
    return (object_in(reply.body) if reply.ok else None) or {}
