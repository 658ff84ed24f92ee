"""The check of task rows by an environment's own models, before a run: those of the bodies of its handlers.

`seed_session` and `verify` read a task row as a pydantic model. The same models check rows before any rollout starts,
so that a wrong field is not found by the rollout that needs it. `check_task` of an environment refuses what its models
cannot: a task that no attempt can solve.
"""

from __future__ import annotations

import asyncio
import inspect
import typing
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from typing import Any

import orjson
from pydantic import BaseModel, ValidationError

from nemo_gym.config.pydantic_problems import errors_by_path
from nemo_gym.failures import InputError
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


class TaskCheck:
    """The check of an environment's task rows: by its models, and by its `check_task` if its author wrote one."""

    def __init__(self, server: object, check_task: Callable[[Any], Awaitable[None]] | None) -> None:
        self._models = find_task_models(server)
        self._check_task = check_task
        self._model = _find_body(check_task)

    async def find_faults(self, rows: Sequence[Any]) -> list[dict[str, Any]]:
        """Return the faults of task rows as `check_tasks` does. Those of `check_task` have a remedy and no value."""
        faults = await asyncio.to_thread(check_tasks, self._models, rows)
        if self._check_task is not None and self._model is not None:
            faulty = {fault["row"] for fault in faults}
            for place, row in enumerate(rows):
                if place not in faulty:
                    faults += [{"row": place, **fault} for fault in await self._refuse(row)]
        return sorted(faults, key=lambda fault: fault["row"])

    async def _refuse(self, row: Any) -> list[dict[str, Any]]:
        assert self._check_task is not None
        assert self._model is not None
        try:
            await self._check_task(self._model.model_validate_json(orjson.dumps(row)))
        except InputError as error:
            failure = error.failure
            return [{"key": failure.param or "", "message": failure.message, "remedy": failure.remedy}]
        return []


def _check(model: type[BaseModel], row: Any) -> Iterator[dict[str, Any]]:
    try:
        model.model_validate_json(orjson.dumps(row))
    except ValidationError as error:
        for path, details in errors_by_path(error, row).items():
            if path and path[0] in _ADDED:  # by the agent
                continue
            shown = {} if details[0]["type"] == "missing" else {"value": _shorten(details[0]["input"])}
            yield {"key": ".".join(map(str, path)), "message": _join_messages(details), **shown}


def _join_messages(details: Sequence[Mapping[str, Any]]) -> str:
    """Return the message on a value; the branches of a union are alternatives."""
    first, *others = dict.fromkeys(detail["msg"].removeprefix("Value error, ") for detail in details)
    return " or ".join([first, *(other.removeprefix("Input should be ") for other in others)])


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
