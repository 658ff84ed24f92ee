"""Checks of a provider's class before anything starts: its methods by the protocol, its options by its signature.

The options of a provider are the arguments of its class, and those of a section are the fields of its data class. They
are checked as the options of servers are: unknown and missing names, and values of other types than the annotations.
"""

from __future__ import annotations

import inspect
import json
import typing
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import is_dataclass
from functools import cache
from types import FunctionType, NoneType, UnionType
from typing import Any, Union

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError, create_model
from pydantic.errors import PydanticSchemaGenerationError, PydanticUserError

from nemo_gym.config.problems import Problem
from nemo_gym.config.pydantic_problems import Fault, find_faults, list_keys, list_sibling_keys
from nemo_gym.config.tree import Path
from nemo_gym.sandbox.providers.protocols import (
    SandboxProvider,
    SupportsAvailabilityCheck,
    SupportsImageCheck,
)

_METHODS: Mapping[str, FunctionType] = {
    name: method
    for name, method in vars(SandboxProvider).items()
    if isinstance(method, FunctionType) and not name.startswith("_")
}
_CHECKS = {"find_missing": SupportsAvailabilityCheck, "find_missing_image": SupportsImageCheck}
_NAMED = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)


def find_method_problems(provider_class: object) -> list[str]:
    """Return a clause for every method that a provider's class lacks, or that cannot be called as the protocol says."""
    if not isinstance(provider_class, type):
        return [f"it is no class but {provider_class!r}"]
    if inspect.isabstract(provider_class):
        missing = ", ".join(sorted(getattr(provider_class, "__abstractmethods__", ())))
        return [f"its class {provider_class.__qualname__} is abstract and lacks {missing}"]
    problems = [
        problem
        for name, wanted in _METHODS.items()
        if (problem := _find_method_problem(provider_class, name, wanted)) is not None
    ]
    for name, protocol in _CHECKS.items():
        if hasattr(provider_class, name):
            problems += _find_check_problems(provider_class, name, vars(protocol)[name].__func__)
    return problems


def find_option_problems(
    name: str, provider_class: Callable[..., Any], options: Mapping[str, Any], at: Path
) -> list[Problem]:
    """Return a problem for every wrong option of the provider `name`; `at` is their path in the configuration.

    Options that no configuration can hold, such as a client that a program made, are left to the class.
    """
    model = _build_model(provider_class)
    try:
        text = json.dumps(dict(options))
    except TypeError:
        return []
    try:
        # By the rules of JSON a path is text and a tuple is a list, and still no number is text.
        model.model_validate_json(text, strict=True)
    except ValidationError as error:
        return [
            _describe_fault(fault, name, list_sibling_keys(model, fault.path[len(at) :]))
            for fault in find_faults(error, model, options, at)
        ]
    return []


def describe_options(names: Sequence[str]) -> str:
    """Return a sentence with the names of options; nothing without any."""
    return f"The options are {', '.join(names)}." if names else ""


def list_options(provider_class: Callable[..., Any]) -> list[str]:
    """Return the names of a provider's options, in the order of its signature."""
    return list(list_keys(_build_model(provider_class)))


def _describe_fault(fault: Fault, name: str, known: set[str]) -> Problem:
    message = f"the options of the sandbox provider {name!r} are wrong: {fault.message}"
    is_unknown = fault.path[-1:] and fault.path[-1] not in known
    listed = describe_options(sorted(known)) if is_unknown else ""
    return Problem(None, message, " ".join(part for part in (fault.remedy, listed) if part) or None)


def _find_method_problem(provider_class: type[Any], name: str, wanted: FunctionType) -> str | None:
    method = inspect.getattr_static(provider_class, name, None)
    if method is wanted or method is None:
        is_dynamic = method is None and hasattr(provider_class, "__getattr__")
        return None if is_dynamic else f"it has no method `{name}`"
    if isinstance(method, FunctionType) and not inspect.iscoroutinefunction(inspect.unwrap(method)):
        return f"its method `{name}` is not `async def`"
    return _find_call_problem(provider_class, name, wanted)


def _find_check_problems(provider_class: type[Any], name: str, wanted: FunctionType) -> Iterator[str]:
    method = getattr(provider_class, name)
    is_bound = isinstance(inspect.getattr_static(provider_class, name), classmethod | staticmethod)
    if not is_bound and isinstance(method, FunctionType):
        yield f"its method `{name}` is not a class method"
    elif inspect.iscoroutinefunction(method):
        yield f"its method `{name}` is `async def`, and must not be"
    elif problem := _find_call_problem(provider_class, name, wanted):
        yield problem


def _find_call_problem(provider_class: type[Any], name: str, wanted: FunctionType) -> str | None:
    """Return why a method cannot be called with the arguments of the protocol's; None if it can."""
    _, *parameters = inspect.signature(wanted).parameters.values()
    by_place = [each.name for each in parameters if each.kind is not inspect.Parameter.KEYWORD_ONLY]
    by_name = {each.name: None for each in parameters if each.kind is inspect.Parameter.KEYWORD_ONLY}
    method = getattr(provider_class, name)
    itself = [None] if isinstance(method, FunctionType) else []
    try:
        inspect.signature(method).bind(*itself, *by_place, **by_name)
    except TypeError as error:
        return f"its method `{name}` does not take ({', '.join([*by_place, *by_name])}): {error}"
    except ValueError:  # a callable without a signature
        return None
    return None


@cache
def _build_model(kind: Callable[..., Any]) -> type[BaseModel]:
    """Build the model of the arguments that `kind` takes by name."""
    try:
        parameters = list(inspect.signature(kind).parameters.values())
    except ValueError:  # a class of C
        parameters = []
    hints = _read_hints(kind)
    fields: dict[str, Any] = {
        # A name of its own keeps an option `json` or `_seed` apart from pydantic's names.
        f"option_{number}": (
            _convert_annotation(hints.get(each.name, Any)),
            Field(... if each.default is inspect.Parameter.empty else each.default, alias=each.name),
        )
        for number, each in enumerate(parameters)
        if each.kind in _NAMED
    }
    takes_others = any(each.kind is inspect.Parameter.VAR_KEYWORD for each in parameters)
    form = ConfigDict(extra="allow" if takes_others else "forbid", protected_namespaces=())
    return create_model("Options", __config__=form, **fields)


def _read_hints(kind: Callable[..., Any]) -> dict[str, Any]:
    try:
        function = getattr(kind, "__init__") if isinstance(kind, type) else kind  # noqa: B009 - of the class itself
        return typing.get_type_hints(function, include_extras=True)
    except (NameError, TypeError, AttributeError):  # names that only a type checker imports
        return {}


def _convert_annotation(annotation: Any) -> Any:
    """Return an annotation that JSON can be checked against: Any for others, and a model for a section's class."""
    branches = typing.get_args(annotation) if _is_union(annotation) else (annotation,)
    section = next((each for each in branches if isinstance(each, type) and is_dataclass(each)), None)
    if section is not None:
        model = _build_model(section)
        return model | None if NoneType in branches else model
    try:
        TypeAdapter(annotation)
    except (PydanticSchemaGenerationError, PydanticUserError):
        return Any
    return annotation


def _is_union(annotation: Any) -> bool:
    return typing.get_origin(annotation) in (Union, UnionType)
