"""The app of every server: FastAPI for routes, schema and docs, behind the gym's middleware."""

from __future__ import annotations

import inspect
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse, Response
from starlette.types import ASGIApp, Receive, Scope, Send

from nemo_gym.failures import InputError
from nemo_gym.serving.middleware import RequestMiddleware
from nemo_gym.serving.rollout_paths import ROLLOUT_PATH_PREFIX, without_prefix
from nemo_gym.serving.routes import DirectRoute, DirectTable

_IN_A_ROLLOUT = f"/{ROLLOUT_PATH_PREFIX}/"


class GymApp(FastAPI):
    """A FastAPI app behind `middleware`, whose direct routes are answered without FastAPI."""

    def __init__(self, middleware: RequestMiddleware, **options: Any) -> None:
        super().__init__(**options)
        self._request_middleware = middleware
        self.router.route_class = DirectRoute
        self.exception_handlers[RequestValidationError] = _answer_validation_error
        self.exception_handlers[Exception] = _leave_to_middleware
        self._direct_table = DirectTable([])

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            if scope["path"].startswith(_IN_A_ROLLOUT):
                scope = without_prefix(scope)
            scope["app"] = self
            handler = self._direct_handler(scope) or super().__call__
            await self._request_middleware(handler, scope, receive, send)
        else:
            await super().__call__(scope, receive, send)

    def _direct_handler(self, scope: Scope) -> ASGIApp | None:
        """The handler of a direct route; None for other routes, and for apps with middleware of their author."""
        routes = self.router.routes
        if len(routes) != self._direct_table.routes:
            self._direct_table = DirectTable(routes)
        if self.user_middleware:
            return None
        return self._direct_table.handlers.get((scope["method"], scope["path"]))

    async def answer_error(self, request: Request, error: Exception) -> Response | None:
        """The response of the app's exception handler for `error`; None where it has none."""
        handler = self._exception_handler(error)
        if handler is None:
            return None
        answered = handler(request, error)
        if inspect.isawaitable(answered):
            answered = await answered
        response: Response = answered
        return response

    def _exception_handler(self, error: Exception) -> Any:
        """The handler of the author for `error`, as Starlette looks it up."""
        handlers = self.exception_handlers
        by_status = handlers.get(getattr(error, "status_code", None))
        by_type = next((handlers[kind] for kind in type(error).__mro__ if kind in handlers), None)
        handler = by_status or by_type
        return None if handler is _leave_to_middleware else handler


async def _answer_validation_error(request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, RequestValidationError)
    problems = [f"{'.'.join(map(str, e['loc'][1:])) or 'body'}: {e['msg']}" for e in error.errors()[:20]]
    failure = InputError("the request is not valid: " + "; ".join(problems), code="invalid_request").failure
    return JSONResponse(failure.to_wire(), status_code=422)


class _NoResponse(Response):
    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Sends nothing."""


async def _leave_to_middleware(request: Request, error: Exception) -> Response:
    """Keeps Starlette from answering "Internal Server Error": it raises the error again, and the middleware answers."""
    return _NoResponse()
