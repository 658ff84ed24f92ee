"""Control of a gym's servers: the attempts of programs that call its agents directly, as one run named `servers`.

The head server keeps the state and tells it to the gates of all agents (`nemo_gym.serving.run_gate`), again and again
while it is not the usual one. The callers attempt their rows by themselves, so nothing is requeued here.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import asdict
from typing import Any, NamedTuple

import orjson

from nemo_gym.failures import GymError, InputError
from nemo_gym.names import ATTEMPTS_ROUTE
from nemo_gym.rollouts.control.clocks import Clocks
from nemo_gym.rollouts.control.events import build_event
from nemo_gym.rollouts.control.verbs import (
    ControlRequest,
    ControlState,
    ControlVerb,
    Effects,
    Phase,
    Tuning,
    decide,
    write_rollout,
)
from nemo_gym.rows.identity import RolloutId
from nemo_gym.transport import Caller, RetryBudget

log = logging.getLogger(__name__)

SERVERS = "servers"
"""The name of the run."""
_UNLIMITED = Tuning("auto", 1, None)
_HELD_S, _EVERY_S, _ANSWERS_S = 15.0, 3.0, 2.0
_OWN = "its callers attempt failed rows again by themselves"


class _Seen(NamedTuple):
    """The attempts in the servers, as they were last seen."""

    in_flight: Mapping[RolloutId, float]
    unnamed: int
    waiting: int


class GymControl:
    """Controls the attempts in a gym's servers that no collection controls. One request is carried out at a time."""

    name = SERVERS

    def __init__(
        self, caller: Caller, list_agents: Callable[[], Iterable[str]], clocks: Clocks | None = None
    ) -> None:
        """`list_agents` returns the names of the servers with `/run`; `clocks` are those of all servers."""
        self._caller = caller
        self._list_agents = list_agents
        self._clocks = clocks or Clocks(None)
        self._phase = Phase.RUNNING
        self._tuning = _UNLIMITED
        self._seen = _Seen({}, 0, 0)
        self._one_at_a_time = asyncio.Lock()
        self._telling: asyncio.Task[None] | None = None
        self.events: list[dict[str, Any]] = []
        """The accepted requests."""

    @property
    def is_usual(self) -> bool:
        """Whether nothing is controlled, and no attempt is in flight."""
        return self._is_untouched and not (self._seen.in_flight or self._seen.unnamed or self._seen.waiting)

    @property
    def _is_untouched(self) -> bool:
        return self._phase is Phase.RUNNING and self._tuning == _UNLIMITED

    async def refresh(self) -> None:
        """Ask the servers for their attempts."""
        await self._ask_all("GET")

    async def handle(self, verb: ControlVerb, request: ControlRequest) -> dict[str, Any]:
        """Carry out a request, unless it is a dry run, as `RunControl.handle`."""
        if request.max_attempts is not None:
            raise InputError(f"`max_attempts` is not of the servers: {_OWN}", code="wrong_field", status=422)
        async with self._one_at_a_time:
            await self.refresh()
            effects = decide(self._read_state(), verb, request)
            if not request.dry_run and effects.changes:
                event = build_event(verb, effects, request.by)
                self.events.append(event)
                log.warning("control: %s by %s: %s", verb, request.by, "; ".join(effects.changes))
                await self._apply(effects)
        return {"verb": verb, "dry_run": request.dry_run, "changes": effects.changes} | self.describe()

    def _read_state(self) -> ControlState:
        return ControlState(self._phase, self._tuning, self._seen.in_flight, {}, _OWN)

    def describe(self) -> dict[str, Any]:
        """Return the state as it was last seen, as `RunControl.describe` does."""
        seen = self._seen
        longest = sorted(seen.in_flight.items(), key=lambda each: (-each[1], each[0]))
        return {
            "run": SERVERS,
            "phase": self._phase,
            **asdict(self._tuning),
            "counts": {"unnamed": seen.unnamed, "waiting": seen.waiting},
            "in_flight": {write_rollout(identity): round(seconds, 1) for identity, seconds in longest},
            "failed": {},
            "is_touched": not self.is_usual,
        }

    async def _apply(self, effects: Effects) -> None:
        was_paused, self._phase, self._tuning = self._phase is Phase.PAUSED, effects.phase, effects.tuning
        await self._ask_all("POST", effects.cancelled)
        if was_paused or self._phase is Phase.PAUSED:
            await self._clocks.set_phase(self._phase)
        if self._telling is not None:
            self._telling.cancel()
            self._telling = None
        if not self._is_untouched:
            self._telling = asyncio.create_task(self._keep_telling())

    async def _keep_telling(self) -> None:
        while True:
            await asyncio.sleep(_EVERY_S)
            await self._ask_all("POST")

    async def _ask_all(self, method: str, cancelled: Iterable[RolloutId] = ()) -> None:
        """Ask the gates of all processes, and note what they tell. One that restarts hears it the next time."""
        directory = self._caller.directory
        urls = sorted({url for agent in self._list_agents() for url in directory.replicas(agent)})
        bodies = [self._build_body(place, len(urls), cancelled) for place in range(len(urls))]
        asked = zip(urls, bodies, strict=True)
        told = await asyncio.gather(*(self._ask(url, method, body) for url, body in asked))
        known = [each for each in told if each is not None]
        self._seen = _Seen(
            {
                RolloutId(task, repeat): seconds
                for each in known
                for task, repeat, seconds in each["in_flight"]
            },
            sum(each["unnamed"] for each in known),
            sum(each["waiting"] for each in known),
        )

    def _build_body(self, place: int, processes: int, cancelled: Iterable[RolloutId]) -> bytes:
        """Return the state for the process number `place`, which gets its share of the limit, at least 1."""
        most = self._tuning.num_samples_in_parallel
        share = None if most == "auto" else max(1, most // processes + (place < most % processes))
        return orjson.dumps(
            {
                "phase": self._phase,
                "most": share,
                "timeout_s": self._tuning.rollout_timeout_s,
                "cancel": [[*identity] for identity in cancelled],
                "seconds": _HELD_S if not self._is_untouched else 0.0,
            }
        )

    async def _ask(self, url: str, method: str, body: bytes) -> dict[str, Any] | None:
        caller = self._caller.narrow_to_urls([url], RetryBudget(attempts=1))
        with suppress(GymError, TimeoutError, orjson.JSONDecodeError):
            async with asyncio.timeout(_ANSWERS_S):  # of wall time: the clock of rollouts may stand still
                reply = await caller.call(
                    url, method, ATTEMPTS_ROUTE, body=body if method == "POST" else None
                )
            if reply.ok:
                told: dict[str, Any] = reply.json()
                return told
        return None
