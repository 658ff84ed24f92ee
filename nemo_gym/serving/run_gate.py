"""The gate of `/run`: a layer of agents and environment servers, through which control reaches attempts of programs
that call them directly, such as a trainer's own loop.

Attempts of a collection, or of `POST /rollouts`, have a control of their own, and pass. The head server tells the gate
its state and repeats that, so that a restarted server hears it; a gate that hears nothing for some seconds opens.

The gate is put in at the first request of control, so that a gym without one has none: attempts that began
before are neither listed nor cancelled.
"""

from __future__ import annotations

import asyncio
from http import HTTPStatus
from typing import Annotated, Any, Literal

from pydantic import BaseModel, Field
from starlette.types import ASGIApp, Receive, Scope, Send

from nemo_gym.clock import monotonic
from nemo_gym.failures import AgentError, CancelledFailure
from nemo_gym.json_objects import object_in
from nemo_gym.names import ATTEMPTS_ROUTE
from nemo_gym.rows.identity import RolloutId, identity_in
from nemo_gym.serving.app import GymApp
from nemo_gym.transport.context import CONTROLLED_HEADER, RequestContext, current_context
from nemo_gym.transport.deadline import Deadline

_RUN = "/run"
_CONTROLLED = (CONTROLLED_HEADER.encode(), b"1")


class GateRequest(BaseModel, extra="forbid"):
    """The body of `POST /_ng/attempts`."""

    phase: Literal["running", "paused", "draining"] = "running"
    most: int | None = Field(None, ge=1)
    """Attempts in flight in this process; None for no limit."""
    timeout_s: float | None = Field(None, gt=0, allow_inf_nan=False)
    """Seconds that an attempt which starts from now on may take; None for the caller's limit alone."""
    cancel: list[tuple[int, int]] = Field(default_factory=list)
    """Tasks and repeats of attempts to end."""
    seconds: Annotated[float, Field(ge=0, le=60)] = 0.0
    """Seconds after which the gate opens unless it is told again."""


def _read_identity(body: bytes) -> RolloutId | None:
    row = object_in(body)
    return identity_in(row) if row is not None else None


class RunGate:
    """A layer of the app (`GymApp.layers`)."""

    def __init__(self) -> None:
        self._asked = GateRequest()
        self._is_told = False
        """Whether the gate holds a state, so that attempts may wait."""
        self._attempts: dict[asyncio.Task[Any], tuple[bytes, RequestContext | None]] = {}
        """Those in flight, with their rows."""
        self._cancelled: set[asyncio.Task[Any]] = set()
        """Those that control has cancelled."""
        self._waiting = 0
        self._changed = asyncio.Condition()
        self._opening: asyncio.TimerHandle | None = None

    async def __call__(self, handler: ASGIApp, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["path"] != _RUN or _CONTROLLED in scope["headers"]:
            await handler(scope, receive, send)
            return
        if self._is_told:
            await self._enter()
        task: Any = asyncio.current_task()
        request: Any = receive  # a `WholeBody`, by the middleware
        self._attempts[task] = request.body, current_context.get()
        if self._is_told:
            self._shorten_deadline()
        try:
            await handler(scope, receive, send)
        except asyncio.CancelledError:
            if task in self._cancelled and not task.uncancel():
                raise _build_cancellation() from None
            raise
        finally:
            del self._attempts[task]
            if self._is_told or self._cancelled:
                self._cancelled.discard(task)
                await self._tell()

    async def _enter(self) -> None:
        """Wait until an attempt may start. Raises `AgentError` if none starts any more."""
        self._waiting += 1
        try:
            async with self._changed:
                await self._changed.wait_for(lambda: self._asked.phase == "draining" or self._is_open())
        finally:
            self._waiting -= 1
        if self._asked.phase == "draining":
            raise AgentError(
                "the gym is draining: no attempt starts",
                code="gym_draining",
                status=HTTPStatus.SERVICE_UNAVAILABLE,
                remedy="`gym ctl status servers` shows it; restart the gym for further attempts.",
            )

    def _is_open(self) -> bool:
        most = self._asked.most
        return self._asked.phase == "running" and (most is None or len(self._attempts) < most)

    def _shorten_deadline(self) -> None:
        context, seconds = current_context.get(), self._asked.timeout_s
        if context is not None and seconds is not None:
            own = Deadline.after(seconds)
            context.deadline = own if context.deadline is None else min(own, context.deadline)

    async def _tell(self) -> None:
        async with self._changed:
            self._changed.notify_all()

    async def ask(self, asked: GateRequest) -> dict[str, Any]:
        """Take over a state, and return the attempts in flight."""
        self._asked, self._is_told = asked, asked.seconds > 0.0
        if self._opening is not None:
            self._opening.cancel()
        self._opening = asyncio.get_running_loop().call_later(asked.seconds, self._open)
        named = {*asked.cancel}
        for task, (body, _) in self._attempts.items() if named else ():
            if task not in self._cancelled and _read_identity(body) in named:
                self._cancelled.add(task)
                task.cancel()
        await self._tell()
        return self.describe()

    def _open(self) -> None:
        self._opening, self._is_told = None, False
        self._asked = GateRequest()
        telling = asyncio.ensure_future(self._tell())
        telling.add_done_callback(lambda done: done.exception())

    def describe(self) -> dict[str, Any]:
        """Return the attempts in flight, by task and repeat with their seconds, those without a name, and those that
        wait."""
        now = monotonic()
        named = [
            (_read_identity(body), now - context.began if context is not None else 0.0)
            for body, context in self._attempts.values()
        ]
        return {
            "in_flight": [[*identity, seconds] for identity, seconds in named if identity is not None],
            "unnamed": sum(identity is None for identity, _ in named),
            "waiting": self._waiting,
        }


def _build_cancellation() -> CancelledFailure:
    return CancelledFailure(
        "the attempt was cancelled by a request of the gym's control", code="cancelled_by_control"
    )


def add_run_gate(app: GymApp) -> None:
    """Add the routes of a gate before the `/run` of an app, which is put in with their first request."""
    gate = RunGate()

    def put_in() -> None:
        if gate not in app.layers:
            app.layers.append(gate)

    async def show() -> dict[str, Any]:
        put_in()
        return gate.describe()

    async def ask(asked: GateRequest) -> dict[str, Any]:
        put_in()
        return await gate.ask(asked)

    app.get(ATTEMPTS_ROUTE, include_in_schema=False)(show)
    app.post(ATTEMPTS_ROUTE, include_in_schema=False)(ask)
