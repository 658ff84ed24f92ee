"""The check of task rows by an environment's own models, before a run: those of the bodies of its handlers.

`seed_session` and `verify` read a task row as a pydantic model. The same models check rows before any rollout starts,
so that a wrong field is not found by the rollout that needs it. Harmless answers stand in for the response, which only
an attempt has, so that validators of the whole model see every row; such a validator must refuse both of them.
The schema `TaskData` in `task_data.py` beside the environment's file checks the fields of rows, too. `check_task` of an
environment refuses what its models cannot: a task that no attempt can solve.
"""

from __future__ import annotations

import asyncio
import inspect
import typing
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import orjson
from pydantic import BaseModel, TypeAdapter, ValidationError
from pydantic_core import ErrorDetails

from nemo_gym.config.pydantic_problems import errors_by_path
from nemo_gym.failures import ConfigError, InputError
from nemo_gym.resources.answer_fault_rule import harmless_output
from nemo_gym.resources.task_schemas import load_task_data_schema, normalize_task_fields
from nemo_gym.resources.unread_keys import DeclaredKeys
from nemo_gym.responses.responses_answer import build_envelope
from nemo_gym.rows.compose import attach_response
from nemo_gym.rows.models import BaseRunRequest, BaseVerifyRequest

_HANDLERS = ("seed_session", "verify")
_LONGEST_VALUE = 80
_ADDED = BaseVerifyRequest.model_fields.keys() - BaseRunRequest.model_fields.keys()
"""The fields that a task has only when it is verified."""
_RESPONSE = build_envelope({}, ids=lambda prefix: f"{prefix}_check", now=0.0) | {
    "model": "check",
    "status": "completed",
}


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
        """`server`: the server or its class. `check_task`: that of the server, if its author wrote one."""
        self._models = find_task_models(server)
        self._check_task = check_task
        self._model = _find_body(check_task)
        is_stepped = hasattr(server, "reset") and hasattr(server, "step")  # with the row as a dict
        are_all = all(_find_body(getattr(server, name, None)) is not None for name in _HANDLERS)
        own = [self._model] if self._model is not None else []
        self._server = server if isinstance(server, type) else type(server)
        self._declared = DeclaredKeys([*self._models, *own], are_all=are_all and not is_stepped)

    async def answer(self, rows: Sequence[Any]) -> dict[str, Any]:
        """Return the `faults` and the `notes` of task rows."""
        return {"faults": await self.find_faults(rows), "notes": self.find_notes(rows)}

    @cached_property
    def _schema(self) -> TypeAdapter[Any] | ConfigError | None:
        """The schema in `task_data.py` beside the server's file, or why it cannot be used; None without that file."""
        try:
            return load_task_data_schema(Path(inspect.getfile(self._server)).parent)
        except (OSError, TypeError):  # a class that is of no file
            return None
        except ConfigError as error:
            return error

    async def find_faults(self, rows: Sequence[Any]) -> list[dict[str, Any]]:
        """Return the faults of task rows as `check_tasks` does. Those of `check_task` have a remedy and no value."""
        faults = await asyncio.to_thread(check_tasks, self._models, rows)
        for place, row in enumerate(rows):
            if isinstance(row, Mapping):
                known = {fault["key"] for fault in faults if fault["row"] == place}
                found = [*self._declared.find_faults(row), *self._find_schema_faults(row)]
                faults += [{"row": place, **fault} for fault in found if fault["key"] not in known]
        if self._check_task is not None and self._model is not None:
            faulty = {fault["row"] for fault in faults}
            for place, row in enumerate(rows):
                if place not in faulty:
                    faults += [{"row": place, **fault} for fault in await self._refuse(row)]
        return sorted(faults, key=lambda fault: fault["row"])

    def find_notes(self, rows: Sequence[Any]) -> list[dict[str, Any]]:
        """Return what is likely a mistake and no fault: the place in `rows` and the message."""
        unused = [{"row": 0, "message": str(self._schema)}] if isinstance(self._schema, ConfigError) else []
        return unused + [
            {"row": place, "message": message}
            for place, row in enumerate(rows)
            if isinstance(row, Mapping)
            for message in self._declared.find_notes(row)
        ]

    def _find_schema_faults(self, row: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
        if not isinstance(self._schema, TypeAdapter):
            return
        fields, conflicts = normalize_task_fields(row)
        yield from (
            {"key": key, "message": "is in the row twice, with different values"} for key in conflicts
        )
        try:
            self._schema.validate_json(orjson.dumps(fields))
        except ValidationError as error:
            yield from (_describe(path, details) for path, details in errors_by_path(error, fields).items())

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
    faults = _find_faults(model, row, [])
    if any(not fault["key"] for fault in faults) and _lacks_response(model, row):
        others = _find_faults(model, row, harmless_output([]))
        faults = [fault for fault in faults if fault["key"] or fault in others]
    yield from faults


def _find_faults(model: type[BaseModel], row: Any, output: Sequence[Any]) -> list[dict[str, Any]]:
    """Return the faults of a row whose attempt has this output."""
    if _lacks_response(model, row):
        row = attach_response(row, _RESPONSE | {"output": output})
    try:
        model.model_validate_json(orjson.dumps(row))
    except ValidationError as error:
        found = errors_by_path(error, row)
        return [
            _describe(path, details) for path, details in found.items() if not path or path[0] not in _ADDED
        ]
    except Exception:  # noqa: BLE001 - an author's validator, which may have failed for the answer that stands in
        return []
    return []


def _lacks_response(model: type[BaseModel], row: Any) -> bool:
    return isinstance(row, Mapping) and model.model_fields.keys() >= _ADDED and not _ADDED & row.keys()


def _describe(path: Sequence[str | int], details: Sequence[ErrorDetails]) -> dict[str, Any]:
    """Return a fault; the branches of a union are alternatives."""
    first, *others = dict.fromkeys(detail["msg"].removeprefix("Value error, ") for detail in details)
    message = " or ".join([first, *(other.removeprefix("Input should be ") for other in others)])
    is_shown = path and details[0]["type"] != "missing"
    shown = {"value": _shorten(details[0]["input"])} if is_shown else {}
    return {"key": ".".join(map(str, path)), "message": message, **shown}


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
