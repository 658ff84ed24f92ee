"""Routes answered from bytes to bytes: one pydantic validation in, one dump out, OpenAPI kept.

`DirectRoute` is a FastAPI route whose endpoint takes nothing but a request, a response and one body model.
Such an endpoint needs none of FastAPI's dependency machinery, which costs more than the rest of the hop
together; the app answers it from a table of exact paths (`DirectTable`). Every other route goes through FastAPI.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any

import orjson
from fastapi import Response
from fastapi.routing import APIRoute
from pydantic import BaseModel, ValidationError

from nemo_gym.failures import InputError
from nemo_gym.servers.context import LEAVE_OUT_HEADER
from nemo_gym.servers.inbound import Handle, Inbound, JsonAnswer, is_whole

_WITHOUT_BODY = frozenset({204, 205, 304})


class DirectRoute(APIRoute):
    """A FastAPI route that also offers `direct`, its handler without FastAPI, where its signature allows it."""

    direct: Handle | None = None

    def __init__(self, path: str, endpoint: Callable[..., Any], **options: Any) -> None:
        super().__init__(path, endpoint, **options)
        self.direct = direct_handler(self)


def direct_handler(route: APIRoute) -> Handle | None:
    """A handler from body bytes to an answer, or None when the endpoint needs FastAPI."""
    needs = route.dependant
    if (
        not inspect.iscoroutinefunction(route.endpoint)
        or needs.path_params
        or needs.query_params
        or needs.header_params
        or needs.cookie_params
        or needs.dependencies
        or needs.websocket_param_name
        or needs.http_connection_param_name
        or needs.background_tasks_param_name
        or needs.security_scopes_param_name
        or len(needs.body_params) > 1
        or route.dependencies
    ):
        return None
    if not needs.body_params:
        return _bind(route, None, None)
    field = needs.body_params[0]
    model: Any = field.field_info.annotation
    if not (isinstance(model, type) and issubclass(model, BaseModel)):
        return None
    return _bind(route, field.name, model)


def _bind(route: APIRoute, body_name: str | None, body_model: type[BaseModel] | None) -> Handle:
    endpoint = route.endpoint
    request_name = route.dependant.request_param_name
    response_name = route.dependant.response_param_name
    status = route.status_code or 200

    async def handle(inbound: Inbound) -> Response | None:
        arguments: dict[str, Any] = {}
        try:
            if body_model is not None and body_name is not None:
                arguments[body_name] = parse_body(body_model, inbound.body)
            if request_name is not None:
                arguments[request_name] = inbound.request()
            if response_name is not None:
                arguments[response_name] = _empty_response()
            result = await endpoint(**arguments)
            left_out = inbound.headers.get(LEAVE_OUT_HEADER)
            answer = _response_of(result, status, arguments.get(response_name or ""), left_out)
        except Exception as error:
            handled = await inbound.app.answer_error(inbound, error) if inbound.app is not None else None
            if handled is None:
                raise
            answer = handled
        if is_whole(answer):
            return answer
        await answer(inbound.scope(), inbound.carrier.receive, inbound.send)
        return None

    return handle


def _empty_response() -> Response:
    """What an endpoint sets its answer's headers and status in."""
    response = Response()
    del response.headers["content-length"]
    return response


def _response_of(result: Any, status: int, given: Response | None, left_out: str | None) -> Response:
    """The answer that an endpoint's result is, with what it has set in the response it was `given`."""
    if isinstance(result, Response):
        return result
    if given is not None and given.status_code != 200:
        status = given.status_code
    answer = (
        Response(status_code=status)
        if status in _WITHOUT_BODY
        else JsonAnswer(dump_body(result, left_out), status)
    )
    if given is not None:
        answer.raw_headers += given.raw_headers
    return answer


def parse_body(model: type[BaseModel], body: bytes) -> BaseModel:
    """Validate once from bytes; raises `InputError` that names every field at fault."""
    try:
        return model.model_validate_json(body or b"{}")
    except ValidationError as error:
        problems = [f"{'.'.join(map(str, e['loc'])) or 'body'}: {e['msg']}" for e in error.errors()[:20]]
        first = error.errors()[0]["loc"]
        raise InputError(
            f"the request is not a valid {model.__name__}: " + "; ".join(problems),
            code="invalid_request",
            param=".".join(map(str, first)) or None,
        ) from error


def dump_body(result: Any, left_out: str | None = None) -> bytes:
    """A handler's result as JSON bytes, by the result's own type, so that no field of a subclass is lost.

    `left_out` names fields of a model, separated by commas, that the caller has already.
    """
    if isinstance(result, BaseModel):
        exclude = _fields_named(left_out) if left_out is not None else None
        return result.__pydantic_serializer__.to_json(result, by_alias=True, exclude=exclude)
    return orjson.dumps(
        result, default=_dump_object, option=orjson.OPT_SERIALIZE_NUMPY | orjson.OPT_NON_STR_KEYS
    )


@lru_cache(maxsize=64)
def _fields_named(names: str) -> set[str]:
    return {name.strip() for name in names.split(",")}


def _dump_object(value: Any) -> Any:
    if isinstance(value, BaseModel):
        return value.model_dump(mode="json", by_alias=True)
    if isinstance(value, set | frozenset | tuple):
        return list(value)
    raise TypeError(f"a handler answered a {type(value).__name__}, which is not JSON")


class DirectTable:
    """Exact (method, path) → handler, for the routes that no earlier route could also match."""

    def __init__(self, routes: Sequence[Any]) -> None:
        self.routes = len(routes)
        """How many it was made of."""
        self.handlers: dict[tuple[str, str], Handle] = {}
        earlier: list[Any] = []
        for route in routes:
            if isinstance(route, DirectRoute) and route.direct is not None and "{" not in route.path:
                for method in route.methods or ():
                    if not any(_may_match(other, method, route.path) for other in earlier):
                        self.handlers.setdefault((method, route.path), route.direct)
            earlier.append(route)


def _may_match(route: Any, method: str, path: str) -> bool:
    if isinstance(route, DirectRoute) and "{" not in route.path:
        return route.path == path and method in (route.methods or ())
    regex = getattr(route, "path_regex", None)
    if regex is None:
        return True
    methods = getattr(route, "methods", None)
    return regex.match(path) is not None and (methods is None or method in methods)
