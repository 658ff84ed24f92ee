"""An application that is served within a host."""

from __future__ import annotations

import urllib.request
from typing import Any

import pytest

from nemo_gym.sources.foreign.host.app_server import start_server
from nemo_gym.sources.foreign.host.faults import HostError


async def greet(scope: Any, receive: Any, send: Any) -> None:
    if scope["type"] == "lifespan":
        await receive()
        await send({"type": "lifespan.startup.complete"})
        await receive()
        return
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": b"hello"})


async def fail(scope: Any, receive: Any, send: Any) -> None:
    await receive()
    await send({"type": "lifespan.startup.failed", "message": "no data"})


def test_an_application_answers_on_loopback() -> None:
    url = start_server(greet)
    assert url.startswith("http://127.0.0.1:")
    with urllib.request.urlopen(url, timeout=10) as answer:
        assert answer.read() == b"hello"


def test_an_application_that_does_not_start_is_told() -> None:
    with pytest.raises(HostError, match="did not start"):
        start_server(fail)
