"""What pydantic finds wrong, as problems that name the place and the nearest known key."""

from __future__ import annotations

import re
import typing
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple, TypeVar

from pydantic import BaseModel, ValidationError

from nemo_gym.config.nodes import DictNode, Path, nearest_location, render_path, value_at
from nemo_gym.config.problems import Problems, did_you_mean
from nemo_gym.config.secrets import hide_secrets, is_secret_name

ModelT = TypeVar("ModelT", bound=BaseModel)
_QUOTED = re.compile(r"'([^']*)'")


class Fault(NamedTuple):
    """One thing that is wrong with data, before anybody looks up where that was written."""

    path: Path
    """Keys and list indices from the root of the configuration."""
    message: str
    remedy: str | None = None
    is_missing: bool = False
    """Whether a key that must be given is not."""


def validate(
    model: type[ModelT], data: Mapping[str, Any], root: DictNode, problems: Problems, at: Path = ()
) -> ModelT | None:
    """`data`, which stands at path `at` of `root`, as a `model`; None, and problems, when it is not one."""
    try:
        return model.model_validate(dict(data))
    except ValidationError as error:
        for fault in faults_of(error, model, data, at):
            is_absent_at_top = fault.is_missing and len(fault.path) == 1
            where = None if is_absent_at_top else nearest_location(root, fault.path)
            problems.add(where, fault.message, fault.remedy)
        return None


def faults_of(
    error: ValidationError, model: type[BaseModel], data: Mapping[str, Any], at: Path
) -> Iterator[Fault]:
    """The faults of `data`, which stands at path `at`; one for each value, whatever the branches of its union."""
    for path, details in _by_path(data, error).items():
        message, remedy = _describe(details, (*at, *path), _known_beside(model, path))
        yield Fault((*at, *path), message, remedy, details[0]["type"] == "missing")


def keys_of(model: type[BaseModel]) -> dict[str, str]:
    """The keys of `model` as a user writes them, to the names of their fields."""
    return {field.alias or name: name for name, field in model.model_fields.items()}


def _by_path(data: Mapping[str, Any], error: ValidationError) -> dict[Path, list[Any]]:
    """Pydantic's errors by the value that they are about: a union gives one for each of its branches."""
    found: dict[Path, list[Any]] = {}
    for detail in error.errors(include_url=False):
        found.setdefault(_path_in(data, detail["loc"], detail["type"] == "missing"), []).append(detail)
    return found


def _describe(details: list[Any], path: Path, known: set[str]) -> tuple[str, str | None]:
    """The message and the remedy for what is wrong at `path`."""
    key = render_path(path)
    kind, given = details[0]["type"], details[0]["input"]
    if kind == "extra_forbidden":
        return f"There is no key {key!r}.", did_you_mean(str(path[-1]), known)
    if kind == "missing":
        return f"{key} must be given.", f"Write +{key}=<value>." if "[" not in key else None
    is_shown = isinstance(given, str | int | float) and not any(is_secret_name(str(part)) for part in path)
    got = f", not {hide_secrets(given)!r}" if is_shown else ""
    wanted = [
        detail["msg"].removeprefix("Value error, ").removeprefix("Input should be ") for detail in details
    ]
    remedy = _remedy_for(kind, given, wanted[0]) if is_shown else None
    if all(detail["msg"].startswith("Input should be") for detail in details):
        return f"{key} must be {' or '.join(wanted)}{got}.", remedy
    return f"{key}: {'; '.join(wanted)}{got}.", remedy


def _remedy_for(kind: str, given: str | int | float, wanted: str) -> str | None:
    if kind == "string_type" and not isinstance(given, str):
        return f"Quote it, so that it is text: '\"{given}\"'."
    return did_you_mean(str(given), _QUOTED.findall(wanted)) if kind == "literal_error" else None


def _path_in(data: Any, location: tuple[str | int, ...], is_missing: bool) -> Path:
    """Pydantic's location without the names of union branches that it puts between the keys of the data."""
    path: Path = ()
    for part in location[: len(location) - is_missing]:
        try:
            value_at(data, (*path, part))
        except KeyError:
            continue  # the name of a branch
        path = (*path, part)
    return (*path, location[-1]) if is_missing else path


def _known_beside(model: type[BaseModel], path: Path) -> set[str]:
    """The keys that may stand where the last key of `path` does."""
    models = [model]
    for part in path[:-1]:
        if isinstance(part, str):
            fields = [each.model_fields[name] for each in models if (name := keys_of(each).get(part))]
            models = [inner for field in fields for inner in _models_in(field.annotation)]
    return {key for each in models for key in keys_of(each)}


def _models_in(annotation: Any) -> Iterator[type[BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    for argument in typing.get_args(annotation):
        yield from _models_in(argument)
