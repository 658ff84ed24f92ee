"""The launcher's control port, with the head server's half of it."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import Mapping
from typing import Any

import pytest

from nemo_gym.config.problems import ConfigErrors, Problem
from nemo_gym.failures import ConfigError, GymError, TransportError
from nemo_gym.head._launcher import ask_launcher
from nemo_gym.launch.control import ControlPort
from nemo_gym.launch.errors import LaunchError

TOKEN = "the-run-token"


async def handle(request: Mapping[str, Any]) -> Mapping[str, Any]:
    match request["servers"]:
        case "wrong":
            raise ConfigErrors([Problem(None, "no such server.", "Name another.")])
        case "broken":
            raise LaunchError("it died", code="died_at_start")
        case "disk full":
            raise OSError("no space left")
        case "slow":
            await asyncio.get_running_loop().create_future()
    return {"echo": request["servers"]}


async def test_a_request_is_answered_with_its_value_or_its_failure() -> None:
    port = await ControlPort.open(TOKEN, handle)
    assert await ask_launcher(port.address, TOKEN, {"servers": "env"}) == {"echo": "env"}
    for servers, status, message in (
        ("wrong", 409, "no such server"),
        ("broken", 500, "it died"),
        ("disk full", 500, "the launcher failed: OSError.'no space left'"),
    ):
        with pytest.raises(ConfigError, match=message) as caught:
            await ask_launcher(port.address, TOKEN, {"servers": servers})
        assert caught.value.failure.http_status == status
    await port.close()


@pytest.mark.parametrize(
    "line", [b"GET / HTTP/1.1\r\n", b"[]\n", b"{}\n", json.dumps({"token": "another"}).encode() + b"\n", b""]
)
async def test_a_peer_without_the_token_gets_no_answer(line: bytes) -> None:
    port = await ControlPort.open(TOKEN, handle)
    host, _, number = port.address.rpartition(":")
    assert host == "127.0.0.1"
    reader, writer = await asyncio.open_connection(host, int(number))
    writer.write(line)
    writer.write_eof()
    with contextlib.suppress(ConnectionResetError):
        assert await reader.read() == b""
    writer.close()
    await port.close()


async def test_the_end_of_the_gym_ends_its_requests() -> None:
    port = await ControlPort.open(TOKEN, handle)
    asking = asyncio.create_task(ask_launcher(port.address, TOKEN, {"servers": "slow"}))
    while not port._tasks:  # noqa: ASYNC110 - the connection has no event of its own
        await asyncio.sleep(0)
    await port.close()
    with pytest.raises(TransportError, match="does not answer"):
        await asking
    with pytest.raises(GymError, match="does not answer"):
        await ask_launcher(port.address, TOKEN, {"servers": "env"})
