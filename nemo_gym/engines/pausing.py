"""The pause of a model server: its calls wait, and so do the generations of its engines.

Trainers pause the engines while they push new weights. vLLM and sglang have their own routes for it, which are tried in
this order. `mode` says what becomes of running generations, by vLLM's names.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from contextlib import suppress
from enum import StrEnum
from http import HTTPStatus
from typing import Any, NamedTuple, Protocol

from fastapi import FastAPI
from pydantic import BaseModel, ConfigDict, Field

from nemo_gym.engines.engine import EngineRefused, UpstreamEngine
from nemo_gym.failures import EngineError, GymError
from nemo_gym.transport.server_client import ServerClient

PAUSE_PATH = "/ng-pause"
RESUME_PATH = "/ng-resume"


class PauseMode(StrEnum):
    """The fate of running generations."""

    ABORT = "abort"
    """They end with the tokens that they have. Their calls go on after the pause (`on_abort`)."""
    KEEP = "keep"
    """They stand still, and go on after the pause with the KV cache of the old weights."""
    WAIT = "wait"
    """They end first."""


class EnginePause(BaseModel):
    """The body of `POST /ng-pause`; `POST /ng-resume` reads `everywhere`."""

    model_config = ConfigDict(extra="forbid")

    mode: PauseMode = PauseMode.ABORT
    everywhere: bool = Field(
        True, description="Pause all processes of the server, not only the one that gets the request."
    )


class CallGate:
    """New calls wait here while a model server is paused."""

    def __init__(self) -> None:
        self.is_closed = False
        self._opened = asyncio.Event()

    def close(self) -> None:
        if not self.is_closed:
            self.is_closed = True
            self._opened.clear()

    def open(self) -> None:
        self.is_closed = False
        self._opened.set()

    async def wait(self) -> None:
        """Wait while the gate is closed."""
        while self.is_closed:
            await self._opened.wait()


class _Routes(NamedTuple):
    """The routes of one kind of engine."""

    pause: str
    resume: str
    modes: Mapping[PauseMode, str]
    """The engine's names of the modes that it has."""
    in_query: bool


_VLLM = _Routes("/pause", "/resume", {mode: mode.value for mode in PauseMode}, in_query=True)
_SGLANG = _Routes(
    "/pause_generation",
    "/continue_generation",
    {PauseMode.ABORT: "abort", PauseMode.KEEP: "in_place"},
    in_query=False,
)
_MISSING = (HTTPStatus.NOT_FOUND, HTTPStatus.METHOD_NOT_ALLOWED)


async def pause_engines(engine: UpstreamEngine, mode: PauseMode) -> None:
    """Pause every replica of an engine; return when nothing generates any more. Raises `EngineError`."""
    for routes in (_VLLM, _SGLANG):
        name = routes.modes.get(mode)
        if name is None:
            break
        path, body = (
            (f"{routes.pause}?mode={name}", {}) if routes.in_query else (routes.pause, {"mode": name})
        )
        if await _has_done(engine, path, body):
            return
    raise EngineError(
        f"{engine.urls[0]} has no route to pause with `{mode}`",
        code="no_pause",
        peer=engine.urls[0],
        remedy="Start vLLM with VLLM_SERVER_DEV_MODE=1, or take sglang (without `wait`), or pause no engine: `none`.",
    )


async def resume_engines(engine: UpstreamEngine) -> None:
    """Resume every replica of an engine. One without such a route is not paused. Raises `EngineError`."""
    for routes in (_VLLM, _SGLANG):
        if await _has_done(engine, routes.resume, {}):
            return


async def _has_done(engine: UpstreamEngine, path: str, body: Mapping[str, Any]) -> bool:
    """Post to every replica. Returns False if one has no such route."""
    try:
        await engine.post_everywhere(path, body)
    except EngineRefused as refused:
        if refused.engine_status in _MISSING:
            return False
        raise
    return True


class PausedServer(Protocol):
    """A model server, which may have several processes."""

    @property
    def config(self) -> Any:
        """Its configuration, which has its `name`."""

    @property
    def server_client(self) -> ServerClient: ...


class ServerPausing:
    """Pauses and resumes a model server, in all of its processes, and its engine."""

    def __init__(self, server: PausedServer, engine: UpstreamEngine, gate: CallGate) -> None:
        self._server = server
        self._engine = engine
        self._gate = gate

    def add_routes(self, app: FastAPI) -> None:
        """Add the routes to an app."""
        app.post(PAUSE_PATH)(self.pause)
        app.post(RESUME_PATH)(self.resume)

    async def pause(self, wanted: EnginePause) -> dict[str, Any]:
        """Let new calls wait, and pause the engine. Raises `EngineError` if it cannot; then nothing is paused."""
        try:
            if self._reaches_others(wanted):
                await self._post_alone(PAUSE_PATH, wanted)
            else:
                self._gate.close()
                await pause_engines(self._engine, wanted.mode)
        except BaseException:
            with suppress(GymError):  # the first failure says more
                await self.resume(wanted)
            raise
        return {"mode": wanted.mode}

    async def resume(self, wanted: EnginePause) -> dict[str, Any]:
        """Resume the engine, and let calls go on. Raises `EngineError` if it does not answer."""
        if self._reaches_others(wanted):
            await self._post_alone(RESUME_PATH, wanted)
            return {}
        try:
            await resume_engines(self._engine)
        finally:
            self._gate.open()
        return {}

    def _reaches_others(self, wanted: EnginePause) -> bool:
        server = self._server
        return wanted.everywhere and server.server_client.has_replicas(server.config.name)

    async def _post_alone(self, path: str, wanted: EnginePause) -> None:
        alone = wanted.model_copy(update={"everywhere": False}).model_dump()
        server = self._server
        for reply in await server.server_client.post_everywhere(server.config.name, path, json=alone):
            reply.raise_for_status()
