"""One call over a connection of its own, bounded in time: for discovery, health checks and other rare calls."""

from __future__ import annotations

import asyncio

from nemo_gym.processes.event_loop_thread import EventLoopThread
from nemo_gym.transport._errors import call_failed
from nemo_gym.transport._plain_http import PlainHttp
from nemo_gym.transport.calls import Call, Reply


async def call_once(base_url: str, call: Call, *, timeout_s: float) -> Reply:
    """The answer of the `http://` server at `base_url`.

    Raises `TransportError`, with the code `answer_timeout` where there is no whole answer within `timeout_s`.
    """
    client = PlainHttp()
    try:
        async with asyncio.timeout(timeout_s):
            return await client.send(base_url, call)
    except TimeoutError as error:
        raise call_failed("answer_timeout", base_url, f"within {timeout_s:g} s") from error
    finally:
        await client.close()


def call_once_blocking(base_url: str, call: Call, *, timeout_s: float) -> Reply:
    """As `call_once`, for code that can't await."""
    with EventLoopThread("single call") as loop:
        return loop.run(call_once(base_url, call, timeout_s=timeout_s))
