"""Comparison of a solution's output or return value with the expected one. Pure functions."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from nemo_gym.verify.json_equality import is_same_json


def is_same_output(expected: str, printed: str, tolerance: float) -> bool:
    """Return whether a program printed the expected words on the expected lines.

    Empty lines and the amount of white space are ignored. A word that is expected to be a decimal (`0.5`, `1e-3`)
    may differ by `tolerance`, absolutely or relatively. Every other word must be the same.
    """
    wanted, given = _lines_of_words(expected), _lines_of_words(printed)
    return len(wanted) == len(given) and all(
        len(left) == len(right)
        and all(_is_same_word(word, other, tolerance) for word, other in zip(left, right, strict=True))
        for left, right in zip(wanted, given, strict=True)
    )


def _lines_of_words(text: str) -> list[list[str]]:
    return [words for line in text.splitlines() if (words := line.split())]


def _is_same_word(expected: str, printed: str, tolerance: float) -> bool:
    if expected == printed:
        return True
    wanted, given = _decimal(expected), _decimal(printed)
    if wanted is None or given is None or not any(mark in expected for mark in ".eE"):
        return False
    return math.isclose(wanted, given, rel_tol=tolerance, abs_tol=tolerance)


def _decimal(word: str) -> float | None:
    if len(word) > 400 or not word.isascii() or "_" in word:
        return None
    try:
        number = float(word)
    except ValueError:
        return None
    return number if math.isfinite(number) else None


def is_same_return_value(expected: Any, returned: Any, tolerance: float) -> bool:
    """Return whether a function returned the expected value, which is JSON.

    Tuples count as arrays, and object keys as their JSON texts. `true` is not 1. Numbers that are not integers may
    differ by `tolerance`.
    """
    return is_same_json(expected, _with_text_keys(returned), tolerance=tolerance)


def _with_text_keys(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {_key_text(key): _with_text_keys(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_with_text_keys(item) for item in value]
    return value


def _key_text(key: Any) -> Any:
    if isinstance(key, bool) or key is None:
        return {True: "true", False: "false", None: "null"}[key]
    return str(key) if isinstance(key, int | float) else key
