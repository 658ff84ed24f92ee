from __future__ import annotations

import asyncio
from pathlib import Path

from nemo_gym.transport.circuit_breaker import find_breakers
from nemo_gym.transport.pools import (
    close_transports,
    open_circuits,
    process_transport,
    rate_limited_calls,
    transport_to,
)
from tests.certificates import Authority


async def test_a_gym_with_tls_has_a_transport_of_its_own(tmp_path: Path) -> None:
    config = {"tls": Authority(tmp_path).issue()}
    assert transport_to(config) is transport_to(config)
    assert transport_to(config) is not process_transport(), "engines are not trusted by the gym's `ca`"
    assert transport_to({}) is process_transport()
    find_breakers(process_transport()).refusals += 1
    find_breakers(transport_to(config)).refusals += 2
    assert rate_limited_calls() == 3
    assert open_circuits() == []
    await close_transports()


def test_every_event_loop_has_its_own() -> None:
    async def transport() -> object:
        return process_transport()

    assert asyncio.run(transport()) is not asyncio.run(transport())


def test_event_loops_at_one_time_keep_theirs() -> None:
    async def transport() -> object:
        return process_transport()

    with asyncio.Runner() as first, asyncio.Runner() as second:
        of_first = first.run(transport())
        assert second.run(transport()) is not of_first
        assert first.run(transport()) is of_first
