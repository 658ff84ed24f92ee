"""The response of `POST /rollouts`: a stream with one line per finished rollout.

A line is a scored row or the row of a final failure. The last line is `{"_ng_end": …}` with the counts, and with the
reason if the run was stopped; a stream without it is incomplete.

A slow reader slows the run down: no rollout starts while the number of unsent lines reaches the number allowed in
flight, or their size reaches 32 MiB. When the reader disconnects, everything in flight is cancelled, including calls
to the engine, and every session is closed.

The head server's routes of control reach the run by the name in the response's header `x-ng-run`. Its failed rollouts
are not requeued, because their lines have been sent.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable
from dataclasses import asdict, replace
from itertools import count

import orjson
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from nemo_gym.head._rollout_request import NDJSON, RolloutRequest
from nemo_gym.names import END_KEY
from nemo_gym.rollouts.control.clocks import Clocks
from nemo_gym.rollouts.control.run_control import RunControl
from nemo_gym.rollouts.control.verbs import Phase
from nemo_gym.rollouts.plan.plan import PlannedAttempt
from nemo_gym.rollouts.run.answer import Failed, Scored
from nemo_gym.rollouts.run.collector import Attempter, Collector
from nemo_gym.rollouts.run.control import build_drain, count_rollouts
from nemo_gym.rollouts.run.counters import RunCounters
from nemo_gym.rollouts.run.options import RunLimits
from nemo_gym.rollouts.run.stopping import Stop, StopRules

log = logging.getLogger(__name__)

_MAX_UNSENT_BYTES = 32 << 20
_CHUNK_BYTES = 256 << 10
"""Bytes passed to the socket at once."""
RUN_HEADER = "x-ng-run"
"""The header with the name of the run, for the routes of control."""
_SENT = "the failed rollouts of `POST /rollouts` have been sent to the caller, who can post their rows again"


class LineBuffer:
    """The lines that are not sent yet, bounded in number and bytes."""

    def __init__(self, most: int, most_bytes: int = _MAX_UNSENT_BYTES) -> None:
        self._most = most
        self._most_bytes = most_bytes
        self._lines: deque[bytes] = deque()
        self._bytes = 0
        self._added = asyncio.Event()
        self._taken = asyncio.Event()
        self._is_ended = False

    def put(self, line: bytes) -> None:
        self._lines.append(line)
        self._bytes += len(line)
        self._added.set()

    def end(self, line: bytes) -> None:
        """Put the last line."""
        self._is_ended = True
        self.put(line)

    async def room(self) -> None:
        """Return when there is room for the line of another rollout."""
        while len(self._lines) >= self._most or self._bytes >= self._most_bytes:
            self._taken.clear()
            await self._taken.wait()

    async def take(self) -> tuple[bytes, bool]:
        """Return a chunk of at least one line, and whether it contains the last."""
        while not self._lines:
            self._added.clear()
            await self._added.wait()
        taken: list[bytes] = []
        size = 0
        while self._lines and size < _CHUNK_BYTES:
            taken.append(self._lines.popleft())
            size += len(taken[-1])
        self._bytes -= size
        self._taken.set()
        return b"\n".join([*taken, b""]), self._is_ended and not self._lines


class RolloutStream(Response):
    """A response that runs the requested rollouts while it is sent."""

    media_type = NDJSON

    def __init__(
        self,
        request: RolloutRequest,
        attempter: Attempter,
        runs: dict[str, RunControl],
        clocks: Clocks | None = None,
        on_tuned: Callable[[RunLimits], None] = lambda limits: None,
    ) -> None:
        """`runs`: those that can be controlled, to which this one is added while it goes on. `clocks`: those of its
        servers. `on_tuned` gets limits that control has changed."""
        super().__init__()
        del self.headers["content-length"]
        self._runs = runs
        self._clocks = clocks or Clocks(None)
        self._name = next(name for number in count(1) if (name := f"rollouts-{number}") not in runs)
        self.headers[RUN_HEADER] = self._name
        options = request.options
        self._request = request
        self._lines = LineBuffer(options.num_samples_in_parallel)
        self._stop = Stop()
        self._counters = RunCounters(request.planned)
        self._collector = Collector(
            attempter,
            _NoOutput(),
            self._counters,
            limits=replace(options.limits, in_parallel=min(options.num_samples_in_parallel, request.planned)),
            rules=StopRules(request.planned, identical_failures=options.stop_after_identical_failures),
            stop=self._stop,
            on_settled=self._put,
            pace=self._lines.room,
        )
        self._collector.on_tuned = on_tuned
        self._control = runs[self._name] = self._build_control()

    def _build_control(self) -> RunControl:
        return RunControl(
            self._name,
            self._collector,
            drain=build_drain(self._stop),
            is_draining=lambda: self._stop.requested,
            count=lambda: count_rollouts(self._counters),
            requeue_refusal=_SENT,
            on_phase=self._clocks.set_phase,
        )

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": self.raw_headers})
        run = asyncio.create_task(self._run())
        try:
            is_last = False
            while not is_last:
                chunk, is_last = await self._lines.take()
                await send({"type": "http.response.body", "body": chunk, "more_body": not is_last})
        finally:
            run.cancel()
            await asyncio.gather(run, return_exceptions=True)
            del self._runs[self._name]
            await self._clocks.set_phase(Phase.ENDED)

    async def _run(self) -> None:
        try:
            await self._collector.run(self._request.plan())
        except Exception:
            log.exception("a request for rollouts failed unexpectedly; its last line has the reason")
        self._control.end()
        self._lines.end(self._end_line())

    def _end_line(self) -> bytes:
        counters, reason = self._counters, self._stop.reason
        unstopped = "complete" if counters.scored == counters.planned else "partial"
        end = {
            "end": reason.code if reason else unstopped,
            "planned": counters.planned,
            "scored": counters.scored,
            "failed": counters.failed,
            "discarded": counters.discarded,
            "cancelled": counters.cancelled,
            "stop": asdict(reason) if reason else None,
            **({"control": self._control.events} if self._control.events else {}),
        }
        return orjson.dumps({END_KEY: end})

    def _put(self, planned: PlannedAttempt, result: Scored | Failed) -> None:
        self._lines.put(result.line if isinstance(result, Scored) else result.to_line(planned, terminal=True))


class _NoOutput:
    """Discards rows: every result is in the stream."""

    def add_row(self, line: bytes) -> None:
        pass

    def add_failure(self, line: bytes) -> None:
        pass
