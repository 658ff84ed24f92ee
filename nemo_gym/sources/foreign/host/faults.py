"""The errors that a host answers."""

from __future__ import annotations

import math
import traceback
from typing import Any

MOST_TRACEBACK_CHARS = 8 << 10


class HostError(Exception):
    """An error with a code of the protocol.

    Codes: bad_request, unsupported, not_found, task_changed, environment_error, provider_error, verifier_error,
    bad_reward, timeout, out_of_resources, internal.
    """

    def __init__(self, code: str, message: str, *, retryable: bool = False) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.retryable = retryable


class TimeIsUp(BaseException):
    """The time of a request is over. No `except Exception` of an environment keeps it."""


def describe_error(error: BaseException) -> dict[str, Any]:
    """Return the fields of an error answer. Any exception but a `HostError` is the environment's."""
    frames = traceback.extract_tb(error.__traceback__)
    where = f"{frames[-1].filename}:{frames[-1].lineno}" if frames else None
    if isinstance(error, HostError):
        code, message, retryable = error.code, error.message, error.retryable
    elif isinstance(error, TimeIsUp):
        code, message, retryable = "timeout", "the request took longer than its deadline", True
    elif isinstance(error, MemoryError):
        code, message, retryable = "out_of_resources", "the environment used up its memory", True
    else:
        code, message, retryable = "environment_error", f"{type(error).__name__}: {error}", True
    trace = "".join(traceback.format_exception(error))[-MOST_TRACEBACK_CHARS:]
    return {"code": code, "message": message, "retryable": retryable, "where": where, "traceback": trace}


def check_reward(value: object, of: str) -> float:
    """Return a reward as a number. Raises `HostError` for a text, a NaN, a null or anything else."""
    if isinstance(value, bool) or type(value).__name__ == "bool_":
        return float(bool(value))
    if not isinstance(value, str | bytes) and hasattr(value, "__float__"):
        number = float(value)
        if math.isfinite(number):
            return number
    raise HostError("bad_reward", f"the reward of {of} is {value!r}, and not a finite number")
