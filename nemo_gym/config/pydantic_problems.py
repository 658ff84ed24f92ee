"""Validation errors of pydantic as problems with a location and the nearest known key."""

from __future__ import annotations

import re
import typing
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple, TypeVar

from pydantic import BaseModel, ValidationError

from nemo_gym.config.problems import Problems, did_you_mean
from nemo_gym.config.secrets import hide_secrets, is_secret_name
from nemo_gym.config.tree import DictTree, Path, nearest_location, render_path, value_at

ModelT = TypeVar("ModelT", bound=BaseModel)
_PLAIN_WORDS = {
    "int_parsing": "a whole number",
    "int_type": "a whole number",
    "int_from_float": "a whole number",
    "float_parsing": "a number",
    "float_type": "a number",
    "bool_parsing": "true or false",
    "bool_type": "true or false",
    "string_type": "text",
    "list_type": "a list",
    "dict_type": "a mapping such as {name: value}",
}
"""The words of messages for pydantic's types of errors."""
_EXAMPLES = {
    kind: "true or false" if words == "true or false" else "a number, such as 3"
    for kind, words in _PLAIN_WORDS.items()
    if words.endswith("number") or words == "true or false"
}
_QUOTED = re.compile(r"'([^']*)'")


class Fault(NamedTuple):
    """One error in data, without its location."""

    path: Path
    """Keys and list indices from the root of the configuration."""
    message: str
    remedy: str | None = None
    is_missing: bool = False
    """True if a required key is missing."""
    is_unlike_any: bool = False
    """True if a key is unknown, and too different from every known one to be a misspelling."""


def validate(
    model: type[ModelT], data: Mapping[str, Any], root: DictTree, problems: Problems, at: Path = ()
) -> ModelT | None:
    """Validate `data`, which is at path `at` of `root`. Returns None, and adds problems, if it is invalid."""
    try:
        return model.model_validate(dict(data))
    except ValidationError as error:
        for fault in find_faults(error, model, data, at):
            has_no_place = not fault.path or (fault.is_missing and len(fault.path) == 1)
            where = None if has_no_place else nearest_location(root, fault.path)
            problems.add(where, fault.message, fault.remedy)
        return None


def find_faults(
    error: ValidationError, model: type[BaseModel], data: Mapping[str, Any], at: Path
) -> Iterator[Fault]:
    """Yield the faults of `data`, which is at path `at`: one for each value, also for unions."""
    for path, details in errors_by_path(error, data).items():
        message, remedy = _describe(details, (*at, *path), list_sibling_keys(model, path))
        yield Fault((*at, *path), message, remedy, details[0]["type"] == "missing")


def list_keys(model: type[BaseModel]) -> dict[str, str]:
    """Return the field name for each key of `model` as a user writes it."""
    return {field.alias or name: name for name, field in model.model_fields.items()}


def errors_by_path(error: ValidationError, data: Any) -> dict[Path, list[Any]]:
    """Group pydantic's errors by the value in `data` that they are about.

    A union has an error for each of its branches. An error of a container is left out if there is one inside it: it is
    from a branch that fits the value less.
    """
    found: dict[Path, list[Any]] = {}
    for detail in error.errors(include_url=False):
        found.setdefault(_path_in(data, detail["loc"], detail["type"] == "missing"), []).append(detail)
    containers = {path[:length] for path in found for length in range(len(path))}
    return {path: details for path, details in found.items() if path not in containers}


def _describe(details: list[Any], path: Path, known: set[str]) -> tuple[str, str | None]:
    """Return the message and the remedy for the errors at `path`."""
    key = render_path(path)
    kind, given = details[0]["type"], details[0]["input"]
    if kind == "extra_forbidden":
        return f"There is no key {key!r}.", did_you_mean(str(path[-1]), known)
    if kind == "missing":
        return f"{key} is required.", f"Write +{key}=<value>." if "[" not in key else None
    is_shown = isinstance(given, str | int | float) and not any(is_secret_name(str(part)) for part in path)
    wanted = [
        _PLAIN_WORDS.get(detail["type"])
        or detail["msg"].removeprefix("Value error, ").removeprefix("Input should be ")
        for detail in details
    ]
    is_named = isinstance(given, str) and any(repr(given) in words for words in wanted)
    got = f", not {hide_secrets(given)!r}" if is_shown and not is_named else ""
    remedy = _remedy_for(kind, given, " ".join(wanted)) if is_shown else None
    if all(detail["type"] == "literal_error" for detail in details):
        return f"{key} must be {_choice(wanted)}{got}.", remedy
    if all(detail["msg"].startswith("Input should be") for detail in details):
        return f"{key} must be {' or '.join(wanted)}{got}.", remedy
    return f"{f'{key}: ' if key else ''}{'; '.join(wanted)}{got}.", remedy


def _choice(wanted: list[str]) -> str:
    """Return the values of several choices as those of one."""
    *others, last = dict.fromkeys(f"'{value}'" for words in wanted for value in _QUOTED.findall(words))
    return f"{', '.join(others)} or {last}" if others else last


def _remedy_for(kind: str, given: str | int | float, wanted: str) -> str | None:
    if kind in _EXAMPLES:
        return f"Write {_EXAMPLES[kind]}."
    if kind == "string_type" and not isinstance(given, str):
        return f"Quote it to make it text: '\"{given}\"'."
    return did_you_mean(str(given), _QUOTED.findall(wanted)) if kind == "literal_error" else None


def _path_in(data: Any, location: tuple[str | int, ...], is_missing: bool) -> Path:
    """Return pydantic's location without the names of union branches."""
    path: Path = ()
    for part in location[: len(location) - is_missing]:
        try:
            value_at(data, (*path, part))
        except KeyError:
            continue  # the name of a union branch
        path = (*path, part)
    return (*path, location[-1]) if is_missing else path


def list_sibling_keys(model: type[BaseModel], path: Path) -> set[str]:
    """Return the keys of `model` that are valid in place of the last key of `path`."""
    models = [model]
    for part in path[:-1]:
        if isinstance(part, str):
            fields = [each.model_fields[name] for each in models if (name := list_keys(each).get(part))]
            models = [inner for field in fields for inner in _models_in(field.annotation)]
    return {key for each in models for key in list_keys(each)}


def _models_in(annotation: Any) -> Iterator[type[BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    for argument in typing.get_args(annotation):
        yield from _models_in(argument)
