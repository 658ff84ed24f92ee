"""`max_in_flight`: requests above the limit wait, those of an admitted session and the closing ones do not."""

from __future__ import annotations

import asyncio
from typing import Any

from nemo_gym.serving.admission import AdmissionLimit
from nemo_gym.transport.context import RequestContext, current_context
from tests.waiting import until


class Handler:
    """Handles requests until `finish` is set."""

    def __init__(self, most: int) -> None:
        self.finish = asyncio.Event()
        self.handled: list[str] = []
        self._limit = AdmissionLimit(most)

    async def _handle(self, scope: Any, receive: Any, send: Any) -> None:
        self.handled.append(scope["path"])
        await self.finish.wait()

    def request(self, session: str, path: str) -> asyncio.Task[None]:
        async def call() -> None:
            current_context.set(RequestContext(session))
            await self._limit(self._handle, {"path": path}, None, None)  # type: ignore[arg-type]

        return asyncio.create_task(call())


async def test_requests_above_the_limit_wait_in_order() -> None:
    handler = Handler(2)
    calls = [handler.request(str(n), f"/{n}") for n in range(4)]
    await until(lambda: len(handler.handled) == 2)
    for _ in range(5):
        await asyncio.sleep(0)
    assert handler.handled == ["/0", "/1"]
    handler.finish.set()
    await asyncio.gather(*calls)
    assert handler.handled == ["/0", "/1", "/2", "/3"]


async def test_a_session_needs_one_place_and_closing_and_probes_need_none() -> None:
    handler = Handler(1)
    paths = (("a", "/run"), ("a", "/v1/responses"), ("b", "/close_session"), ("c", "/_ng/stats"), ("d", "/"))
    calls = [handler.request(*each) for each in paths]
    await until(lambda: len(handler.handled) == len(paths))
    handler.finish.set()
    await asyncio.gather(*calls)


async def test_a_cancelled_request_gives_its_place_back() -> None:
    handler = Handler(1)
    first, waiting = handler.request("a", "/a"), handler.request("b", "/b")
    await until(lambda: handler.handled == ["/a"])
    waiting.cancel()
    first.cancel()
    await asyncio.wait([first, waiting])
    later = handler.request("c", "/c")
    await until(lambda: handler.handled == ["/a", "/c"])
    handler.finish.set()
    await later
