"""The check at start that the handlers of a resources server can be called as tools.

A tool gets its arguments as the JSON object in the body of a `POST`. FastAPI takes only a parameter with the type of a
pydantic model, a dataclass or a `dict`, or one with `Body()`, from the body. It takes every other one from the query of
the URL, so that each call is refused with 422. A parameter that an author marks as `Query()` is wanted there.
"""

from __future__ import annotations

import inspect
import logging
from collections.abc import Callable, Iterator
from typing import Any

from fastapi import FastAPI, params
from fastapi.routing import APIRoute

from nemo_gym.config.problems import ConfigErrors, Location, Problem
from nemo_gym.processes.author_code import locate_function
from nemo_gym.resources.mcp_tools import is_tool_path, post_routes

log = logging.getLogger(__name__)

_SCALARS = (str, bytes, int, float, bool)


def refuse_unusable_handlers(app: FastAPI) -> None:
    """Raise `ConfigErrors` for handlers of tools that refuse every call; warn of those without arguments.

    Of the gym's own routes it only warns: not every agent calls all of them, and one that is refused fails a rollout.
    """
    routes = [route for route in post_routes(app) if route.include_in_schema]
    problems = []
    for route in routes:
        for problem in _problems_in(route):
            if is_tool_path(route.path):
                problems.append(problem)
            else:
                log.warning("%s", problem)
    if problems:
        raise ConfigErrors(problems)
    for route in routes:
        if ignored := _find_ignored_parameters(route):
            log.warning(
                "POST %s gets no arguments: FastAPI reads %s from the query of the URL (%s)",
                route.path,
                ", ".join(ignored),
                Location(*locate_function(route.endpoint)),
            )


def describe_posted(server: object, app: FastAPI) -> dict[str, Any]:
    """Return the paths of an app's `POST` routes, and the author's public methods that no route calls.

    `methods` has the place of each, because the author may have forgotten `app.post`.
    """
    routes = post_routes(app)
    routed = {getattr(inspect.unwrap(route.endpoint), "__name__", "") for route in routes}
    return {
        "paths": sorted({route.path for route in routes if route.include_in_schema}),
        "methods": {
            name: str(Location(*locate_function(function)))
            for name, function in _authors_methods(type(server))
            if name not in routed
        },
    }


def _authors_methods(server_class: type) -> Iterator[tuple[str, Callable[..., Any]]]:
    """Yield the public methods that an author added to the gym's classes."""
    of_gym = {name for each in server_class.__mro__ if _is_gyms(each) for name in dir(each)}
    for each in reversed(server_class.__mro__):
        for name, value in vars(each).items():
            is_added = not _is_gyms(each) and name not in of_gym and not name.startswith("_")
            if is_added and inspect.isfunction(value):
                yield name, value


def _is_gyms(each: type) -> bool:
    return each.__module__.partition(".")[0] in ("nemo_gym", "pydantic", "builtins")


def _problems_in(route: APIRoute) -> Iterator[Problem]:
    signature = _read_signature(route.endpoint)
    name = getattr(route.endpoint, "__name__", "the handler")
    where = Location(*locate_function(route.endpoint))
    queried = [
        parameter
        for field in route.dependant.query_params
        if field.field_info.is_required() and (parameter := _implicit(signature, field.name)) is not None
    ]
    if queried:
        shown = ", ".join(f"`{_show_parameter(parameter)}`" for parameter in queried)
        yield Problem(
            where,
            f"`{name}` cannot be called by POST {route.path}: FastAPI reads {shown} from the query of the URL, "
            "and the arguments of a call are in its body.",
            _remedy(name, queried),
        )
    if (alone := _lone_scalar(route)) is not None:
        yield Problem(
            where,
            f"`{name}` cannot be called by POST {route.path}: FastAPI reads the whole body as `{alone}`, "
            "and the body is the object of all arguments.",
            f"Write `{alone}: ... = Body(embed=True)`, or take a pydantic model of the arguments.",
        )


def _remedy(name: str, queried: list[inspect.Parameter]) -> str:
    """Return what to write instead."""
    model = "".join(part.capitalize() for part in name.strip("_").split("_")) + "Request"
    own = [
        each
        for each in queried
        if each.name not in ("self", "request", "body") and each.kind not in _VARIADIC
    ]
    lines = []
    if any(each.name == "self" for each in queried):
        lines.append(f"Register the method of the server: app.post(...)(self.{name}).")
    if any(each.name == "request" for each in queried):
        lines.append("Write `request: Request` for the request.")
    fields = "; ".join(_show_parameter(each) if _is_typed(each) else f"{each.name}: str" for each in own)
    named = f" with the fields `{fields}`" if fields else " of the arguments"
    if own or any(each.name == "body" or each.kind in _VARIADIC for each in queried):
        lines.append(f"Write `body: {model}`, where {model} is a pydantic model{named}.")
    return " ".join(lines)


_VARIADIC = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)


def _find_ignored_parameters(route: APIRoute) -> list[str]:
    """Return the parameters that only a query could set, of a handler that reads neither body nor request."""
    needs = route.dependant
    if needs.body_params or needs.request_param_name or needs.dependencies:
        return []
    signature = _read_signature(route.endpoint)
    return [field.name for field in needs.query_params if _implicit(signature, field.name) is not None]


def _implicit(signature: inspect.Signature, name: str) -> inspect.Parameter | None:
    """Return a parameter that its author did not mark as one of the query; None for the others."""
    parameter = signature.parameters.get(name)
    if parameter is None or isinstance(parameter.default, params.Param):
        return None
    marks = getattr(parameter.annotation, "__metadata__", ())
    return None if any(isinstance(mark, params.Param) for mark in marks) else parameter


def _lone_scalar(route: APIRoute) -> str | None:
    """Return the only body parameter if no object can be its value."""
    fields = route.dependant.body_params
    if len(fields) != 1 or isinstance(fields[0].field_info, params.Form):
        return None
    info = fields[0].field_info
    is_scalar = isinstance(info.annotation, type) and issubclass(info.annotation, _SCALARS)
    return fields[0].name if is_scalar and not getattr(info, "embed", None) else None


def _read_signature(endpoint: Callable[..., Any]) -> inspect.Signature:
    try:
        return inspect.signature(endpoint, eval_str=True)
    except (AttributeError, NameError, SyntaxError, TypeError):  # a name of the type checker only
        return inspect.signature(endpoint)


def _is_typed(parameter: inspect.Parameter) -> bool:
    return parameter.annotation is not inspect.Parameter.empty


def _show_parameter(parameter: inspect.Parameter) -> str:
    return str(parameter.replace(default=inspect.Parameter.empty))
