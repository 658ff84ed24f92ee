"""Test servers: apps on loopback ports, in this event loop and in a thread."""

from __future__ import annotations

import asyncio
import socket
import threading
import urllib.error
import urllib.request
from typing import Any

import pytest

from nemo_gym.testing.serving import LoopbackServers, serving
from nemo_gym.transport import Call, HttpTransport
from tests.engines.upstreams import Canned, vllm_over


async def test_an_app_is_served_in_the_running_loop() -> None:
    transport = HttpTransport()
    async with serving(Canned().add(200, {"ok": True})) as url:
        assert (await transport.send(url, Call("GET", "/"))).json() == {"ok": True}
    await transport.close()


def test_an_app_is_served_until_the_block_is_left() -> None:
    with LoopbackServers() as servers:
        url = servers.serve(Canned().add(200, {"ok": True}))
        with urllib.request.urlopen(url) as answer:
            assert answer.read() == b'{"ok":true}'
    with pytest.raises(urllib.error.URLError):
        urllib.request.urlopen(url)


@pytest.mark.parametrize("listens", [True, False])
def test_a_handler_at_work_does_not_keep_the_servers(listens: bool) -> None:
    async def hang(scope: Any, receive: Any, send: Any) -> None:
        started.set()
        try:
            while listens and (await receive())["type"] != "http.disconnect":
                pass
            if not listens:
                await asyncio.sleep(3600)
        finally:
            ended.set()

    started, ended = threading.Event(), threading.Event()
    with LoopbackServers() as servers, socket.socket() as connection:
        url = servers.serve(hang)
        connection.connect(("127.0.0.1", int(url.rpartition(":")[2])))
        connection.sendall(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
        assert started.wait(30)
        assert not ended.is_set()
    assert ended.is_set()


def test_a_server_of_the_gym_is_started_and_stopped() -> None:
    server = vllm_over(Canned())
    steps: list[str] = []

    class Watched(type(server)):  # type: ignore[misc]
        async def on_start(self) -> None:
            steps.append("start")

        async def on_stop(self) -> None:
            steps.append("stop")

    with LoopbackServers() as servers:
        url = servers.serve(Watched(config=server.config, server_client=server.server_client))
        assert steps == ["start"]
        with urllib.request.urlopen(url) as answer:
            assert answer.status == 200
    assert steps == ["start", "stop"]


def test_what_goes_wrong_in_the_thread_is_raised_here() -> None:
    async def fail() -> None:
        raise KeyError("gone")

    with LoopbackServers() as servers, pytest.raises(KeyError, match="gone"):
        servers.run(fail())
