"""Apps on loopback ports, for tests whose clients speak real HTTP.

    async with serving(app) as url: ...                      # in the test's own event loop

    with LoopbackServers() as servers:                       # in a thread, for clients that block
        engine = servers.enter(MockEngine())
        url = servers.serve(VLLMModel.standalone(base_url=engine.base_url, api_key="none", model="mock"))
        OpenAI(base_url=f"{url}/v1", api_key="none").responses.create(model="mock", input="hello")

The port is bound before the URL is returned. Requests that still run at the end are cut off.
"""

from __future__ import annotations

import ssl
from collections.abc import AsyncIterator, Coroutine
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from typing import Any, Self, TypeVar

from nemo_gym.processes.event_loop_thread import EventLoopThread
from nemo_gym.serving.base import SimpleServer
from nemo_gym.serving.listening import listening_on_loopback
from nemo_gym.transport.pools import close_transports

__all__ = ["LoopbackServers"]

_T = TypeVar("_T")


@asynccontextmanager
async def serving(app: Any, tls: ssl.SSLContext | None = None) -> AsyncIterator[str]:
    """Serve an ASGI app, or a server of the gym, in the running event loop, and yield its URL: `https` with `tls`."""
    if not isinstance(app, SimpleServer):
        async with listening_on_loopback(app, tls) as url:
            yield url
        return
    served = app.finish_app()
    async with app.alive(), listening_on_loopback(served, tls) as url:
        yield url


class LoopbackServers:
    """Servers in a thread with an event loop. They stop with the `with` block."""

    def __init__(self) -> None:
        self._thread = EventLoopThread("loopback servers")
        self._entered = AsyncExitStack()

    def serve(self, app: Any) -> str:
        """Serve an ASGI app, or a server of the gym, and return its URL."""
        return self.enter(serving(app))

    def enter(self, manager: AbstractAsyncContextManager[_T]) -> _T:
        """Enter `manager` in the thread. It exits when the servers stop."""
        return self.run(self._entered.enter_async_context(manager))

    def run(self, work: Coroutine[Any, Any, _T]) -> _T:
        """Run `work` in the thread. Return its result or raise its exception."""
        return self._thread.run(work)

    def __enter__(self) -> Self:
        self._thread.__enter__()
        return self

    def __exit__(self, *_: object) -> None:
        self.run(self._stop())
        self._thread.__exit__()

    async def _stop(self) -> None:
        await self._entered.aclose()
        await close_transports()
