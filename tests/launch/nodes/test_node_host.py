"""A node host with a launcher that this test plays."""

from __future__ import annotations

import asyncio
import os
import ssl
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from nemo_gym.launch.nodes.channel import Channel
from nemo_gym.launch.nodes.digest import digest_folder
from nemo_gym.launch.nodes.gpus import usable_gpus
from nemo_gym.launch.nodes.node_host import NodeDocument
from nemo_gym.launch.nodes.places import Moved
from nemo_gym.processes.cpus import usable_cpus
from nemo_gym.tls import context_trusting, server_context
from tests.certificates import Authority
from tests.waiting import TIMEOUT_S

TOKEN = "a-token-of-this-run"
COMMAND = (sys.executable, "-P", "-m", "nemo_gym.launch.nodes.node_host")


@asynccontextmanager
async def a_node_host(
    folder: Path, tls: ssl.SSLContext | None = None, **changes: Any
) -> AsyncIterator[tuple[asyncio.subprocess.Process, Channel]]:
    connected: asyncio.Future[Channel] = asyncio.get_running_loop().create_future()

    async def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        connected.set_result(await Channel.open(reader, writer, TOKEN, "head"))

    server = await asyncio.start_server(accept, "127.0.0.1", 0, ssl=tls)
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
    process = await asyncio.create_subprocess_exec(*COMMAND, cwd=folder, stdin=asyncio.subprocess.PIPE)
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
        assert hello["code"] == {"/launcher/home/env": digest_folder(tmp_path / "env"), "/other": None}


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


@pytest.mark.parametrize(
    ("names", "address"), [(("127.0.0.1", "a"), ""), (("localhost", "a"), "a")], ids=["address", "name"]
)
async def test_with_tls_a_node_is_called_as_its_certificate_says(
    names: tuple[str, ...], address: str, tmp_path: Path
) -> None:
    authority = Authority(tmp_path)
    head = server_context({"tls": authority.issue(to="head")})
    config = {"head_server": {}, "tls": authority.issue(*names, to="node")}
    async with a_node_host(tmp_path, head, config=config, code=[]) as (_, channel):
        assert (await until_kind(channel, "hello"))["address"] == address
        channel.send({"kind": "hold", "number": 1, "socket": 1, "server": "env", "host": None, "port": None})
        held = (await until_kind(channel, "reply"))["value"]
        reader, writer = await asyncio.open_connection(
            "127.0.0.1", held["port"], ssl=context_trusting(str(authority.ca)), server_hostname=names[0]
        )
        assert await reader.read(16) == held["proof"].encode()
        writer.close()


async def test_a_node_host_says_nothing_to_a_launcher_of_another_authority(tmp_path: Path) -> None:
    heard = asyncio.Event()

    async def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        heard.set()
        writer.close()

    stranger = server_context({"tls": Authority(tmp_path / "other").issue()})
    config = {"head_server": {}, "tls": Authority(tmp_path).issue("127.0.0.1")}
    async with await asyncio.start_server(accept, "127.0.0.1", 0, ssl=stranger) as server:
        port = server.sockets[0].getsockname()[1]
        given = NodeDocument("127.0.0.1", port, "a", TOKEN, "cookie", config, [], str(tmp_path))
        process = await asyncio.create_subprocess_exec(
            *COMMAND, stdin=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE
        )
        _, printed = await process.communicate(given.to_bytes())
    assert process.returncode == 1
    assert b"certificate verify failed" in printed
    assert not heard.is_set()


@pytest.mark.parametrize("kept", [b'"token": "a-token', b'"code": [], "folder": "'])
def test_an_error_of_a_cut_document_does_not_show_it(kept: bytes) -> None:
    given = NodeDocument("127.0.0.1", 1, "a", TOKEN, "cookie", {}, [], "/folder").to_bytes()
    with pytest.raises(ValueError, match="Unterminated string") as caught:
        NodeDocument.from_bytes(given[: given.index(kept) + len(kept)])
    assert "token" not in str(caught.value)
    assert "folder" not in str(caught.value)
