"""Par is minimal: no set of calls reveals the bins at a lower cost."""

from __future__ import annotations

from itertools import chain, combinations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from resources_servers.efficient_tool_use.par import cheapest_plan
from resources_servers.efficient_tool_use.scoring import Weights, efficiency, reward_of
from resources_servers.efficient_tool_use.stock import Bin, Tool, ToolCall, bins_shown, cost_of, definitions

STOCK = {"Oslo": {"nuts": 1, "bolts": 2}, "Lima": {"nuts": 3, "bolts": 4}, "Perth": {"nuts": 5, "bolts": 6}}
BINS = [(warehouse, part) for warehouse, units in STOCK.items() for part in units]
CALLS = [
    *(ToolCall(Tool.COUNT_BIN, {"warehouse": warehouse, "part": part}) for warehouse, part in BINS),
    *(ToolCall(Tool.LIST_WAREHOUSE, {"warehouse": warehouse}) for warehouse in STOCK),
    *(ToolCall(Tool.LIST_PART, {"part": part}) for part in ("nuts", "bolts")),
]
SHOWN = {id(call): bins_shown(call, STOCK) for call in CALLS}
PRICES = st.fixed_dictionaries({tool: st.integers(1, 5) for tool in Tool})


@settings(max_examples=25)
@given(st.sets(st.sampled_from(BINS), min_size=1), PRICES)
def test_no_set_of_calls_is_cheaper(needed: set[Bin], prices: dict[Tool, int]) -> None:
    plan = cheapest_plan(needed, prices)
    assert frozenset().union(*(bins_shown(call, STOCK) for call in plan.calls)) >= needed
    assert plan.cost == cost_of(plan.calls, prices)
    subsets = chain.from_iterable(combinations(CALLS, size) for size in range(1, 7))
    enough = (calls for calls in subsets if needed <= set().union(*(SHOWN[id(call)] for call in calls)))
    best = min((cost_of(calls, prices), len(calls)) for calls in enough)
    assert (plan.cost, len(plan.calls)) == best


def test_calls_show_what_they_name_and_nothing_else() -> None:
    assert bins_shown(ToolCall("list_part", {"part": "nuts"}), STOCK) == {(name, "nuts") for name in STOCK}
    assert bins_shown(ToolCall("list_warehouse", {"warehouse": "Oslo"}), STOCK) == {
        ("Oslo", "nuts"),
        ("Oslo", "bolts"),
    }
    for call in (
        ToolCall("list_part", {}),
        ToolCall("list_part", {"part": "gears"}),
        ToolCall("list_part", {"part": "nuts", "warehouse": "Oslo"}),
        ToolCall("count_bin", {"warehouse": "Oslo"}),
        ToolCall("list_all", {}),
        ToolCall("count_bin", {"warehouse": ["Oslo"], "part": 7}),
    ):
        assert bins_shown(call, STOCK) == frozenset()


def test_tools_say_what_they_cost() -> None:
    tools = definitions({Tool.COUNT_BIN: 1, Tool.LIST_WAREHOUSE: 2, Tool.LIST_PART: 3})
    assert [tool["description"].split("Costs ")[1] for tool in tools] == [
        "1 credit.",
        "2 credits.",
        "3 credits.",
    ]


EFFICIENCIES = st.floats(0.001, 1)
WEIGHTS = st.tuples(st.integers(0, 9), st.integers(0, 9), st.integers(0, 9)).filter(any)


@given(WEIGHTS, EFFICIENCIES, EFFICIENCIES, EFFICIENCIES)
def test_the_rewards_bounds_and_directions(
    parts: tuple[int, int, int], calls: float, tokens: float, more: float
) -> None:
    success, of_calls, of_tokens = (part / sum(parts) for part in parts)
    weights = Weights(success=success, calls=of_calls, tokens=of_tokens)
    reward = reward_of(True, calls, tokens, weights)
    assert reward_of(False, calls, tokens, weights) == 0.0
    assert weights.success - 1e-9 <= reward <= 1 + 1e-9
    assert reward_of(True, calls * more, tokens, weights) <= reward + 1e-9
    assert reward_of(True, calls, tokens * more, weights) <= reward + 1e-9
    assert reward_of(True, 1.0, 1.0, weights) == pytest.approx(1.0)
    assert reward_of(True, 1.0, None, weights) == pytest.approx(1.0)


@given(st.integers(0, 1000), st.integers(1, 100))
def test_efficiency(spent: int, par: int) -> None:
    assert 0 < efficiency(spent, par) <= 1
    assert (efficiency(spent, par) == 1) == (spent <= par)
    assert efficiency(spent + 1, par) <= efficiency(spent, par)


def test_weights_must_add_up() -> None:
    with pytest.raises(ValidationError, match="add up to 1"):
        Weights(success=0.5, calls=0.5, tokens=0.5)
