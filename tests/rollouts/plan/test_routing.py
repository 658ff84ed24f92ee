"""The agents of rows, and the rollouts that each of them makes."""

from __future__ import annotations

from typing import Any

import pytest

from nemo_gym.rollouts.plan.routing import Routing


def row(agent: str | None = None, **fields: Any) -> dict[str, Any]:
    return fields | ({"agent_ref": {"name": agent}} if agent else {})


USERS = {"math": ["math_agent"], "code": ["agent_a", "agent_b"]}


@pytest.mark.parametrize(
    ("given", "agent_map", "agent"),
    [
        (row("a"), {"a": "b", "_default": "c"}, "b"),
        (row("x"), {"a": "b", "_default": "c"}, "c"),
        (row("x"), {"a": "b"}, "x"),
        (row(task_source="math"), {}, "math_agent"),
        (row(task_source="math"), {"math": "b"}, "b"),
        (row("x", task_source="math"), {"math": "b"}, "x"),
        (row(task_source="code"), {}, "of the dataset"),
        (row(), {}, "of the dataset"),
        (row(), {"_default": "c"}, "c"),
    ],
)
def test_the_first_rule_that_names_an_agent_decides(
    given: dict[str, Any], agent_map: dict[str, str], agent: str
) -> None:
    routing = Routing(agent_map, agents_of_sources=USERS)
    assert routing.find_agent(given, "of the dataset") == agent


def test_fan_out_goes_by_the_agent_or_source_that_the_row_names() -> None:
    routing = Routing(fan_out={"math": ["a", "b"]})
    assert list(routing.agents("math", "other")) == ["a", "b"]
    assert list(routing.agents("code", "other")) == ["other"]
    assert not routing.is_uniform


@pytest.mark.parametrize(
    ("num_repeats", "repeats"),
    [({}, 4), ({"a": 2, "math": 3}, 2), ({"math": 3}, 3), ({"_default": 5}, 5), ({"b": 2}, None)],
)
def test_repeats_go_by_agent_then_source_then_default(
    num_repeats: dict[str, int], repeats: int | None
) -> None:
    assert Routing(num_repeats=num_repeats).repeats("a", "math", default=4) == repeats
