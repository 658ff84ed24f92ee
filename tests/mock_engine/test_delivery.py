"""Answers at a given pace, and with faults of delivery."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import aiohttp
import pytest

from tests.mock_engine.wire import USER, raw, running


async def test_tokens_come_at_the_pace_that_was_set() -> None:
    loop = asyncio.get_running_loop()
    async with running(tokens=40, tokens_per_s=200) as wire:
        for fields in ({}, {"stream": True}):
            started = loop.time()
            url = f"{wire.engine.base_url}/chat/completions"
            async with wire.session.post(url, json={"messages": [USER], **fields}) as answer:
                await answer.read()
            assert loop.time() - started >= 0.19


async def test_a_reset_amid_a_stream_comes_after_its_first_events() -> None:
    async with running(faults=[{"do": "reset_after"}]) as wire:
        url = f"{wire.engine.base_url}/chat/completions"
        async with wire.session.post(url, json={"messages": [USER], "stream": True}) as answer:
            received = await answer.content.readline()
            with pytest.raises(aiohttp.ClientError):
                received += await answer.content.read()
    assert received.startswith(b"data: {")
    assert b"[DONE]" not in received


async def test_a_short_body_announces_more_than_it_sends() -> None:
    async with running(faults=[{"do": "short_body"}]) as wire:
        with pytest.raises(aiohttp.ClientPayloadError):
            await raw(wire)


async def test_a_short_stream_ends_without_its_end() -> None:
    async with running(faults=[{"do": "short_body"}]) as wire:
        with pytest.raises(aiohttp.ClientPayloadError):
            await raw(wire, stream=True)


@pytest.mark.parametrize("fields", [{}, {"stream": True}])
async def test_a_dripped_body_arrives_whole_and_late(fields: dict[str, Any]) -> None:
    loop = asyncio.get_running_loop()
    async with running(faults=[{"do": "drip", "over_s": 0.2, "nth": 2}]) as wire:
        at_once = await raw(wire, seed=1, **fields)
        started = loop.time()
        dripped = await raw(wire, seed=1, **fields)
    assert loop.time() - started >= 0.2
    assert len(dripped) == len(at_once)


async def test_broken_json_has_the_right_length_and_does_not_parse() -> None:
    async with running(faults=[{"do": "broken_json"}]) as wire:
        body = await raw(wire)
    with pytest.raises(json.JSONDecodeError):
        json.loads(body)


@pytest.mark.parametrize("fields", [{}, {"stream": True}])
async def test_invalid_utf8_is_the_only_thing_wrong_with_the_body(fields: dict[str, Any]) -> None:
    async with running(faults=[{"do": "invalid_utf8"}]) as wire:
        body = await raw(wire, **fields)
    with pytest.raises(UnicodeDecodeError):
        body.decode()
    if not fields:
        assert json.loads(body.decode(errors="replace"))["choices"]
