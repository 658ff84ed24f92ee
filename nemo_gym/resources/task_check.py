"""The check of task rows by an environment's own models, before a run: those of the bodies of its handlers.

`seed_session` and `verify` read a task row as a pydantic model. The same models check rows before any rollout starts,
so that a wrong field is not found by the rollout that needs it.
"""

from __future__ import annotations

import inspect
import typing
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import orjson
from pydantic import BaseModel, ValidationError

from nemo_gym.rows.models import BaseRunRequest, BaseVerifyRequest

_HANDLERS = ("seed_session", "verify")
_LONGEST_VALUE = 80
_ADDED = BaseVerifyRequest.model_fields.keys() - BaseRunRequest.model_fields.keys()
"""The fields that a task has only when it is verified."""


def find_task_models(server: object) -> list[type[BaseModel]]:
    """Return the models as which the handlers of a server read a task row, each once."""
    found = (_find_body(getattr(server, name, None)) for name in _HANDLERS)
    return list(dict.fromkeys(model for model in found if model is not None))


def check_tasks(models: Sequence[type[BaseModel]], rows: Sequence[Any]) -> list[dict[str, Any]]:
    """Return the faults of task rows: the place in `rows`, the key, the message, and the value if there is one."""
    return [
        {"row": place, **fault}
        for place, row in enumerate(rows)
        for fault in {fault["key"]: fault for model in models for fault in _check(model, row)}.values()
    ]


def _check(model: type[BaseModel], row: Any) -> Iterator[dict[str, Any]]:
    try:
        model.model_validate_json(orjson.dumps(row))
    except ValidationError as error:
        for each in error.errors():
            path = each["loc"]
            if path and path[0] in _ADDED:  # by the agent
                continue
            key = ".".join(map(str, path))
            message = each["msg"].removeprefix("Value error, ")
            shown = {} if each["type"] == "missing" else {"value": _shorten(each["input"])}
            yield {"key": key, "message": message, **shown}


def _find_body(handler: Any) -> type[BaseModel] | None:
    """Return the model among the annotations of a handler; None without one, or with names that are not defined."""
    try:
        hints: Mapping[str, Any] = typing.get_type_hints(handler)
        names = [*inspect.signature(handler).parameters]
    except (TypeError, ValueError, NameError):
        return None
    models = (hints.get(name) for name in names)
    return next((each for each in models if isinstance(each, type) and issubclass(each, BaseModel)), None)


def _shorten(value: Any) -> str:
    text = orjson.dumps(value, default=str).decode()
    return text if len(text) <= _LONGEST_VALUE else f"{text[: _LONGEST_VALUE - 1]}…"
