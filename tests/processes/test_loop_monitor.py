"""The loop monitor names the handler that blocks the event loop, and no other."""

from __future__ import annotations

import asyncio
import re
import time
from functools import cache

import pytest
from fastapi import FastAPI

from nemo_gym.base_resources_server import BaseVerifyRequest, BaseVerifyResponse, SimpleResourcesServer
from nemo_gym.testing.serving import serving
from nemo_gym.transport import Call
from nemo_gym.transport.pools import process_transport

HOLDS_FOR_S = 1.0
HOPELESS = re.compile("(a|a)*b")


class Environment(SimpleResourcesServer):
    def setup_webserver(self) -> FastAPI:
        app = super().setup_webserver()
        for tool in (self.waits, self.sleeps_on_the_loop, self.counts, self.backtracks):
            app.post(f"/{tool.__name__}")(tool)
        return app

    async def verify(self, body: BaseVerifyRequest) -> BaseVerifyResponse:
        raise NotImplementedError

    async def waits(self) -> None:
        await asyncio.sleep(HOLDS_FOR_S)

    async def sleeps_on_the_loop(self) -> None:
        time.sleep(HOLDS_FOR_S)  # noqa: ASYNC251 - the block that the monitor must find

    async def counts(self) -> None:
        count_for(HOLDS_FOR_S)

    async def backtracks(self) -> None:
        """Hold the GIL until done."""
        HOPELESS.fullmatch(long_text())


def count_for(seconds: float) -> None:
    until = time.thread_time() + seconds
    while time.thread_time() < until:
        pass


@cache
def long_text() -> str:
    """A text that keeps the regular expression busy for `HOLDS_FOR_S` on this machine."""
    text = "a" * 16
    took_s = 0.0
    while took_s < HOLDS_FOR_S:
        text += "a"
        began = time.thread_time()
        HOPELESS.fullmatch(text)
        took_s = time.thread_time() - began
    return text


async def call(tool: str, *, beside: str | None = "waits") -> Environment:
    """Call `beside` and then `tool` on a monitored environment, and return it."""
    long_text()
    environment = Environment.standalone(name="env")
    assert isinstance(environment, Environment)
    async with serving(environment) as url:
        with environment.monitored_loop():
            calls = []
            for name in filter(None, (beside, tool)):
                await asyncio.sleep(0.2)  # the monitor takes its first beat
                calls.append(asyncio.create_task(process_transport().send(url, Call("POST", f"/{name}"))))
            assert all(reply.ok for reply in await asyncio.gather(*calls))
    await process_transport().close()
    return environment


@pytest.mark.parametrize(
    ("tool", "place"),
    [("sleeps_on_the_loop", "sleeps_on_the_loop"), ("counts", "count_for"), ("backtracks", "")],
)
async def test_a_blocking_handler_is_named_with_its_location(
    tool: str, place: str, caplog: pytest.LogCaptureFixture
) -> None:
    monitor = (await call(tool))._loop_monitor
    assert monitor is not None
    # A stalled machine may block this test's own task too, so only handlers are compared.
    assert [name for name in monitor.held if name.startswith("Environment.")] == [f"Environment.{tool}"]
    held = monitor.held[f"Environment.{tool}"]
    assert 0.1 <= held.longest_s < 10.0
    (message,) = [
        message
        for message in caplog.messages
        if message.startswith(f"Environment.{tool} of `env` held the event loop for ")
    ]
    assert place in message
    assert monitor.to_wire()[f"Environment.{tool}"] == {
        "times": held.times,
        "longest_s": round(held.longest_s, 3),
    }


async def test_a_handler_that_holds_the_gil_of_an_idle_server_is_named() -> None:
    """On a starved machine the only sample may be of the moment before the handler, so there are several calls."""
    named: set[str] = set()
    for _ in range(5):
        monitor = (await call("backtracks", beside=None))._loop_monitor
        assert monitor is not None
        named |= monitor.held.keys()
        if "Environment.backtracks" in named:
            return
    pytest.fail(f"only these are named: {named}")


async def test_a_handler_that_awaits_is_not_named() -> None:
    monitor = (await call("waits"))._loop_monitor
    assert monitor is not None
    assert "Environment.waits" not in monitor.held
