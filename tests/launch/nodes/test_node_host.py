"""A node host with a launcher that this test plays."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from nemo_gym.launch.nodes.channel import Channel
from nemo_gym.launch.nodes.digest import digest_of
from nemo_gym.launch.nodes.gpus import usable_gpus
from nemo_gym.launch.nodes.node_host import NodeDocument
from nemo_gym.launch.nodes.places import Moved
from nemo_gym.processes.cpus import usable_cpus
from tests.waiting import TIMEOUT_S

TOKEN = "a-token-of-this-run"


@asynccontextmanager
async def a_node_host(
    folder: Path, **changes: Any
) -> AsyncIterator[tuple[asyncio.subprocess.Process, Channel]]:
    connected: asyncio.Future[Channel] = asyncio.get_running_loop().create_future()

    async def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        connected.set_result(await Channel.open(reader, writer, TOKEN, "head"))

    server = await asyncio.start_server(accept, "127.0.0.1", 0)
    defaults: dict[str, Any] = {
        "host": "127.0.0.1",
        "port": server.sockets[0].getsockname()[1],
        "node": "a",
        "token": TOKEN,
        "cookie_key": "cookie",
        "config": {"head_server": {}},
        "code": [str(folder)],
        "folder": str(folder),
    }
    command = [sys.executable, "-P", "-m", "nemo_gym.launch.nodes.node_host"]
    process = await asyncio.create_subprocess_exec(*command, cwd=folder, stdin=asyncio.subprocess.PIPE)
    assert process.stdin is not None
    process.stdin.write(NodeDocument(**{**defaults, **changes}).to_bytes())
    process.stdin.close()
    try:
        async with asyncio.timeout(TIMEOUT_S):
            channel = await connected
        yield process, channel
        channel.close()
        async with asyncio.timeout(TIMEOUT_S):
            await process.wait()
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
        server.close()


async def until_kind(channel: Channel, kind: str) -> dict[str, Any]:
    """Return the next message of a kind, and answer beats meanwhile."""
    async with asyncio.timeout(TIMEOUT_S):
        while (message := await channel.receive())["kind"] != kind:
            if message["kind"] == "beat":
                channel.send({"kind": "beat", "sent": message["sent"]})
    return message


async def test_it_describes_its_machine_and_ends_with_the_connection(tmp_path: Path) -> None:
    async with a_node_host(tmp_path) as (process, channel):
        hello = await until_kind(channel, "hello")
        assert (hello["node"], hello["pid"]) == ("a", process.pid)
        assert hello["cpus"] == usable_cpus()
        assert hello["gpus"] == usable_gpus(os.environ)
        assert list(hello["code"]) == [str(tmp_path)]
    assert process.returncode == 0


async def test_code_is_compared_in_the_copy_that_it_was_started_in(tmp_path: Path) -> None:
    (tmp_path / "env").mkdir()
    (tmp_path / "env" / "app.py").write_text("x = 1\n")
    moved = Moved("/launcher/gym", "/launcher/home")
    async with a_node_host(tmp_path, moved=moved, code=["/launcher/home/env", "/other"]) as (_, channel):
        hello = await until_kind(channel, "hello")
        assert hello["code"] == {"/launcher/home/env": digest_of(tmp_path / "env"), "/other": None}


async def test_it_ends_when_its_beats_are_not_answered(tmp_path: Path) -> None:
    async with a_node_host(tmp_path, lease_s=1.5) as (process, _):
        async with asyncio.timeout(TIMEOUT_S):
            await process.wait()


async def test_a_held_socket_proves_itself_once_and_then_waits_for_a_server(tmp_path: Path) -> None:
    async with a_node_host(tmp_path) as (_, channel):
        request = {"kind": "hold", "number": 1, "socket": 1, "server": "env", "host": None, "port": None}
        channel.send(request)
        held = (await until_kind(channel, "reply"))["value"]
        reader, writer = await asyncio.open_connection("127.0.0.1", held["port"])
        assert await reader.read() == held["proof"].encode()
        writer.close()
        _, waiting = await asyncio.open_connection("127.0.0.1", held["port"])
        waiting.close()
        channel.send({**request, "number": 2, "port": held["port"]})
        refused = await until_kind(channel, "reply")
        assert refused["failure"]["error"]["code"] == "port_taken"
