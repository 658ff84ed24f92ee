"""Pause, resume and abort of a mock engine's generations, under the names of vLLM and of sglang.

An aborted generation is answered with the tokens that it has by then, and `finish_reason: abort`. While the engine is
paused, new requests wait. vLLM's routes exist in its development mode only.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from nemo_gym.mock_engine.exchange import Exchange
from nemo_gym.mock_engine.refusals import Refusal

DEVELOPMENT_MODE = "VLLM_SERVER_DEV_MODE"
"""The environment variable that enables vLLM's routes for trainers."""


class RunningFate(StrEnum):
    """The fate of running generations, by vLLM's names."""

    ABORT = "abort"
    KEEP = "keep"
    """They stand still until `resume`."""
    WAIT = "wait"
    """They end first."""


_SGLANG_MODES = {"abort": RunningFate.ABORT, "in_place": RunningFate.KEEP, "retract": RunningFate.KEEP}


@dataclass(slots=True, eq=False)
class _Running:
    """A generation that takes time."""

    name: object
    """The id that its client has given."""
    due: float
    """The time of its end on the loop's clock; while the engine stands still, the seconds that are left."""
    limit: asyncio.Timeout
    is_aborted: bool = False


class Generations:
    """The generations of an engine that take time, and whether they may run."""

    def __init__(self) -> None:
        self.is_paused = False
        self._stands_still = False
        self._resumed = asyncio.Event()
        self._quiet = asyncio.Event()
        self._running: set[_Running] = set()

    async def admit(self, exchange: Exchange) -> None:
        """Wait until the engine is not paused. Raises ClientLeft."""
        while self.is_paused:
            await exchange.wait_for(_wait(self._resumed))

    async def spend(self, exchange: Exchange, seconds: float, name: object = None) -> float | None:
        """Generate for `seconds`. Returns the seconds after which it was aborted, or None at its end.

        Raises ClientLeft.
        """
        if seconds <= 0:
            return None
        loop = asyncio.get_running_loop()
        running = _Running(name, loop.time() + seconds, asyncio.timeout(seconds))
        try:
            async with running.limit:
                self._running.add(running)
                await exchange.wait_until_left()
        except TimeoutError:
            left = running.due - loop.time()
            return min(seconds, max(0.0, seconds - left)) if running.is_aborted else None
        finally:
            self._running.discard(running)
            if not self._running:
                self._quiet.set()

    def abort(self, names: frozenset[object] | None = None) -> int:
        """Abort the generations of these names, or all. Returns their number."""
        now = asyncio.get_running_loop().time()
        chosen = [each for each in self._running if names is None or each.name in names]
        for running in chosen:
            running.due += now if self._stands_still else 0
            running.is_aborted = True
            running.limit.reschedule(now)
        return len(chosen)

    async def pause(self, mode: RunningFate) -> None:
        """Let new requests wait; return when nothing runs any more."""
        if not self.is_paused:
            self.is_paused = True
            self._resumed.clear()
        if mode is RunningFate.KEEP:
            self._stand_still()
            return
        if mode is RunningFate.ABORT:
            self.abort()
        self._quiet.clear()
        if self._running:
            await self._quiet.wait()

    def _stand_still(self) -> None:
        if not self._stands_still:
            self._stands_still = True
            now = asyncio.get_running_loop().time()
            for running in self._running:
                running.due -= now
                running.limit.reschedule(None)

    def resume(self) -> None:
        """Let everything go on."""
        self.is_paused = False
        if self._stands_still:
            self._stands_still = False
            now = asyncio.get_running_loop().time()
            for running in self._running:
                running.due += now
                running.limit.reschedule(running.due)
        self._resumed.set()


async def _wait(event: asyncio.Event) -> None:
    await event.wait()


@dataclass(frozen=True, slots=True)
class PauseRoute:
    """A route that pauses, resumes or aborts."""

    name: str
    method: str
    act: Callable[[Generations, Mapping[str, Any]], Awaitable[dict[str, Any]]]
    """Gets the fields of the query and of the body."""


async def _pause(generations: Generations, given: Mapping[str, Any]) -> dict[str, Any]:
    require_development()
    await generations.pause(_read_mode(given, {mode.value: mode for mode in RunningFate}))
    return {"status": "paused"}


async def _resume(generations: Generations, _: Mapping[str, Any]) -> dict[str, Any]:
    require_development()
    generations.resume()
    return {"status": "resumed"}


async def _show(generations: Generations, _: Mapping[str, Any]) -> dict[str, Any]:
    require_development()
    return {"is_paused": generations.is_paused}


async def _abort(generations: Generations, given: Mapping[str, Any]) -> dict[str, Any]:
    require_development()
    names = given.get("request_ids")
    generations.abort(frozenset(names) if names else None)
    return {"status": "aborted"}


async def _pause_sglang(generations: Generations, given: Mapping[str, Any]) -> dict[str, Any]:
    await generations.pause(_read_mode(given, _SGLANG_MODES))
    return {"message": "Generation paused successfully.", "status": "ok"}


async def _resume_sglang(generations: Generations, _: Mapping[str, Any]) -> dict[str, Any]:
    generations.resume()
    return {"message": "Generation continued successfully.", "status": "ok"}


async def _abort_sglang(generations: Generations, given: Mapping[str, Any]) -> dict[str, Any]:
    generations.abort(None if given.get("abort_all") else frozenset([given.get("rid")]))
    return {}


def _read_mode(given: Mapping[str, Any], modes: Mapping[str, RunningFate]) -> RunningFate:
    mode = modes.get(given.get("mode", "abort"))
    if mode is None:
        raise Refusal(f"`mode` must be one of {', '.join(modes)}.", param="mode")
    return mode


def require_development() -> None:
    """Raise Refusal outside of the development mode of vLLM, which has the routes for trainers."""
    if os.environ.get(DEVELOPMENT_MODE) != "1":
        raise Refusal("Not Found", status=404)


PAUSE_ROUTES: Mapping[str, PauseRoute] = {
    "/pause": PauseRoute("pause", "POST", _pause),
    "/resume": PauseRoute("resume", "POST", _resume),
    "/is_paused": PauseRoute("is_paused", "GET", _show),
    "/abort_requests": PauseRoute("abort_requests", "POST", _abort),
    "/pause_generation": PauseRoute("pause_generation", "POST", _pause_sglang),
    "/continue_generation": PauseRoute("continue_generation", "POST", _resume_sglang),
    "/abort_request": PauseRoute("abort_request", "POST", _abort_sglang),
}
