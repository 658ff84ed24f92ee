"""The app of every server: FastAPI for routes, schema and docs, behind the gym's middleware."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any, TypeAlias

from fastapi import FastAPI, Request
from fastapi.responses import Response
from starlette.middleware.errors import ServerErrorMiddleware
from starlette.routing import Match
from starlette.types import ASGIApp, Receive, Scope, Send

from nemo_gym.serving._error_responses import set_error_form
from nemo_gym.serving.middleware import RequestMiddleware
from nemo_gym.serving.rollout_paths import ROLLOUT_PATH_PREFIX, run_in_rollout, strip_prefix
from nemo_gym.serving.routes import DirectRoute, DirectTable

Layer: TypeAlias = Callable[[ASGIApp, Scope, Receive, Send], Awaitable[None]]
"""Handles a request by its first argument, the handler within it."""
_RequestKey: TypeAlias = tuple[str, str, int, int]
"""The method and the path of a request, and the numbers of the app's routes and layers."""
_IN_A_ROLLOUT = f"/{ROLLOUT_PATH_PREFIX}/"


class GymApp(FastAPI):
    """A FastAPI app behind `middleware`, whose direct routes are answered without FastAPI."""

    def __init__(self, middleware: RequestMiddleware, **options: Any) -> None:
        super().__init__(**options)
        self._request_middleware = middleware
        self.router.route_class = DirectRoute
        set_error_form(self)
        self._direct_table = DirectTable([])
        self.layers: list[Layer] = []
        """Around the handler of every HTTP request, within its session; the last one is the innermost."""
        self._known: dict[_RequestKey, ASGIApp] = {}
        """The handlers of direct routes within the layers, as far as they have been asked for."""

    def build_middleware_stack(self) -> ASGIApp:
        """Build FastAPI's stack without its outermost layer, which would answer errors with plain text.

        The gym's middleware answers them. A handler of the author for `Exception` keeps that layer.
        """
        outermost = super().build_middleware_stack()
        if isinstance(outermost, ServerErrorMiddleware) and outermost.handler is None:
            return outermost.app
        return outermost

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            scope["app"] = self
            key = scope["method"], scope["path"], len(self.router.routes), len(self.layers)
            handler = self._known.get(key)
            if handler is not None:
                await self._request_middleware(handler, scope, receive, send)
            else:
                await self._find_and_answer(key, scope, receive, send)
        elif scope["type"] == "websocket":
            await self._request_middleware(super().__call__, scope, receive, send)
        else:
            await super().__call__(scope, receive, send)

    async def _find_and_answer(self, key: _RequestKey, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer the first request of a direct route, or any other."""
        is_prefixed = scope["path"].startswith(_IN_A_ROLLOUT)
        if is_prefixed:
            scope = strip_prefix(scope)
        direct = self.find_direct_handler(scope)
        handler = direct or super().__call__
        for layer in reversed(self.layers):
            handler = partial(layer, handler)
        if direct is not None and not is_prefixed:
            self._known[key] = handler
        if is_prefixed and "path_params" in scope:
            handler = partial(run_in_rollout, handler)
        has_route = None if direct is not None else self.has_route
        await self._request_middleware(handler, scope, receive, send, has_route)

    def has_route(self, scope: Scope) -> bool:
        """Return whether a route takes a request; always True if the app has its own middleware, which may take any."""
        if self.user_middleware:
            return True
        scope = dict(scope)  # routers note their routes in it
        return any(route.matches(scope)[0] is Match.FULL for route in self.router.routes)

    def find_handler(self, scope: Scope) -> ASGIApp:
        """Return the handler of a request's path and method, without the layers around it.

        It is that of a direct route, or the whole app: for other routes, and if the app has its own middleware.
        """
        return self.find_direct_handler(scope) or super().__call__

    def find_direct_handler(self, scope: Scope) -> ASGIApp | None:
        """Return the handler of a direct route, or None."""
        table, routes = self._direct_table, self.router.routes
        if len(routes) != table.routes:
            table = self._direct_table = DirectTable(routes)
        return None if self.user_middleware else table.handlers.get((scope["method"], scope["path"]))

    async def answer_error(self, request: Request, error: Exception) -> Response | None:
        """Return the response of the app's exception handler for `error`; None without such a handler."""
        handlers = self.exception_handlers
        by_status = handlers.get(getattr(error, "status_code", None))
        by_type = next((handlers[kind] for kind in type(error).__mro__ if kind in handlers), None)
        handler = by_status or by_type
        if handler is None:
            return None
        answered = handler(request, error)
        if inspect.isawaitable(answered):
            answered = await answered
        response: Response = answered
        return response
