"""A client that disconnects ends its request."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from tests.mock_engine.wire import USER, running


@pytest.mark.parametrize("fields", [{}, {"stream": True}])
async def test_a_client_that_leaves_while_waiting_is_noticed_within_a_second(fields: dict[str, Any]) -> None:
    async with running(latency_s=60) as wire:
        waiting = asyncio.ensure_future(wire.chat(**fields))
        await wire.in_flight(1)
        waiting.cancel()
        await wire.in_flight(0)
        assert wire.engine.stats.disconnects == 1
        assert wire.engine.stats.completion_tokens == 0


async def test_a_client_that_leaves_while_its_request_waits_for_a_slot_is_noticed() -> None:
    async with running(latency_s=60, max_num_seqs=1) as wire:
        working, waiting = (asyncio.ensure_future(wire.chat()) for _ in range(2))
        await wire.in_flight(2)
        waiting.cancel()
        await wire.in_flight(1)
        assert wire.engine.stats.disconnects == 1
        working.cancel()
        await wire.in_flight(0)


async def test_a_client_that_leaves_amid_a_stream_is_noticed() -> None:
    async with running(tokens=1_000, tokens_per_s=50) as wire:
        url = f"{wire.engine.base_url}/chat/completions"
        async with wire.session.post(url, json={"messages": [USER], "stream": True}) as answer:
            await answer.content.readline()
        await wire.in_flight(0)
        assert wire.engine.stats.disconnects == 1


async def test_a_hanging_request_is_never_answered_but_its_end_is_noticed() -> None:
    async with running(faults=[{"do": "hang"}]) as wire:
        waiting = asyncio.ensure_future(wire.chat())
        await wire.in_flight(1)
        done, _ = await asyncio.wait([waiting], timeout=0.1)
        assert not done
        waiting.cancel()
        await wire.in_flight(0)
        assert wire.engine.stats.disconnects == 1


@pytest.mark.parametrize(("fault", "executed"), [("reset_before", False), ("reset_after", True)])
async def test_a_reset_cuts_the_connection_before_or_after_execution(fault: str, executed: bool) -> None:
    async with running(latency_s=0.05, faults=[{"do": fault, "times": 1}]) as wire:
        loop = asyncio.get_running_loop()
        started = loop.time()
        reader, writer = await asyncio.open_connection(
            *wire.engine.root_url.removeprefix("http://").split(":")
        )
        body = json.dumps({"messages": [USER]}).encode()
        head = b"POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\ncontent-length: %d\r\n\r\n" % len(body)
        writer.write(head + body)
        with pytest.raises(ConnectionResetError):
            await reader.read()
        writer.close()
        assert (loop.time() - started >= 0.05) is executed
        assert (await wire.chat())[0] == 200
