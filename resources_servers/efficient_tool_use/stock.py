"""The world: bins of parts in warehouses, and what each tool shows of it.

A bin is a (warehouse, part) with a number of units. `count_bin` shows one bin, `list_warehouse` a whole row of them,
`list_part` a whole column. A call costs the credits that the task names for its tool.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import StrEnum
from typing import Any, NamedTuple

Bin = tuple[str, str]
"""A warehouse and a part."""

Stock = Mapping[str, Mapping[str, int]]
"""The units of each part in each warehouse; every warehouse has every part."""


class Tool(StrEnum):
    COUNT_BIN = "count_bin"
    LIST_WAREHOUSE = "list_warehouse"
    LIST_PART = "list_part"


PARAMETERS: Mapping[Tool, tuple[str, ...]] = {
    Tool.COUNT_BIN: ("warehouse", "part"),
    Tool.LIST_WAREHOUSE: ("warehouse",),
    Tool.LIST_PART: ("part",),
}
DESCRIPTIONS: Mapping[Tool, str] = {
    Tool.COUNT_BIN: "The units of one part in one warehouse.",
    Tool.LIST_WAREHOUSE: "The units of every part in one warehouse.",
    Tool.LIST_PART: "The units of one part in every warehouse.",
}

Prices = Mapping[Tool, int]
"""The credits of a call to each tool, positive."""


class ToolCall(NamedTuple):
    """A call with its unvalidated arguments."""

    name: str
    arguments: Mapping[str, Any]


def bins_shown(call: ToolCall, stock: Stock) -> frozenset[Bin]:
    """Return the bins that a call reveals; none when its arguments are unknown."""
    if call.name not in PARAMETERS or set(call.arguments) != set(PARAMETERS[Tool(call.name)]):
        return frozenset()
    return frozenset(
        (warehouse, part)
        for warehouse, units in stock.items()
        for part in units
        if call.arguments.get("warehouse", warehouse) == warehouse
        and call.arguments.get("part", part) == part
    )


def cost_of(calls: Iterable[ToolCall], prices: Prices) -> int:
    """Return the credits of all calls, including repeated and failed ones. An unknown tool has the highest price."""
    dearest = max(prices.values())
    return sum(prices[Tool(call.name)] if call.name in PARAMETERS else dearest for call in calls)


def definitions(prices: Prices) -> list[dict[str, Any]]:
    """Return the declarations of the tools for a task row."""
    return [
        {
            "type": "function",
            "name": tool.value,
            "description": f"{DESCRIPTIONS[tool]} Costs {prices[tool]} credit{'s' * (prices[tool] > 1)}.",
            "parameters": {
                "type": "object",
                "properties": {name: {"type": "string"} for name in PARAMETERS[tool]},
                "required": list(PARAMETERS[tool]),
                "additionalProperties": False,
            },
            "strict": True,
        }
        for tool in Tool
    ]
