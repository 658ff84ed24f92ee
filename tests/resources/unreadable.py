"""Values of which a row cannot be made. Workers import this module."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any


def nested(depth: int) -> Any:
    value: Any = 1
    for _ in range(depth):
        value = [value]
    return value


def endless() -> list[Any]:
    value: list[Any] = []
    value.append(value)
    return value


UNREADABLE: dict[str, Callable[[], Any]] = {
    "surrogate": lambda: "\ud800",
    "half_a_pair": lambda: "a\udc80b",
    "surrogate_in_a_key": lambda: {"\ud800": 1},
    "surrogate_far_inside": lambda: {"a": [{"b": ("\udfff",)}]},
    "integer_beyond_all_floats": lambda: -(10**400),
    "list_of_such_integers": lambda: [1, [10**5000]],
    "endless": endless,
    "too_deep": lambda: nested(300),
    "much_too_deep": lambda: nested(100_000),
    "too_deep_for_a_row_of_it": lambda: nested(252),
    "objects_too_deep": lambda: {"a": nested(252)},
    "bytes": lambda: b"\xff",
    "object": object,
    "exception": lambda: ValueError("x"),
    "type": lambda: int,
    "function": lambda: nested,
}
"""Values of an additional field."""

NO_REWARDS: dict[str, Any] = {"nan": math.nan, "infinite": math.inf, "minus_infinite": -math.inf}
"""Rewards that are no reward."""
