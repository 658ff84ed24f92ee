"""A mock engine on a listening socket, in the caller's event loop."""

from __future__ import annotations

import socket
from types import TracebackType
from typing import TYPE_CHECKING, Self

from starlette.types import ASGIApp

from nemo_gym.mock_engine._stats import EngineStats
from nemo_gym.mock_engine._template import ChatTemplate
from nemo_gym.mock_engine.app import EngineApp
from nemo_gym.mock_engine.engine import Engine
from nemo_gym.mock_engine.options import EngineOptions
from nemo_gym.mock_engine.policies import MockPolicy
from nemo_gym.mock_engine.tokenizer import Tokenizer

if TYPE_CHECKING:
    from nemo_gym.serving.listening import Listener


STOP_WITHIN_S = 1.0
"""Seconds that waiting requests have to end when the engine stops."""


class MockEngine:
    """An engine to test against: `async with MockEngine(options) as engine: ... engine.base_url`.

    `app` is its ASGI app, which also serves without `start`.
    """

    def __init__(
        self,
        options: EngineOptions | None = None,
        *,
        policy: MockPolicy | None = None,
        tokenizer: Tokenizer | None = None,
        template: ChatTemplate | None = None,
        host: str = "127.0.0.1",
        port: int = 0,
    ) -> None:
        self.options = options or EngineOptions()
        self.engine = Engine(self.options, policy=policy, tokenizer=tokenizer, template=template)
        self.app = EngineApp(self.engine)
        self._host = host
        self._port = port
        self._listener: Listener | None = None

    @property
    def stats(self) -> EngineStats:
        return self.app.stats

    @property
    def root_url(self) -> str:
        """The URL of `/tokenize`, `/health` and `/stats`, without a path."""
        host = f"[{self._host}]" if ":" in self._host else self._host
        return f"http://{host}:{self._port}"

    @property
    def base_url(self) -> str:
        """The base URL for OpenAI clients: the root URL and `/v1`."""
        return f"{self.root_url}/v1"

    async def start(self) -> None:
        """Start listening. Raises OSError when the port is taken."""
        from nemo_gym.serving.listening import Listener  # uvicorn is needed only to listen

        family = socket.AF_INET6 if ":" in self._host else socket.AF_INET
        listening = socket.create_server((self._host, self._port), family=family)
        self._port = listening.getsockname()[1]
        served: ASGIApp = self.app
        if self.options.token_input:
            from nemo_gym.mock_engine.token_input import TokenInputApp

            served = TokenInputApp(self.app)
        self._listener = Listener(served, on_connection=self.stats.count_connection)
        self.stats.connections = self._listener.state.connections
        await self._listener.start(listening)

    async def stop(self) -> None:
        """Stop listening and close every connection. Waiting requests end at once."""
        listener, self._listener = self._listener, None
        if listener is not None:
            await listener.stop(STOP_WITHIN_S)

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.stop()
