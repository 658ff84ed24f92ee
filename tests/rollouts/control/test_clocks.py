"""The clocks of a paused run, in this process and in those of its servers."""

from __future__ import annotations

import asyncio
from typing import Any

from nemo_gym.clock import pause
from nemo_gym.rollouts.control.clocks import Clocks
from nemo_gym.rollouts.control.verbs import Phase
from nemo_gym.transport import Caller, Directory, HttpTransport


async def test_a_pause_begins_and_ends_in_this_process() -> None:
    clocks = Clocks(None)
    await clocks.set_phase(Phase.PAUSED)
    await clocks.set_phase(Phase.PAUSED)
    assert pause.since is not None
    await clocks.set_phase(Phase.RUNNING)
    await clocks.set_phase(Phase.ENDED)
    assert pause.since is None


async def test_servers_are_told_with_the_runs_token_and_one_that_is_gone_is_left_out() -> None:
    told: list[dict[str, Any]] = []

    async def listen(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode().lower()
        length = int(head.partition("content-length: ")[2].partition("\r\n")[0])
        told.append({"head": head, "body": (await reader.readexactly(length)).decode()})
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}")
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(listen, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    directory = Directory(
        {"model": [f"http://127.0.0.1:{port}", "http://127.0.0.1:1"], "other": ["http://x"]}
    )
    transport = HttpTransport()
    clocks = Clocks(Caller(directory, transport, token="the token"), ["model", "not started"])
    await clocks.set_phase(Phase.PAUSED)
    await clocks.set_phase(Phase.RUNNING)
    await transport.close()
    server.close()
    assert ["post /_ng/clock" in each["head"] and "the token" in each["head"] for each in told] == [
        True,
        True,
    ]
    assert ['"seconds":15.0' in told[0]["body"], '"seconds":0.0' in told[1]["body"]] == [True, True]
