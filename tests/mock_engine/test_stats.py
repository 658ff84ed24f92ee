"""The engine's counters."""

from __future__ import annotations

import asyncio
from urllib.parse import urlsplit

from tests.mock_engine.wire import running
from tests.waiting import until


async def test_what_was_seen_is_counted_until_it_is_reset() -> None:
    async with running(policy="echo") as wire:
        _, answer = await wire.chat()
        await wire.chat(tools=[])
        _, stats = await wire.get("/stats")
        assert stats["requests"] == {"/v1/chat/completions": 2}
        assert stats["statuses"] == {"200": 1, "400": 1}
        assert (stats["in_flight"], stats["peak_in_flight"], stats["connections_opened"]) == (0, 1, 1)
        assert stats["completion_tokens"] == answer["usage"]["completion_tokens"]
        _, fresh = await wire.post("/stats/reset")
        assert (fresh["requests_total"], fresh["peak_in_flight"], fresh["connections_opened"]) == (0, 0, 0)
        assert fresh["connections_open"] == 1


async def test_a_connection_that_uvicorn_took_over_is_counted_until_it_ends() -> None:
    async with running() as wire:
        parts = urlsplit(wire.engine.root_url)
        reader, writer = await asyncio.open_connection(parts.hostname, parts.port)
        writer.write(b"HEAD /health HTTP/1.1\r\nHost: engine\r\n\r\n")
        assert (await reader.readline()).startswith(b"HTTP/1.1 405")
        _, stats = await wire.get("/stats")
        assert (stats["connections_open"], stats["connections_opened"]) == (2, 2), "this one, and the wire's"
        writer.close()
        await writer.wait_closed()
        await until(lambda: len(wire.engine.stats.connections) == 1)
        assert wire.engine.stats.connections_opened == 2


async def test_requests_in_flight_are_counted_at_their_peak() -> None:
    async with running(latency_s=0.1) as wire:
        await asyncio.gather(*(wire.chat() for _ in range(5)))
        assert (wire.engine.stats.peak_in_flight, wire.engine.stats.in_flight) == (5, 0)
