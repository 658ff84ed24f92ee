"""Error responses: every error of a server has the same JSON envelope (`Failure.to_wire`).

One form is the author's: an endpoint that raises FastAPI's `HTTPException` answers with `{"detail": ...}`, which models
and tests of environments read.
"""

from __future__ import annotations

import logging
import math
from collections.abc import MutableMapping
from dataclasses import replace
from http import HTTPStatus
from typing import Any

import orjson
from fastapi import FastAPI, Request
from fastapi.exception_handlers import http_exception_handler
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.responses import Response

from nemo_gym.failures import Boundary, Failure, GymError, InputError
from nemo_gym.json_objects import object_in, replace_surrogates
from nemo_gym.names import PLACE_HEADER
from nemo_gym.processes.author_code import describe_error, find_error_place, find_function_place
from nemo_gym.serving.error_forms import MESSAGES_PATH, anthropic_error
from nemo_gym.serving.json_response import JsonResponse
from nemo_gym.serving.path_counters import keep_cause
from nemo_gym.transport.control import is_control_route

log = logging.getLogger(__name__)

_PLACED_AT_HANDLER = frozenset({"invalid_request", "unhandled_exception"})
"""Codes of failures that have no line of their own: refused arguments, and a result that is no JSON."""
_BODY_NOT_READ = "There was an error parsing the body"
"""The detail of FastAPI's own error for a body that it cannot read."""


def set_error_form(app: FastAPI) -> None:
    """Give the errors of FastAPI and its router the gym's form, unless the author has handlers for them."""
    if app.exception_handlers.get(HTTPException) is http_exception_handler:
        app.exception_handlers[HTTPException] = _answer_http_exception
    app.exception_handlers[RequestValidationError] = _answer_validation_error


def error_response(
    error: Exception, server: str, boundary: Boundary, scope: MutableMapping[str, Any]
) -> JsonResponse:
    """Build the response of `server` to a request with `scope` whose handler raised `error`."""
    failure = error.failure if isinstance(error, GymError) else _convert_error(error, server, boundary)
    # The message may quote an answer, and JSON cannot hold a lone surrogate.
    failure = replace(failure, message=replace_surrogates(failure.message), peer=failure.peer or server)
    if failure.place is None and failure.code in _PLACED_AT_HANDLER:
        failure = replace(failure, place=_find_handler_place(scope))
    keep_cause(scope, failure.message, failure.place)
    is_message = boundary is Boundary.ENGINE and scope["path"].startswith(MESSAGES_PATH)
    body = anthropic_error(failure) if is_message else failure.to_wire()
    return JsonResponse(orjson.dumps(body), failure.http_status, _retry_headers(failure))


def _find_handler_place(scope: MutableMapping[str, Any]) -> str | None:
    """Return the place of the author's handler of a tool, for errors that no line of it raised."""
    handler = scope.get("endpoint")
    return None if handler is None or is_control_route(scope["path"]) else find_function_place(handler)


def _convert_error(error: Exception, server: str, boundary: Boundary) -> Failure:
    """Convert an unexpected exception. An upstream's failure inside it is passed on with its root cause."""
    upstream = getattr(error, "response_content", None)
    if isinstance(upstream, bytes | str) and upstream:
        passed_on = Failure.from_wire(object_in(upstream), status=getattr(error, "status", None))
        if passed_on is not None:
            return passed_on.add_hop(server)
    log.error("unhandled error in `%s`", server, exc_info=error)
    return Failure(
        boundary=boundary,
        code="unhandled_exception",
        message=describe_error(error),
        peer=server,
        remedy=f"See the log of `{server}` for the traceback.",
        status=500,
        place=find_error_place(error),
    )


async def _answer_http_exception(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    failure = _framework_failure(request, error)
    if failure is None:
        response = await http_exception_handler(request, error)
        place = find_error_place(error)
        keep_cause(request.scope, f"HTTP {error.status_code}: {error.detail}", place)
        if place is not None:
            response.headers[PLACE_HEADER] = place
        return response
    response = error_response(failure, request.app.title, Boundary.INPUT, request.scope)
    response.headers.update(error.headers or {})
    return response


def _framework_failure(request: Request, error: HTTPException) -> InputError | None:
    """Return the failure for an error of the framework; None for one that an author raised."""
    status, server = error.status_code, request.app.title
    if status == HTTPStatus.BAD_REQUEST and error.detail == _BODY_NOT_READ:
        return InputError("the body cannot be read", code="invalid_request", status=status)
    is_routers = type(error) is HTTPException and error.detail == HTTPStatus(status).phrase
    if is_routers and status == HTTPStatus.NOT_FOUND:
        message = f"`{server}` has no route {request.method} {request.url.path}"
        return InputError(
            message, code="no_route", status=status, remedy="GET /openapi.json lists its routes."
        )
    if is_routers and status == HTTPStatus.METHOD_NOT_ALLOWED:
        allowed = (error.headers or {}).get("Allow", "")
        return InputError(
            f"the route {request.url.path} of `{server}` does not accept {request.method}",
            code="method_not_allowed",
            status=status,
            remedy=f"It accepts {allowed}." if allowed else None,
        )
    return None


async def _answer_validation_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, RequestValidationError)
    problems = [f"{'.'.join(map(str, e['loc'][1:])) or 'body'}: {e['msg']}" for e in error.errors()[:20]]
    failure = InputError("the request is not valid: " + "; ".join(problems), code="invalid_request")
    return error_response(failure, request.app.title, Boundary.INPUT, request.scope)


def _retry_headers(failure: Failure) -> dict[str, str]:
    """Return the retry headers for clients that decide by the status alone, such as OpenAI's."""
    if not failure.retryable:
        return {"x-should-retry": "false"}
    if failure.retry_after_s is None:
        return {}
    return {"retry-after": str(math.ceil(failure.retry_after_s))}
