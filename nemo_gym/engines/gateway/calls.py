"""The layer of a model server that answers the calls of opened rollouts.

A call is checked against the seal and the budgets of its rollout, gets the pinned fields, and is recorded before its
answer is sent. An identical call that is in flight is joined. A sealed rollout's calls are cancelled.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Mapping
from functools import partial
from http import HTTPStatus
from typing import Any

import orjson
from starlette.types import ASGIApp, Receive, Scope, Send

from nemo_gym import clock
from nemo_gym.engines.event_streams import EVENT_STREAM, sse_of
from nemo_gym.engines.gateway.noting import NotedCall, noting
from nemo_gym.engines.gateway.openings import Opening, Openings, RolloutRefusal
from nemo_gym.engines.gateway.record import RecordWriter, read_record
from nemo_gym.failures import GymError
from nemo_gym.serving.routes import parse_object
from nemo_gym.tokens.records import TokenForm
from nemo_gym.transport.calls import Reply
from nemo_gym.transport.context import current_context
from nemo_gym.transport.memory import ReplyCollector
from nemo_gym.transport.request_body import Message, WholeBody
from nemo_gym.transport.whole_response import RawHeaders, send_response

API_OF_PATH: Mapping[str, str] = {
    "/v1/responses": "responses",
    "/v1/chat/completions": "chat",
    "/v1/messages": "messages",
}
_LIMIT_OF_API: Mapping[str, str] = {
    "responses": "max_output_tokens",
    "chat": "max_completion_tokens",
    "messages": "max_tokens",
}
_LIMITS = ("max_output_tokens", "max_completion_tokens", "max_tokens")


class RolloutCalls:
    """A layer of the app (`GymApp.layers`)."""

    def __init__(self, openings: Openings, writer: RecordWriter, server: str) -> None:
        self._openings = openings
        self._writer = writer
        self._server = server
        self._in_flight: dict[str, set[asyncio.Task[Reply]]] = {}

    def __call__(self, handler: ASGIApp) -> ASGIApp:
        return partial(self._handle, handler)

    def cancel(self, rollout_id: str) -> int:
        """Cancel the calls of a rollout in this process. Returns their number."""
        tasks = self._in_flight.get(rollout_id, set())
        for task in tasks:
            task.cancel()
        return len(tasks)

    async def _handle(self, handler: ASGIApp, scope: Scope, receive: Receive, send: Send) -> None:
        context = current_context.get()
        opening = self._openings.find(context.session) if context is not None else None
        if opening is None or scope["path"] not in API_OF_PATH or not isinstance(receive, WholeBody):
            await handler(scope, receive, send)
            return
        _refuse_sealed(opening)
        self._check_budget(opening)
        body = _pinned(parse_object(receive.body), opening, API_OF_PATH[scope["path"]])
        streams, options = body.pop("stream", None), body.pop("stream_options", None)
        task = asyncio.create_task(self._answer(handler, scope, body, opening))
        tasks = self._in_flight.setdefault(opening.rollout_id, set())
        tasks.add(task)
        try:
            reply = await asyncio.shield(task)
        except asyncio.CancelledError:
            if not task.cancelled():
                task.cancel()  # the client has left
                raise
            _refuse_sealed(opening)
            raise
        finally:
            tasks.discard(task)
            if not tasks:
                self._in_flight.pop(opening.rollout_id, None)
        if streams and reply.status == HTTPStatus.OK:
            events = sse_of(scope["path"], orjson.loads(reply.body), options)
            reply = Reply(reply.status, EVENT_STREAM, b"".join(events))
        await send_response(send, reply.status, _without_length(reply), reply.body)

    async def _answer(self, handler: ASGIApp, scope: Scope, body: dict[str, Any], opening: Opening) -> Reply:
        """Return the answer to one call, after it was recorded."""
        started_at = clock.wall_clock()
        collector = ReplyCollector()
        data = orjson.dumps(body)
        with noting() as noted:
            try:
                await handler(scope, WholeBody(data, _never), collector)
            except GymError as error:
                self._record(opening, scope, body, started_at, noted, error)
                raise
        assert collector.reply is not None
        _refuse_sealed(opening)
        self._record(opening, scope, body, started_at, noted, collector.reply)
        return collector.reply

    def _record(
        self,
        opening: Opening,
        scope: Scope,
        body: dict[str, Any],
        started_at: float,
        noted: NotedCall,
        outcome: Reply | GymError,
    ) -> None:
        line: dict[str, Any] = {
            "model_call_id": f"call_{clock.hex_id()}",
            "server": self._server,
            "dialect": API_OF_PATH[scope["path"]],
            "started_at": started_at,
            "completed_at": clock.wall_clock(),
            "digest": hashlib.blake2b(orjson.dumps(body), digest_size=16).hexdigest(),
            "request": body,
        }
        if isinstance(outcome, GymError):
            line |= {
                "status_code": outcome.failure.http_status,
                "error_category": outcome.failure.code,
                "error": outcome.failure.message,
            }
        else:
            line |= {"status_code": outcome.status, "response": orjson.loads(outcome.body)}
        if noted.tokens is not None:
            line["tokens"] = noted.tokens.to_wire(TokenForm.PACKED)
        if noted.notes:
            line["notes"] = dict(noted.notes)
        self._writer.append(opening.folder, line)

    def _check_budget(self, opening: Opening) -> None:
        terms = opening.terms
        if terms.max_calls is None and terms.max_sampled_tokens is None:
            return
        lines = read_record(opening.folder).lines
        calls = len(lines) + len(self._in_flight.get(opening.rollout_id, ()))
        if terms.max_calls is not None and calls >= terms.max_calls:
            raise _exhausted(opening, f"{terms.max_calls} model calls")
        sampled = sum(sampled_tokens(line) for line in lines)
        if terms.max_sampled_tokens is not None and sampled >= terms.max_sampled_tokens:
            raise _exhausted(opening, f"{terms.max_sampled_tokens} sampled tokens")


def sampled_tokens(line: Mapping[str, Any]) -> int:
    """Return the number of tokens that the engine sampled in a recorded call, by its usage."""
    usage = (line.get("response") or {}).get("usage") or {}
    return int(usage.get("output_tokens") or usage.get("completion_tokens") or 0)


def _pinned(body: dict[str, Any], opening: Opening, api: str) -> dict[str, Any]:
    """Return the request with the rollout's sampling fields and model."""
    pins = opening.terms.sampling.model_dump(exclude_none=True) if opening.terms.sampling else {}
    limit = pins.pop("max_tokens", None)
    if limit is not None:
        body = {name: value for name, value in body.items() if name not in _LIMITS}
        pins[_LIMIT_OF_API[api]] = limit
    if opening.terms.model is not None:
        pins["model"] = opening.terms.model
    return {**body, **pins}


def _refuse_sealed(opening: Opening) -> None:
    if opening.is_sealed or not opening.folder.exists():
        raise RolloutRefusal(f"rollout {opening.rollout_id} is sealed", code="rollout_sealed", status=409)


def _exhausted(opening: Opening, budget: str) -> RolloutRefusal:
    # 400: agents retry 408, 409, 429 and 5xx, and end at other errors.
    return RolloutRefusal(
        f"rollout {opening.rollout_id} has used its budget of {budget}",
        code="rollout_budget_exhausted",
        status=400,
    )


def _without_length(reply: Reply) -> RawHeaders:
    return [
        (name.encode("latin-1"), value.encode("latin-1"))
        for name, value in reply.headers.items()
        if name.lower() != "content-length"
    ]


async def _never() -> Message:
    await asyncio.get_running_loop().create_future()
    raise AssertionError("unreachable")
