"""The layer of a model server that answers the calls of opened rollouts.

A call is checked against the seal and the budgets of its rollout, gets the pinned fields, and is recorded before its
answer is sent. An identical call in flight is joined, and a repeated one whose answer was lost gets the same answer
again. A sealed rollout's calls are cancelled, at this server at once and at others within `TICK_S`.
"""

from __future__ import annotations

import asyncio
import hashlib
from dataclasses import dataclass
from functools import partial
from http import HTTPStatus
from typing import Any

import orjson
from starlette.types import ASGIApp, Receive, Scope, Send

from nemo_gym import clock
from nemo_gym.engines.event_streams import EventStreamSender
from nemo_gym.engines.gateway.index import RolloutIndices, sampled_tokens
from nemo_gym.engines.gateway.noting import NotedCall, noting
from nemo_gym.engines.gateway.openings import Opening, Openings, RolloutRefusal
from nemo_gym.engines.gateway.record import RecordWriter
from nemo_gym.engines.gateway.requests import API_OF_PATH, limited, pinned, without_markers
from nemo_gym.failures import GymError
from nemo_gym.serving.routes import parse_object
from nemo_gym.tokens.records import TokenForm
from nemo_gym.transport.calls import Reply
from nemo_gym.transport.memory import ReplyCollector
from nemo_gym.transport.request_body import Message, WholeBody
from nemo_gym.transport.whole_response import RawHeaders, send_response

TICK_S = 2.0
"""Seconds between two looks at a call in flight: whether its rollout was sealed, and whether its stream is silent."""
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
        self._flights: dict[str, dict[str, _Flight]] = {}
        """Rollout → digest of the request → its call in flight."""

    def __call__(self, handler: ASGIApp) -> ASGIApp:
        return partial(self._handle, handler)

    def cancel(self, opening: Opening) -> int:
        """Cancel the calls of a rollout in this process. Returns their number."""
        flights = self._flights.get(opening.rollout_id, {}).values()
        for flight in flights:
            flight.task.cancel()
        self._indices.drop(opening.folder)
        return len(flights)

    async def _handle(self, handler: ASGIApp, scope: Scope, receive: Receive, send: Send) -> None:
        # The middleware has named the rollout if it is open.
        rollout = scope.get("path_params", {}).get("rollout_id")
        opening = self._openings.find(rollout) if rollout is not None else None
        if opening is None or scope["path"] not in API_OF_PATH or not isinstance(receive, WholeBody):
            await handler(scope, receive, send)
            return
        body = pinned(parse_object(receive.body), opening.terms, API_OF_PATH[scope["path"]])
        streams, options = body.pop("stream", None), body.pop("stream_options", None)
        sender = EventStreamSender(scope["path"], options, send) if streams else None
        try:
            reply = await self._reply_to(handler, scope, body, opening, sender)
        except GymError as error:
            if sender is None or not sender.has_begun:
                raise
            await sender.fail(error)
            return
        if sender is not None and reply.status == HTTPStatus.OK:
            await sender.finish(orjson.loads(reply.body))
        else:
            await send_response(send, reply.status, _without_length(reply), reply.body)

    async def _reply_to(
        self,
        handler: ASGIApp,
        scope: Scope,
        body: dict[str, Any],
        opening: Opening,
        sender: EventStreamSender | None,
    ) -> Reply:
        _refuse_sealed(opening)
        data = orjson.dumps(body)
        digest = hashlib.blake2b(scope["path"].encode() + data, digest_size=16).hexdigest()
        flights = self._flights.setdefault(opening.rollout_id, {})
        flight = flights.get(digest)
        if flight is None:
            index = self._indices.of(opening.folder)
            known = index.answer_to(digest) if _is_retry(scope) else None
            if known is not None:
                return Reply(HTTPStatus.OK, _JSON, orjson.dumps(known))
            allowed = limited(body, opening, index.calls + len(flights), index.sampled_tokens)
            data = data if allowed is body else orjson.dumps(allowed)
            answering = self._answer(handler, scope, allowed, data, opening, digest)
            flight = flights[digest] = _Flight(asyncio.create_task(answering))
            flight.task.add_done_callback(partial(self._land, opening.rollout_id, digest))
        return await self._result_of(flight, opening, sender)

    def _land(self, rollout_id: str, digest: str, task: asyncio.Task[Reply]) -> None:
        if not task.cancelled():
            task.exception()  # it is retrieved, even if every client has left
        flights = self._flights.get(rollout_id, {})
        flights.pop(digest, None)
        if not flights:
            self._flights.pop(rollout_id, None)

    async def _result_of(self, flight: _Flight, opening: Opening, sender: EventStreamSender | None) -> Reply:
        flight.waiting += 1
        try:
            while not (await asyncio.wait({flight.task}, timeout=self.tick_s))[0]:
                if opening.is_sealed:
                    flight.task.cancel()
                if sender is not None:
                    await sender.tick()
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
        body: dict[str, Any],
        data: bytes,
        opening: Opening,
        digest: str,
    ) -> Reply:
        """Return the engine's answer to one call, after it was recorded. `data` is `body` as JSON."""
        about = {
            "model_call_id": f"call_{clock.hex_id()}",
            "server": self._server,
            "dialect": API_OF_PATH[scope["path"]],
            "digest": digest,
            "started_at": clock.wall_clock(),
        }
        collector = ReplyCollector()
        with noting() as noted:
            try:
                await handler(scope, WholeBody(data, _never), collector)
            except GymError as error:
                self._record(opening, about, body, noted, error)
                raise
        assert collector.reply is not None
        _refuse_sealed(opening)
        self._record(opening, about, body, noted, collector.reply)
        return collector.reply

    def _record(
        self,
        opening: Opening,
        about: dict[str, Any],
        body: dict[str, Any],
        noted: NotedCall,
        outcome: Reply | GymError,
    ) -> None:
        """Append the line of a call. Raises `EngineError` if it cannot be written."""
        index = self._indices.of(opening.folder)
        request = index.requests.delta_of(about["dialect"], without_markers(body))
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
    if opening.is_sealed or not opening.folder.exists():
        raise _sealed(opening)


def _sealed(opening: Opening) -> RolloutRefusal:
    return RolloutRefusal(f"rollout {opening.rollout_id} is sealed", code="rollout_sealed", status=409)


def _without_length(reply: Reply) -> RawHeaders:
    return [
        (name.encode("latin-1"), value.encode("latin-1"))
        for name, value in reply.headers.items()
        if name.lower() != "content-length"
    ]


async def _never() -> Message:
    await asyncio.get_running_loop().create_future()
    raise AssertionError("unreachable")
