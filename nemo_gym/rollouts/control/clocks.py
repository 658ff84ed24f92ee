"""The clocks of a paused run: in this process and in those of its servers, deadlines and breakers stand still."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Iterable
from contextlib import suppress

import orjson

from nemo_gym import clock
from nemo_gym.failures import GymError
from nemo_gym.names import CLOCK_ROUTE, TOKEN_HEADER
from nemo_gym.rollouts.control.verbs import Phase
from nemo_gym.transport import Call, Caller, HttpTransport, call_once
from nemo_gym.transport.pausing import hold_clock

_HELD_S = 15.0
"""Seconds for which servers hold their clocks without hearing from the run."""
_EVERY_S = 3.0
_ANSWERS_S = 2.0
_AT_ONCE = 64


class Clocks:
    """Holds the clocks of one run's rollouts between `set_phase(PAUSED)` and the next phase."""

    def __init__(self, caller: Caller | None, servers: Iterable[str] = (), ca: str | None = None) -> None:
        """`caller`: that of the servers. Those that it reaches without HTTP are in this process."""
        self._caller = caller if caller is not None and isinstance(caller.transport, HttpTransport) else None
        self._servers = tuple(servers)
        self._ca = ca
        self._run = clock.hex_id()
        self._holding: asyncio.Task[None] | None = None

    async def set_phase(self, phase: Phase) -> None:
        """Hold the clocks, or let them run."""
        if phase is Phase.PAUSED:
            if self._holding is None:
                await self._hold(_HELD_S)
                self._holding = asyncio.create_task(self._keep_holding())
        elif self._holding is not None:
            self._holding.cancel()
            self._holding = None
            await self._hold(0.0)

    async def _keep_holding(self) -> None:
        while True:
            await asyncio.sleep(_EVERY_S)
            await self._hold(_HELD_S)

    async def _hold(self, seconds: float) -> None:
        hold_clock(self._run, seconds)
        if self._caller is None:
            return
        directory = self._caller.directory
        known: Collection[str] = directory.names()
        urls = sorted({url for name in self._servers if name in known for url in directory.replicas(name)})
        for start in range(0, len(urls), _AT_ONCE):
            await asyncio.gather(*(self._tell(url, seconds) for url in urls[start : start + _AT_ONCE]))

    async def _tell(self, url: str, seconds: float) -> None:
        token = self._caller.token if self._caller is not None else None
        headers = {"content-type": "application/json"} | ({TOKEN_HEADER: token} if token else {})
        body = orjson.dumps({"run": self._run, "seconds": seconds})
        with suppress(GymError):  # a server that restarts hears it the next time
            call = Call("POST", CLOCK_ROUTE, body, headers)
            await call_once(url, call, timeout_s=_ANSWERS_S, ca=self._ca)
