"""The transports of this process, whose connections all callers in an event loop share."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping
from typing import Any

from nemo_gym.clock import rollout_time
from nemo_gym.tls import read_ca
from nemo_gym.transport.circuit_breaker import find_breakers
from nemo_gym.transport.http import HttpTransport

_transports: dict[tuple[asyncio.AbstractEventLoop, str | None], HttpTransport] = {}
"""Event loop, and the `ca` that is trusted → transport. A closed event loop goes with the next new transport."""


def process_transport(ca: str | None = None) -> HttpTransport:
    """Return the pooled HTTP transport of the running event loop. `ca`: as for `HttpTransport`."""
    loop = asyncio.get_running_loop()
    transport = _transports.get((loop, ca))
    if transport is None:
        for ended in [key for key in _transports if key[0].is_closed()]:
            del _transports[ended]
        transport = _transports[loop, ca] = HttpTransport(ca=ca)
    return transport


def transport_to(config: Mapping[str, Any]) -> HttpTransport:
    """Return the pooled transport of the running event loop to the servers of a gym."""
    return process_transport(read_ca(config))


async def close_transports() -> None:
    """Close all transports of the running event loop."""
    for transport in list(_own()):
        await transport.close()


def open_circuits() -> list[dict[str, Any]]:
    """Return the endpoints that the running event loop cannot reach, as JSON."""
    now = rollout_time()
    return [circuit for transport in _own() for circuit in find_breakers(transport).to_wire(now)]


def rate_limited_calls() -> int:
    """Return how many calls of the running event loop were answered with HTTP 429."""
    return sum(find_breakers(transport).refusals for transport in _own())


def _own() -> Iterator[HttpTransport]:
    loop = asyncio.get_running_loop()
    return (transport for (owner, _), transport in _transports.items() if owner is loop)
