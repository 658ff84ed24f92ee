"""The layer of a model server that answers the calls of opened rollouts.

A call is checked against the seal and the budgets of its rollout, gets the pinned fields, and is recorded before its
answer is sent. An identical call in flight is joined, and a repeated one whose answer was lost gets the same answer
again. A sealed rollout's calls are cancelled, at this server at once and at others within `TICK_S`.
"""

from __future__ import annotations

import asyncio
import os
from dataclasses import dataclass
from functools import partial
from http import HTTPStatus
from typing import Any

import orjson
from starlette.types import ASGIApp, Receive, Scope, Send

from nemo_gym import clock
from nemo_gym.engines.capture import DIALECTS
from nemo_gym.engines.gateway.deltas import RequestParts
from nemo_gym.engines.gateway.index import RolloutIndices, sampled_tokens
from nemo_gym.engines.gateway.noting import NotedCall, noting
from nemo_gym.engines.gateway.openings import Opening, Openings, RolloutRefusal
from nemo_gym.engines.gateway.record import RecordWriter
from nemo_gym.engines.gateway.requests import limits_of, pinned, without_markers
from nemo_gym.failures import GymError
from nemo_gym.serving.routes import parse_object
from nemo_gym.tokens.records import TokenForm
from nemo_gym.transport.calls import Reply
from nemo_gym.transport.memory import reply_of, until_cancelled
from nemo_gym.transport.request_body import WholeBody
from nemo_gym.transport.whole_response import RawHeaders, send_reply

TICK_S = 2.0
"""Seconds between two looks at a call in flight: whether another model server has sealed its rollout."""
RETRY_HEADER = b"x-stainless-retry-count"
"""The header in which the clients of OpenAI and Anthropic count the attempts at a call."""

_JSON: RawHeaders = [(b"content-type", b"application/json")]


@dataclass(slots=True)
class _Flight:
    """A call that the engine is answering."""

    task: asyncio.Task[Reply]
    waiting: int = 0
    """The number of identical requests that wait for it."""


