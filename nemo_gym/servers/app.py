"""The app of every server: FastAPI for routes, schema and docs, behind the gate."""

from __future__ import annotations

import inspect
from collections.abc import Coroutine
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse, Response

from nemo_gym.failures import InputError
from nemo_gym.servers.gate import Gate, handle_by
from nemo_gym.servers.inbound import Carrier, Handle, Inbound, Receive, Scope, Send
from nemo_gym.servers.rollout_paths import ROLLOUT_PATH_PREFIX, without_prefix
from nemo_gym.servers.routes import DirectRoute, DirectTable
from nemo_gym.transport.calls import Call

_IN_A_ROLLOUT = f"/{ROLLOUT_PATH_PREFIX}/"


class GymApp(FastAPI):
    """A FastAPI app whose requests pass a gate, and whose plain routes are answered without FastAPI."""

    def __init__(self, gate: Gate, **options: Any) -> None:
        super().__init__(**options)
        self.gate = gate
        self.answer = gate.answer
        self.router.route_class = DirectRoute
        self.exception_handlers[RequestValidationError] = _answer_validation_error
        self._plain_routes = DirectTable([])
        self.answers_calls = type(self).__call__ is GymApp.__call__
        """Whether plain routes may be answered without ASGI: a subclass that wraps `__call__` sees every request."""

    def handler_of(self, method: str, path: str) -> Handle | None:
        """What answers a plain route; None for all that is FastAPI's: other routes, and apps with middleware."""
        routes = self.router.routes
        if len(routes) != self._plain_routes.routes:
            self._plain_routes = DirectTable(routes)
        return None if self.user_middleware else self._plain_routes.handlers.get((method, path))

    def is_watched(self, path: str) -> bool:
        return path in self.gate.watched

    def answer_to(self, call: Call, carrier: Carrier) -> Coroutine[Any, Any, Response | None] | None:
        """The answer of a plain route to a call through memory; None where ASGI has to carry the call."""
        if not self.answers_calls:
            return None
        inbound = Inbound.of_call(call, carrier, self)
        handle = self.handler_of(inbound.method, inbound.path)
        return None if handle is None else self.answer(inbound, handle)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await super().__call__(scope, receive, send)
            return
        if scope["path"].startswith(_IN_A_ROLLOUT):
            scope = without_prefix(scope)
        scope["app"] = self
        handle = self.handler_of(scope["method"], scope["path"]) or handle_by(super().__call__)
        await self.gate.serve(handle, scope, receive, send)

    async def answer_error(self, inbound: Inbound, error: Exception) -> Response | None:
        """What the app's exception handlers make of an error; None where there is none for it."""
        answering = self._handler_of(error)
        if answering is None:
            return None
        answer = answering(inbound.request(), error)
        if inspect.isawaitable(answer):
            answer = await answer
        response: Response = answer
        return response

    def _handler_of(self, error: Exception) -> Any:
        """What the app's exception handlers have for `error`, as Starlette looks it up."""
        by_status = self.exception_handlers.get(getattr(error, "status_code", None))
        return by_status or next(
            (
                self.exception_handlers[kind]
                for kind in type(error).__mro__
                if kind in self.exception_handlers
            ),
            None,
        )


async def _answer_validation_error(request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, RequestValidationError)
    problems = [f"{'.'.join(map(str, e['loc'][1:])) or 'body'}: {e['msg']}" for e in error.errors()[:20]]
    failure = InputError("the request is not valid: " + "; ".join(problems), code="invalid_request").failure
    return JSONResponse(failure.to_wire(), status_code=422)
