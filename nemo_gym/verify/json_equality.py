"""Equality of JSON values with the semantics of JSON.

In Python `True == 1` holds, and an object may define its own `==`. Here numbers are equal by value (`1` is `1.0`), all
other values only within their type, objects by their members, and arrays in order.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TypeGuard


def is_same_json(expected: object, actual: object, *, tolerance: float = 0.0) -> bool:
    """Return whether two JSON values are equal; tuples count as arrays.

    Two numbers may differ by `tolerance`, absolutely or relative to the expected one, unless they are whole
    (`is_same_number`).
    A value that is not JSON (a set, an object of some class, NaN) equals nothing.
    """
    if is_number(expected) and is_number(actual):
        return is_same_number(expected, actual, tolerance)
    if isinstance(expected, Mapping) and isinstance(actual, Mapping):
        return expected.keys() == actual.keys() and all(
            is_same_json(value, actual[key], tolerance=tolerance) for key, value in expected.items()
        )
    if is_array(expected) and is_array(actual):
        return len(expected) == len(actual) and all(
            is_same_json(left, right, tolerance=tolerance)
            for left, right in zip(expected, actual, strict=True)
        )
    if expected is None or isinstance(expected, bool | str):
        return type(expected) is type(actual) and expected == actual
    return False


def is_same_number(expected: int | float, actual: int | float, tolerance: float) -> bool:
    """Return whether two numbers are equal: others than integers within `tolerance`.

    An expected integer must be met exactly, also by a float, and so must an integer meet an expected float that is
    whole: `1000000` is neither 1000000.5 nor, written `1e6`, 1000001.
    """
    if expected == actual:
        return True
    try:
        if isinstance(expected, int):
            return False
        if isinstance(actual, int) and expected.is_integer():
            return float(actual) == expected
        return math.isclose(expected, actual, rel_tol=tolerance, abs_tol=tolerance)
    except OverflowError:  # an integer beyond the range of floats
        return False


def is_number(value: object) -> TypeGuard[int | float]:
    """Return whether `value` is a JSON number; booleans are not."""
    return isinstance(value, int | float) and not isinstance(value, bool)


def is_array(value: object) -> TypeGuard[Sequence[object]]:
    """Return whether `value` is a JSON array."""
    return isinstance(value, list | tuple)
