"""A single call over its own connection, with a timeout: for discovery, health checks and other rare calls."""

from __future__ import annotations

import asyncio

from nemo_gym.processes.event_loop_thread import run_blocking
from nemo_gym.tls import context_trusting
from nemo_gym.transport._errors import call_failed
from nemo_gym.transport._plain_http import PlainHttp
from nemo_gym.transport.calls import Call, Reply


async def call_once(base_url: str, call: Call, *, timeout_s: float, ca: str | None = None) -> Reply:
    """Return the reply of the server at `base_url`: `http://`, or with `ca` as for `HttpTransport` also `https://`.

    Raises `TransportError`; its code is `answer_timeout` after `timeout_s` seconds without a complete reply.
    """
    client = PlainHttp(tls=context_trusting(ca))
    try:
        async with asyncio.timeout(timeout_s):
            return await client.send(base_url, call)
    except TimeoutError as error:
        raise call_failed("answer_timeout", base_url, f"within {timeout_s:g} s") from error
    finally:
        await client.close()


def call_once_blocking(base_url: str, call: Call, *, timeout_s: float, ca: str | None = None) -> Reply:
    """Do the same as `call_once` from synchronous code."""
    return run_blocking("single call", call_once(base_url, call, timeout_s=timeout_s, ca=ca))
