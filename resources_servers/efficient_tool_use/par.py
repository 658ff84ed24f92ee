"""Par: the minimum cost of revealing all bins of a question.

Bins are independent, so that a policy can know the answer only after seeing every bin it depends on. The cheapest calls
are computed exactly. For a fixed set of listed warehouses each part is optimized separately: either list the part or
count each of its remaining bins. All sets of warehouses are tried, so the time is exponential in their number.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from itertools import combinations
from typing import NamedTuple

from resources_servers.efficient_tool_use.stock import Bin, Prices, Tool, ToolCall, cost_of


class Plan(NamedTuple):
    """Calls that reveal all needed bins, and their credits."""

    cost: int
    calls: tuple[ToolCall, ...]


def cheapest_plan(needed: Collection[Bin], prices: Prices) -> Plan:
    """Return the cheapest plan that reveals every bin of `needed`; among equals, the one with the fewest calls."""
    warehouses = sorted({warehouse for warehouse, _ in needed})
    plans = (_plan_with(listed, needed, prices) for listed in _subsets(warehouses))
    return min(plans, key=lambda plan: (plan.cost, len(plan.calls)))


def _subsets(names: Sequence[str]) -> Iterator[tuple[str, ...]]:
    for size in range(len(names) + 1):
        yield from combinations(names, size)


def _plan_with(listed: tuple[str, ...], needed: Collection[Bin], prices: Prices) -> Plan:
    """Return the cheapest plan that lists exactly the warehouses `listed`."""
    calls = [ToolCall(Tool.LIST_WAREHOUSE, {"warehouse": warehouse}) for warehouse in listed]
    left: dict[str, list[str]] = {}
    for warehouse, part in sorted(needed):
        if warehouse not in listed:
            left.setdefault(part, []).append(warehouse)
    for part, warehouses in left.items():
        if prices[Tool.LIST_PART] <= prices[Tool.COUNT_BIN] * len(warehouses):
            calls.append(ToolCall(Tool.LIST_PART, {"part": part}))
        else:
            calls += [ToolCall(Tool.COUNT_BIN, {"warehouse": name, "part": part}) for name in warehouses]
    return Plan(cost_of(calls, prices), tuple(calls))
