"""Keys of task rows that nothing reads, although their authors meant something by them.

A request parameter such as `tools` belongs into `responses_create_params`: beside it, no model gets it. A key that
resembles an optional one of the environment is likely to be that key, misspelled. Other keys are a dataset's own.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from difflib import get_close_matches
from typing import Any

from pydantic import BaseModel

from nemo_gym.rows.parts import TASK_KEYS, read_params

_LONE_PARAMETERS = {
    "tools": list,
    "tool_choice": str | dict,
    "parallel_tool_calls": bool,
    "max_tool_calls": int,
    "max_output_tokens": int,
    "temperature": int | float,
    "top_p": int | float,
    "top_logprobs": int,
}
"""Request parameters with the types of their values. Datasets use other names of parameters for things of their own,
such as `metadata`, `text` or `prompt`."""
_HIGHEST = {"temperature": 2, "top_p": 1}
_CLOSE = 0.8


class DeclaredKeys:
    """The keys that the models of an environment declare."""

    def __init__(self, models: Iterable[type[BaseModel]], *, are_all: bool = True) -> None:
        """`are_all`: every handler of the environment reads a row as one of the models."""
        self._models = list(models)
        self._keys = {
            str(name)
            for model in self._models
            for field, about in model.model_fields.items()
            for name in (field, about.alias or field, about.validation_alias or field)
        }
        self.are_all = are_all and not any(_may_read_others(model) for model in self._models)
        """False if an environment may read keys that no model of it declares."""

    def find_faults(self, row: Mapping[str, Any]) -> Iterator[dict[str, str]]:
        """Yield the request parameters beside the request, which no model gets."""
        for key in self._find_lone_parameters(row) if self.are_all else ():
            yield {
                "key": key,
                "message": f"`{key}` is beside `responses_create_params`, where no model request reads it",
                "remedy": f"Move it: responses_create_params.{key}.",
            }

    def find_notes(self, row: Mapping[str, Any]) -> Iterator[str]:
        """Yield what is likely a mistake and no reason to refuse the row."""
        if not self.are_all:
            for key in self._find_lone_parameters(row):
                yield f"`{key}` is beside `responses_create_params`, where no model request reads it"
            return
        unused = [key for key in {*self._keys, *TASK_KEYS} if key not in row]
        for key in row:
            if key in self._keys or key in _LONE_PARAMETERS or key.startswith("_") or key in TASK_KEYS:
                continue
            if close := get_close_matches(key, unused, 1, _CLOSE):
                yield f"nothing reads `{key}`; `{close[0]}` is an optional key"

    def _find_lone_parameters(self, row: Mapping[str, Any]) -> Iterator[str]:
        params = read_params(row)
        for key, kind in _LONE_PARAMETERS.items():
            value = row.get(key)
            is_lone = key not in self._keys and key not in params
            if is_lone and isinstance(value, kind) and not _is_own(key, value):
                yield key


def _is_own(key: str, value: Any) -> bool:
    """Return whether a value cannot be that of the request parameter."""
    if isinstance(value, list):
        return not value or not all(
            isinstance(tool, Mapping) and ("name" in tool or "function" in tool) for tool in value
        )
    return isinstance(value, int | float) and not 0 <= value <= _HIGHEST.get(key, math.inf)


def _may_read_others(model: type[BaseModel]) -> bool:
    validators = model.__pydantic_decorators__.model_validators.values()
    return model.model_config.get("extra") == "allow" or any(each.info.mode != "after" for each in validators)
