"""Errors in an author's code: their texts, and the places of an exception that was raised and of a function."""

from __future__ import annotations

import functools
import inspect
import traceback
from collections.abc import Callable
from pathlib import Path
from types import CodeType
from typing import Any

from nemo_gym.names import SERVER_KINDS

_SHOWN_INPUT = 60


def describe_error(error: BaseException) -> str:
    """Return the type and the message of an exception; of data that pydantic refused, each field in one line."""
    name = type(error).__name__
    if type(error).__module__ != "pydantic_core._pydantic_core" or name != "ValidationError":
        return f"{name}: {error}"
    faults: list[dict[str, Any]] = error.errors(include_url=False)  # type: ignore[attr-defined]  # without the import
    told = (
        f"{'.'.join(map(str, fault['loc'])) or 'the whole'}: {fault['msg']}, not {repr(fault['input'])[:_SHOWN_INPUT]}"
        if fault["type"] != "missing"
        else f"{'.'.join(map(str, fault['loc']))}: {fault['msg']}"
        for fault in faults
    )
    return f"{name}: {getattr(error, 'title', name)} refuses {'; '.join(told)}"


def find_error_place(error: BaseException) -> str | None:
    """Return `<kind>/<name>/<file>:<line>` of the innermost frame in a server's folder; None if there is none."""
    for frame in reversed(traceback.extract_tb(error.__traceback__)):
        file = _file_in_server(frame.filename)
        if file is not None:
            return f"{file}:{frame.lineno}"
    return None


def find_function_place(function: Callable[..., Any]) -> str | None:
    """Return `<kind>/<name>/<file>:<line>` of a function in a server's folder; None for another one."""
    code = _find_code(function)
    file = _file_in_server(code.co_filename) if code is not None else None
    return None if code is None or file is None else f"{file}:{code.co_firstlineno}"


def locate_function(function: Callable[..., Any]) -> tuple[str, int | None]:
    """Return the file and the line of a function, as a user would write them; the line is None if it is not known."""
    code = _find_code(function)
    if code is None:
        return type(function).__module__, None
    return str(_file_in_server(code.co_filename) or code.co_filename), code.co_firstlineno


def _find_code(function: Callable[..., Any]) -> CodeType | None:
    """Return the code that a call runs: of a function, or of what a decorator, a partial or an object calls."""
    while isinstance(function, functools.partial):
        function = function.func
    called = inspect.unwrap(function)
    return getattr(called, "__code__", None) or getattr(type(called).__call__, "__code__", None)


def _file_in_server(filename: str) -> Path | None:
    parts = Path(filename).parts
    starts = [place for place, part in enumerate(parts) if part in SERVER_KINDS]
    return Path(*parts[starts[-1] :]) if starts else None
