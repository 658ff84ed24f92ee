"""Says at once which engine a run is waiting for, instead of a progress line that stands still.

Calls to an endpoint that is out wait inside the server that makes them (`nemo_gym.transport.circuit_breaker`). While a
run is under way its servers are asked twice a second what they can't reach, and how many of their calls were turned
away.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from contextlib import asynccontextmanager
from typing import Any

import orjson

from nemo_gym.failures import GymError
from nemo_gym.transport import Caller, Deadline, RetryBudget

log = logging.getLogger(__name__)

EVERY_S = 0.5
_ANSWER_WITHIN_S = 2.0


@asynccontextmanager
async def outages_told(
    caller: Caller,
    servers: Iterable[str],
    *,
    on_refused: Callable[[], None] | None = None,
    every_s: float = EVERY_S,
) -> AsyncIterator[None]:
    """Log, while the block runs, what `servers` can't reach and when they reach it again.

    `on_refused` is called when an endpoint turned calls of theirs away because it had too many.
    """
    asking = Caller(caller.directory, caller.transport, budget=RetryBudget(attempts=1, seconds=0.0))
    watches = [
        asyncio.create_task(_watch(asking, server, every_s, on_refused or _ignore))
        for server in sorted(servers)
    ]
    try:
        yield
    finally:
        for watch in watches:
            watch.cancel()
        await asyncio.gather(*watches, return_exceptions=True)


async def _watch(caller: Caller, server: str, every_s: float, on_refused: Callable[[], None]) -> None:
    told: dict[str, str] = {}
    refusals: int | None = None
    while True:
        await asyncio.sleep(every_s)
        with contextlib.suppress(GymError):  # a server that is being started again has nothing to say
            stats = await _stats_of(caller, server)
            seen = {str(outage["peer"]): str(outage["cause"]) for outage in stats.get("outages") or ()}
            for peer in told.keys() - seen.keys():
                log.warning("`%s` reaches %s again", server, peer)
            for peer in seen.keys() - told.keys():
                log.warning("`%s` waits: %s", server, seen[peer])
            told = seen
            before, refusals = refusals, int(stats.get("refusals") or 0)
            if before is not None and refusals > before:
                on_refused()


async def _stats_of(caller: Caller, server: str) -> Mapping[str, Any]:
    """The counters of `server`; empty where it is not one of ours."""
    reply = await caller.call(
        server, "GET", "/_ng/stats", deadline=Deadline.after(_ANSWER_WITHIN_S), repeatable=True
    )
    try:
        stats: Any = reply.json() if reply.ok else {}
    except orjson.JSONDecodeError:
        return {}
    return stats if isinstance(stats, Mapping) else {}


def _ignore() -> None:
    """The default of `on_refused`."""
