"""Comparison of a solution's output or return value with the expected one. Pure functions.

An answer comes from an untrusted process. It is read without hashing its values, so that no answer takes more than
linear time, and every fault of an answer raises SolutionFailed.
"""

from __future__ import annotations

import json
import math
import reprlib
from collections.abc import Sequence
from typing import Any

from nemo_gym.verify._code_verdicts import Reason, SolutionFailed
from nemo_gym.verify.json_equality import is_same_json, is_same_number

_SHOWN_CHARS = 200


def check_program(reply: bytes, expected: str, tolerance: float) -> None:
    """Compare a program's exit status and output, in a reply of the harness. Raises SolutionFailed."""
    fields = _load(reply)
    if not isinstance(fields, dict):
        raise SolutionFailed(Reason.BROKEN_PROTOCOL, "unreadable answer")
    status, stdout, stderr = fields.get("status"), fields.get("stdout"), str(fields.get("stderr"))
    if stdout is None:
        raise SolutionFailed(Reason.OUTPUT_EXCEEDED)
    if not isinstance(stdout, str) or not isinstance(status, int):
        raise SolutionFailed(Reason.BROKEN_PROTOCOL, "unreadable answer")
    if status < 0:
        raise SolutionFailed(Reason.PROCESS_ENDED, f"ended by signal {-status}")
    if status > 0:
        last = stderr.strip().splitlines()[-1:] or [f"exit status {status}"]
        raise SolutionFailed(Reason.RAISED, last[0])
    if not is_same_output(expected, stdout, tolerance):
        raise SolutionFailed(Reason.WRONG_ANSWER, f"it printed {stdout[:_SHOWN_CHARS]!r}")


def check_return_value(reply: bytes, name: str, accepted: Sequence[Any], tolerance: float) -> None:
    """Compare a returned value, in a reply of the harness, with the accepted ones. Raises SolutionFailed.

    Accepted values are JSON. Tuples count as arrays, and object keys as their JSON texts. `true` is not 1. Numbers
    that are not integers may differ by `tolerance` (`is_same_number`).
    """
    try:
        value = _untag_json(_load(reply))
    except (TypeError, ValueError, KeyError, RecursionError, OverflowError) as error:
        raise SolutionFailed(Reason.NOT_PLAIN_DATA, "unreadable value") from error
    if not any(is_same_json(expected, value, tolerance=tolerance) for expected in accepted):
        raise SolutionFailed(Reason.WRONG_ANSWER, f"{name} returned {_show(value)}")


def is_same_output(expected: str, printed: str, tolerance: float) -> bool:
    """Return whether a program printed the expected words on the expected lines.

    Empty lines and the amount of white space are ignored. A word that is expected to be a decimal (`0.5`, `1e-3`)
    may differ by `tolerance`, absolutely or relatively, unless it is whole and an integer is printed. Every other word
    must be the same.
    """
    wanted, given = _split_into_words(expected), _split_into_words(printed)
    return len(wanted) == len(given) and all(
        len(left) == len(right)
        and all(_is_same_word(word, other, tolerance) for word, other in zip(left, right, strict=True))
        for left, right in zip(wanted, given, strict=True)
    )


def _split_into_words(text: str) -> list[list[str]]:
    return [words for line in text.splitlines() if (words := line.split())]


def _is_same_word(expected: str, printed: str, tolerance: float) -> bool:
    if expected == printed:
        return True
    wanted, given = _decimal(expected), _decimal(printed)
    if wanted is None or given is None or not any(mark in expected for mark in ".eE"):
        return False
    whole = int(given) if printed.lstrip("+-").isdecimal() else given
    return is_same_number(wanted, whole, tolerance)


def _decimal(word: str) -> float | None:
    if len(word) > 400 or not word.isascii() or "_" in word:
        return None
    try:
        number = float(word)
    except ValueError:
        return None
    return number if math.isfinite(number) else None


class _NotJson:
    """A value that JSON lacks, such as a set. It equals no expected value."""

    def __init__(self, kind: str) -> None:
        self._kind = kind

    def __repr__(self) -> str:
        return f"a {self._kind}"


def _load(reply: bytes) -> Any:
    try:
        return json.loads(reply)
    except (ValueError, RecursionError) as error:
        raise SolutionFailed(Reason.BROKEN_PROTOCOL, "unreadable answer") from error


def _untag_json(tagged: Any) -> Any:
    """Return the JSON value of tagged JSON. Raises as malformed values do, and SolutionFailed for an opaque object."""
    if isinstance(tagged, list):
        return [_untag_json(item) for item in tagged]
    if not isinstance(tagged, dict):
        return tagged
    ((tag, content),) = tagged.items()
    match tag:
        case "tuple":
            return [_untag_json(item) for item in content]
        case "dict":
            return {_key_text(_untag_json(key)): _untag_json(item) for key, item in content}
        case "int":
            return int(content, 16)
        case "float":
            return float(content)
        case "opaque":
            raise SolutionFailed(Reason.NOT_PLAIN_DATA, str(content)[:_SHOWN_CHARS])
    return _NotJson(tag)


def _key_text(key: Any) -> Any:
    if isinstance(key, bool) or key is None:
        return {True: "true", False: "false", None: "null"}[key]
    if isinstance(key, int | float):
        return str(key)
    return key if isinstance(key, str) else _NotJson("key")


def _show(value: Any) -> str:
    try:
        return reprlib.repr(value)[:_SHOWN_CHARS]
    except ValueError:  # an integer with more digits than Python prints
        return "a very large integer"
