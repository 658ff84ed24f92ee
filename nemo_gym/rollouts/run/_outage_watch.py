"""Logs the outages that a run is waiting for.

Calls to an unreachable endpoint wait inside the calling server (`nemo_gym.transport.circuit_breaker`). During a run its
servers are polled twice a second for open circuit breakers and for the number of rejected calls. Every replica of a
server has breakers and numbers of its own, so they are kept apart.
"""

from __future__ import annotations

import asyncio
import itertools
import logging
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from contextlib import asynccontextmanager
from typing import Any

from nemo_gym.failures import GymError
from nemo_gym.json_objects import object_in
from nemo_gym.transport import Caller, RetryBudget

log = logging.getLogger(__name__)

Outages = dict[str, Mapping[str, str]]
"""By server: the endpoints that it cannot reach, with the cause."""
EVERY_S = 0.5
_ANSWER_WITHIN_S = 2.0
_ONCE = RetryBudget(attempts=1, seconds=0.0)
_AT_ONCE = 4
"""Replicas of a server that are polled together. Those of a server with more are polled in turn."""


@asynccontextmanager
async def log_outages(
    caller: Caller,
    servers: Iterable[str],
    *,
    on_refused: Callable[[], None] = lambda: None,
    outages: Outages | None = None,
    every_s: float = EVERY_S,
) -> AsyncIterator[None]:
    """While the block runs, log the endpoints that `servers` can't reach, and their recovery.

    `on_refused` is called when an overloaded endpoint has rejected calls of a server. `outages` are kept up to date.
    """
    present = {} if outages is None else outages
    watches = [
        asyncio.create_task(_watch(caller, server, every_s, on_refused, present))
        for server in sorted(servers)
    ]
    try:
        yield
    finally:
        for watch in watches:
            watch.cancel()
        await asyncio.gather(*watches, return_exceptions=True)


async def _watch(
    caller: Caller, server: str, every_s: float, on_refused: Callable[[], None], present: Outages
) -> None:
    turns = itertools.count()
    known: dict[str, Mapping[str, Any]] = {}
    """Replica → its last counters. Each has outages and rejected calls of its own."""
    while True:
        await asyncio.sleep(every_s)
        try:
            replicas = caller.directory.replicas(server)
        except GymError:  # it is no server of this gym now
            continue
        asked = [replicas[next(turns) % len(replicas)] for _ in range(min(_AT_ONCE, len(replicas)))]
        asking = caller.narrow_to_urls(asked, _ONCE)
        answers = await asyncio.gather(*(_fetch_stats(asking, url) for url in asked))
        fresh = {url: stats for url, stats in zip(asked, answers, strict=True) if stats is not None}
        if any(_refusals(stats) > _refusals(known[url]) for url, stats in fresh.items() if url in known):
            on_refused()
        known = {url: stats for url, stats in {**known, **fresh}.items() if url in replicas}
        seen = _outages(known.values())
        _log_changes(server, present.get(server, {}), seen)
        present[server] = seen


def _refusals(stats: Mapping[str, Any]) -> int:
    return int(stats.get("refusals") or 0)


def _outages(replicas: Iterable[Mapping[str, Any]]) -> dict[str, str]:
    """Return the endpoints that a replica cannot reach: peer → cause."""
    outages = (outage for stats in replicas for outage in stats.get("outages") or ())
    return {str(outage["peer"]): str(outage["cause"]) for outage in outages}


def _log_changes(server: str, before: Mapping[str, str], now: Mapping[str, str]) -> None:
    for peer in before.keys() - now.keys():
        log.warning("`%s` reaches %s again", server, peer)
    for peer in now.keys() - before.keys():
        log.warning("`%s` is waiting: %s", server, now[peer])


async def _fetch_stats(caller: Caller, url: str) -> Mapping[str, Any] | None:
    """Return the counters of a replica: empty if it has no stats route, None if it does not answer."""
    try:
        reply = await caller.get(url, "/_ng/stats", _ANSWER_WITHIN_S)
    except GymError:  # a restarting server does not answer
        return None
    return (object_in(reply.body) if reply.ok else None) or {}
