"""The layer of a model server that records the calls of rollouts, in all APIs, before their answers are sent.

A call of an opened rollout is checked against the seal and the budgets of its rollout, and gets the pinned fields. An
identical call in flight is joined, and a repeated one whose answer was lost gets the same answer again. A sealed
rollout's calls are cancelled, at this server at once and at others within `TICK_S`.

With observability, calls of other rollouts are recorded, too. A failure to write those is logged, and the answer is
sent all the same.
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from functools import partial
from http import HTTPStatus
from typing import Any, NamedTuple, TypeAlias

import orjson
from starlette.types import ASGIApp, Receive, Scope, Send

from nemo_gym.engines.gateway.openings import Opening, Openings, RolloutRefusal
from nemo_gym.engines.gateway.requests import compute_limits, drop_markers, pin_terms
from nemo_gym.engines.record.call import DIALECTS, ModelCall, current_call, parse_body
from nemo_gym.engines.record.deltas import RequestParts
from nemo_gym.engines.record.files import RecordWriter
from nemo_gym.engines.record.index import RolloutIndices
from nemo_gym.engines.record.store import CaptureStore, observability_enabled_from_config
from nemo_gym.failures import GymError
from nemo_gym.serving.app import GymApp
from nemo_gym.serving.durability import capture_folder
from nemo_gym.serving.routes import parse_object
from nemo_gym.transport.calls import Reply
from nemo_gym.transport.context import SESSION_HEADER, current_context
from nemo_gym.transport.memory import collect_reply, wait_until_cancelled
from nemo_gym.transport.request_body import WholeBody
from nemo_gym.transport.whole_response import RawHeaders, send_reply

log = logging.getLogger(__name__)

TICK_S = 2.0
"""Seconds between two looks at a call in flight: whether another model server has sealed its rollout."""
RETRY_HEADER = b"x-stainless-retry-count"
"""The header in which the clients of OpenAI and Anthropic count the attempts at a call."""

RecordCall: TypeAlias = Callable[[ModelCall, Reply | BaseException], Awaitable[None]]
"""Records a call with its reply or its error."""

_SESSION = SESSION_HEADER.encode()
_JSON: RawHeaders = [(b"content-type", b"application/json")]


@dataclass(slots=True)
class _Flight:
    """A call that the engine is answering."""

    call: ModelCall
    task: asyncio.Task[Reply]
    waiting: int = 0
    """The number of identical requests that wait for it."""


class _Observability(NamedTuple):
    store: CaptureStore
    model_ref: Mapping[str, str] | None


class RolloutCalls:
    """A layer of the app (`GymApp.layers`)."""

    def __init__(self, openings: Openings, writer: RecordWriter, server: str) -> None:
        self._openings = openings
        self._writer = writer
        self._server = server
        self.tick_s = TICK_S
        self._indices = RolloutIndices()
        self._observability: _Observability | None = None
        self.flights: dict[str, dict[str, _Flight]] = {}
        """Rollout → digest of the request → its call in flight."""

    def observe(self, store: CaptureStore, server: str | None) -> None:
        """Record the calls of rollouts that are not open, too. `server` is the name of the model server."""
        named = {"type": "responses_api_models", "name": server} if server else None
        self._observability = _Observability(store, named)

    def cancel(self, opening: Opening) -> int:
        """Cancel the calls of a rollout in this process. Returns their number."""
        flights = self.flights.get(opening.rollout_id, {}).values()
        for flight in flights:
            flight.task.cancel()
        self._indices.drop(opening.folder)
        return len(flights)

    async def __call__(self, handler: ASGIApp, scope: Scope, receive: Receive, send: Send) -> None:
        if "ng_ledger" in scope:
            from nemo_gym.engines.gateway.budgets import answer_within_budget  # most runs have none

            handler = partial(answer_within_budget, scope["ng_ledger"], self._server, handler)
        if "path_params" not in scope and self._observability is None:
            await handler(scope, receive, send)
            return
        # The middleware has named the rollout if it is open.
        rollout = scope.get("path_params", {}).get("rollout_id")
        opening = self._openings.find(rollout) if rollout is not None else None
        if scope["path"] not in DIALECTS or not isinstance(receive, WholeBody):
            await handler(scope, receive, send)
        elif opening is not None:
            await send_reply(send, await self._answer_opened(opening, handler, scope, receive))
        elif self._observability is not None and (session := _find_session(scope)) is not None:
            call = ModelCall(self._server, DIALECTS[scope["path"]])
            observe = partial(self._observe, session, receive)
            await send_reply(send, await answer_recorded(handler, scope, receive, call, observe))
        else:
            await handler(scope, receive, send)

    # --- Opened rollouts ----------------------------------------------------------------------------------------

    async def _answer_opened(
        self, opening: Opening, handler: ASGIApp, scope: Scope, receive: WholeBody
    ) -> Reply:
        """Return the reply of a call of an opened rollout."""
        flight: _Flight | None = None
        refused = ModelCall(self._server, DIALECTS[scope["path"]]) if self._observability else None
        try:
            request = _build_request(scope, receive, opening)
            _refuse_sealed(opening)
            parts = RequestParts.from_body(DIALECTS[scope["path"]], drop_markers(request.value or {}))
            digest = parts.digest
            flight = self.flights.get(opening.rollout_id, {}).get(digest)
            # A call that all its clients have left may still be ending.
            if flight is None or flight.task.cancelling():
                flight = None
                known = (
                    self._indices.read_index(opening.folder).answer_to(digest) if _is_retry(scope) else None
                )
                if known is not None:
                    return Reply(HTTPStatus.OK, _JSON, orjson.dumps(known))
                flight = self._begin(opening, handler, scope, request, parts, digest)
            return await self._await_result(flight, opening)
        except BaseException as error:
            if refused is not None and (flight is None or not flight.call.is_recorded):
                await self._observe(opening.rollout_id, receive, refused, error)
            raise

    def _begin(
        self,
        opening: Opening,
        handler: ASGIApp,
        scope: Scope,
        request: WholeBody,
        parts: RequestParts,
        digest: str,
    ) -> _Flight:
        """Ask the engine. Raises `RolloutRefusal` if a budget is exhausted."""
        index, flights = self._indices.read_index(opening.folder), self.flights.get(opening.rollout_id, {})
        body = request.value or {}
        limits = compute_limits(body, opening, index.calls + len(flights), index.sampled_tokens)
        if limits:
            body, parts = {**body, **limits}, parts.replace_fields(limits)
            request = WholeBody(orjson.dumps(body), wait_until_cancelled, body)
        call = ModelCall(self._server, DIALECTS[scope["path"]], digest)
        answer = answer_recorded(handler, scope, request, call, partial(self._record, opening, parts))
        flight = flights[digest] = _Flight(call, asyncio.create_task(answer))
        self.flights[opening.rollout_id] = flights
        flight.task.add_done_callback(partial(self._land, opening.rollout_id, digest))
        return flight

    def _land(self, rollout_id: str, digest: str, task: asyncio.Task[Reply]) -> None:
        if not task.cancelled():
            task.exception()  # it is retrieved, even if every client has left
        flights = self.flights.get(rollout_id, {})
        if digest in flights and flights[digest].task is task:
            del flights[digest]
        if not flights:
            self.flights.pop(rollout_id, None)

    async def _await_result(self, flight: _Flight, opening: Opening) -> Reply:
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
            raise _build_sealed_refusal(opening)
        return flight.task.result()

    async def _record(
        self, opening: Opening, parts: RequestParts, call: ModelCall, outcome: Reply | BaseException
    ) -> None:
        """Append the line of a call to the record of its rollout, unless it was cancelled.

        Raises `EngineError` if it cannot be written, and `RolloutRefusal` for an answer after the seal.
        """
        if isinstance(outcome, Reply):
            _refuse_sealed(opening)
        elif not isinstance(outcome, GymError):
            return
        delta = self._indices.read_index(opening.folder).requests.build_delta(parts)
        self._writer.append(opening.folder, call.build_line({"request": delta}, outcome))
        call.is_recorded = True

    # --- Observability ------------------------------------------------------------------------------------------

    async def _observe(
        self, rollout: str, request: WholeBody, call: ModelCall, outcome: Reply | BaseException
    ) -> None:
        """Append the line of a call that is in no record of an opened rollout."""
        assert self._observability is not None
        store, model_ref = self._observability
        line = call.build_line(parse_body("request", request.body), outcome)
        line |= {"model_ref": model_ref, "latency_ms": 1e3 * (line["completed_at"] - line["started_at"])}
        if isinstance(outcome, Reply):
            line["latency_ttft_ms"] = line["latency_ms"]  # answers are whole
        try:
            await asyncio.to_thread(store.record, rollout, line)
        except (OSError, TypeError, GymError):
            log.exception("a model call of rollout %s could not be written to %s", rollout, store.root)


async def answer_recorded(
    handler: ASGIApp, scope: Scope, request: WholeBody, call: ModelCall, record: RecordCall
) -> Reply:
    """Return the reply of a handler to a call, after the call was recorded.

    Every call of a rollout passes here, of any API and streamed or not: events are made of the reply.
    """
    token = current_call.set(call)
    try:
        reply = await collect_reply(handler, scope, request)
    except BaseException as error:
        await record(call, error)
        raise
    finally:
        current_call.reset(token)
    await record(call, reply)
    return reply


def install_model_call_capture(app: GymApp, global_config_dict: Any, model_server_name: str | None) -> None:
    """Record the calls of all rollouts of a model server, if the global configuration enables observability."""
    if not isinstance(global_config_dict, Mapping) or not observability_enabled_from_config(
        global_config_dict
    ):
        return
    for layer in app.layers:
        if isinstance(layer, RolloutCalls):
            layer.observe(CaptureStore(capture_folder(global_config_dict)), model_server_name)


def _build_request(scope: Scope, receive: WholeBody, opening: Opening) -> WholeBody:
    """Return the request with the pinned fields of its rollout."""
    asked = receive.value if receive.value is not None else parse_object(receive.body)
    body = pin_terms(asked, opening.terms, DIALECTS[scope["path"]])
    data = receive.body if body is asked else orjson.dumps(body)
    return WholeBody(data, wait_until_cancelled, body)


def _find_session(scope: Scope) -> str | None:
    """Return the session that a request names; None without one."""
    context = current_context.get()
    is_named = context is not None and any(name == _SESSION for name, _ in scope["headers"])
    return context.session if context is not None and is_named else None


def _is_retry(scope: Scope) -> bool:
    given = dict(scope["headers"]).get(RETRY_HEADER, b"0")
    return given.isdigit() and int(given) > 0


def _refuse_sealed(opening: Opening) -> None:
    if opening.is_sealed or not os.path.exists(opening.folder):  # noqa: PTH110 - a Path costs more than the look
        raise _build_sealed_refusal(opening)


def _build_sealed_refusal(opening: Opening) -> RolloutRefusal:
    return RolloutRefusal(f"rollout {opening.rollout_id} is sealed", code="rollout_sealed", status=409)
