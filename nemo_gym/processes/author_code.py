"""Places in an author's code: of an exception that was raised, and of a function."""

from __future__ import annotations

import inspect
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

from nemo_gym.names import SERVER_KINDS


def place_of(error: BaseException) -> str | None:
    """Return `<kind>/<name>/<file>:<line>` of the innermost frame in a server's folder; None if there is none."""
    for frame in reversed(traceback.extract_tb(error.__traceback__)):
        file = _file_in_server(frame.filename)
        if file is not None:
            return f"{file}:{frame.lineno}"
    return None


def place_of_function(function: Callable[..., Any]) -> str | None:
    """Return `<kind>/<name>/<file>:<line>` of a function in a server's folder; None for another one."""
    code = getattr(inspect.unwrap(function), "__code__", None)
    file = _file_in_server(code.co_filename) if code is not None else None
    return None if file is None else f"{file}:{code.co_firstlineno}"


def location_of(function: Callable[..., Any]) -> tuple[str, int]:
    """Return the file and the line of a function, as a user would write them."""
    code = inspect.unwrap(function).__code__
    return str(_file_in_server(code.co_filename) or code.co_filename), code.co_firstlineno


def _file_in_server(filename: str) -> Path | None:
    parts = Path(filename).parts
    starts = [place for place, part in enumerate(parts) if part in SERVER_KINDS]
    return Path(*parts[starts[-1] :]) if starts else None