class RolloutCalls:
    """A layer of the app (`GymApp.layers`)."""

    def __init__(self, openings: Openings, writer: RecordWriter, server: str) -> None:
        self._openings = openings
        self._writer = writer
        self._server = server
        self.tick_s = TICK_S
        self._indices = RolloutIndices()
        self.flights: dict[str, dict[str, _Flight]] = {}
        """Rollout → digest of the request → its call in flight."""

    def cancel(self, opening: Opening) -> int:
        """Cancel the calls of a rollout in this process. Returns their number."""
        flights = self.flights.get(opening.rollout_id, {}).values()
        for flight in flights:
            flight.task.cancel()
        self._indices.drop(opening.folder)
        return len(flights)

    async def __call__(self, handler: ASGIApp, scope: Scope, receive: Receive, send: Send) -> None:
        # The middleware has named the rollout if it is open.
        rollout = scope.get("path_params", {}).get("rollout_id")
        opening = self._openings.find(rollout) if rollout is not None else None
        if opening is None or scope["path"] not in DIALECTS or not isinstance(receive, WholeBody):
            await handler(scope, receive, send)
            return
        asked = receive.value if receive.value is not None else parse_object(receive.body)
        body = pinned(asked, opening.terms, DIALECTS[scope["path"]])
        data = receive.body if body is asked else orjson.dumps(body)
        await send_reply(
            send, await self._reply_to(handler, scope, WholeBody(data, until_cancelled, body), opening)
        )

    async def _reply_to(self, handler: ASGIApp, scope: Scope, request: WholeBody, opening: Opening) -> Reply:
        _refuse_sealed(opening)
        body = request.value or {}
        parts = RequestParts.of(DIALECTS[scope["path"]], without_markers(body))
        digest = parts.digest
        flights = self.flights.get(opening.rollout_id, {})
        flight = flights.get(digest)
        if (
            flight is None or flight.task.cancelling()
        ):  # a call that all its clients have left may still be ending
            index = self._indices.of(opening.folder)
            known = index.answer_to(digest) if _is_retry(scope) else None
            if known is not None:
                return Reply(HTTPStatus.OK, _JSON, orjson.dumps(known))
            limits = limits_of(body, opening, index.calls + len(flights), index.sampled_tokens)
            if limits:
                body, parts = {**body, **limits}, parts.with_fields(limits)
                request = WholeBody(orjson.dumps(body), until_cancelled, body)
            answering = self._answer(handler, scope, request, parts, opening, digest)
            flight = flights[digest] = _Flight(asyncio.create_task(answering))
            self.flights[opening.rollout_id] = flights
            flight.task.add_done_callback(partial(self._land, opening.rollout_id, digest))
        return await self._result_of(flight, opening)

    def _land(self, rollout_id: str, digest: str, task: asyncio.Task[Reply]) -> None:
        if not task.cancelled():
            task.exception()  # it is retrieved, even if every client has left
        flights = self.flights.get(rollout_id, {})
        if digest in flights and flights[digest].task is task:
            del flights[digest]
        if not flights:
            self.flights.pop(rollout_id, None)

    async def _result_of(self, flight: _Flight, opening: Opening) -> Reply:
        flight.waiting += 1
        try:
            while not (await asyncio.wait({flight.task}, timeout=self.tick_s))[0]:
                if opening.is_sealed:
                    flight.task.cancel()
        finally:
            flight.waiting -= 1
            if not flight.waiting:
                flight.task.cancel()  # every client has left; no effect on a call that is done
        if flight.task.cancelled():
            raise _sealed(opening)
        return flight.task.result()

    async def _answer(
        self,
        handler: ASGIApp,
        scope: Scope,
        request: WholeBody,
        parts: RequestParts,
        opening: Opening,
        digest: str,
    ) -> Reply:
        """Return the engine's answer to one call, after it was recorded."""
        about = {
            "model_call_id": f"call_{clock.hex_id()}",
            "server": self._server,
            "dialect": DIALECTS[scope["path"]],
            "digest": digest,
            "started_at": clock.wall_clock(),
        }
        with noting() as noted:
            try:
                reply = await reply_of(handler, scope, request)
            except GymError as error:
                self._record(opening, about, parts, noted, error)
                raise
        _refuse_sealed(opening)
        self._record(opening, about, parts, noted, reply)
        return reply

    def _record(
        self,
        opening: Opening,
        about: dict[str, Any],
        parts: RequestParts,
        noted: NotedCall,
        outcome: Reply | GymError,
    ) -> None:
        """Append the line of a call. Raises `EngineError` if it cannot be written."""
        index = self._indices.of(opening.folder)
        request = index.requests.delta_of(parts)
        line: dict[str, Any] = {**about, "completed_at": clock.wall_clock(), "request": request}
        if isinstance(outcome, GymError):
            failure = outcome.failure
            line |= {
                "status_code": failure.http_status,
                "error_category": failure.code,
                "error": failure.message,
            }
        else:
            answer = orjson.loads(outcome.body)
            line |= {
                "status_code": outcome.status,
                "response": answer,
                "sampled_tokens": sampled_tokens(answer),
            }
        if noted.tokens is not None:
            line["tokens"] = noted.tokens.to_wire(TokenForm.PACKED)
        if noted.notes:
            line["notes"] = dict(noted.notes)
        self._writer.append(opening.folder, line)


def _is_retry(scope: Scope) -> bool:
    given = dict(scope["headers"]).get(RETRY_HEADER, b"0")
    return given.isdigit() and int(given) > 0


def _refuse_sealed(opening: Opening) -> None:
    if opening.is_sealed or not os.path.exists(opening.folder):  # noqa: PTH110 - a Path costs more than the look
        raise _sealed(opening)


def _sealed(opening: Opening) -> RolloutRefusal:
    return RolloutRefusal(f"rollout {opening.rollout_id} is sealed", code="rollout_sealed", status=409)
