"""An engine on a socket: its addresses, and its end."""

from __future__ import annotations

import asyncio

import aiohttp
import pytest

from nemo_gym.mock_engine import MockEngine
from tests.mock_engine.wire import running


async def test_a_stop_ends_requests_that_wait() -> None:
    async with running(latency_s=60) as wire:
        waiting = asyncio.ensure_future(wire.chat())
        await wire.in_flight(1)
        async with asyncio.timeout(30):
            await wire.engine.stop()
        with pytest.raises(aiohttp.ClientError):
            await waiting


async def test_an_engine_names_its_urls_and_a_taken_port_is_an_error() -> None:
    async with MockEngine() as engine:
        assert engine.base_url == f"{engine.root_url}/v1"
        port = int(engine.root_url.rpartition(":")[2])
        with pytest.raises(OSError, match="in use"):
            await MockEngine(port=port).start()
    assert MockEngine(host="::1", port=8000).root_url == "http://[::1]:8000"
    await engine.stop()
