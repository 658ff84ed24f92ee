"""The check that environments serve the tools that their rows declare."""

from __future__ import annotations

from typing import Any

import pytest
from fastapi import FastAPI

from nemo_gym.config.problems import Location
from nemo_gym.names import POSTED_ROUTE
from nemo_gym.rollouts.run._tool_check import tool_problems
from nemo_gym.transport import Caller, Directory, InMemoryTransport

ENVIRONMENT = {"type": "resources_servers", "name": "shop"}
ROW = Location("tasks.jsonl", 7)


async def problems_of(
    *routes: str,
    tool: str = "get_prize",
    agent: str = "simple_agent",
    lists: bool = True,
    methods: dict[str, str] | None = None,
    **options: Any,
) -> list[Any]:
    app = FastAPI()

    async def posted() -> Any:
        paths = ["/verify", "/seed_session", *routes]
        return {"paths": paths, "methods": methods or {}} if lists else paths

    app.get(POSTED_ROUTE)(posted)
    caller = Caller(Directory({"shop": ["http://shop"]}), InMemoryTransport({"http://shop": app}))
    servers: dict[str, Any] = {
        "clerk": {"responses_api_agents": {agent: {"resources_server": ENVIRONMENT}}},
        "shop": {"resources_servers": {"shop": options}},
    }
    found = await tool_problems(caller, {("clerk", tool): ROW}, servers, 30.0)
    return [(str(problem.where), problem.message, problem.remedy) for problem in found]


async def test_a_misspelt_tool_is_reported_with_both_spellings() -> None:
    assert await problems_of("/get_price", "/buy") == [
        ("tasks.jsonl:7", "`shop` does not serve the tool 'get_prize'.", "Did you mean 'get_price'?")
    ]


async def test_a_tool_unlike_any_is_reported_with_the_tools_there_are() -> None:
    ((_, _, remedy),) = await problems_of("/get_price", "/buy", tool="weather")
    assert remedy == "Its tools are buy, get_price."


@pytest.mark.parametrize(
    "routes",
    [("/get_prize",), ("/get_price", "/{tool}"), ("/get_price", "/step"), ()],
    ids=["served", "catch-all", "steps", "no tool at all"],
)
async def test_an_environment_that_may_serve_the_tool_is_accepted(routes: tuple[str, ...]) -> None:
    assert await problems_of(*routes) == []


@pytest.mark.parametrize("agent", ["simple_agent", "user_simulation_agent"])
@pytest.mark.parametrize("routes", [(), ("/buy",)], ids=["no tool at all", "another tool"])
async def test_a_forgotten_route_is_reported_with_its_method(routes: tuple[str, ...], agent: str) -> None:
    assert await problems_of(*routes, methods={"get_prize": "app.py:3"}, agent=agent) == [
        (
            "tasks.jsonl:7",
            "`shop` has the method `get_prize` (app.py:3), and no route POST /get_prize for it.",
            'Add app.post("/get_prize")(self.get_prize) to its setup_webserver.',
        )
    ]


@pytest.mark.parametrize("route", ["/{tool}", "/step"])
async def test_a_method_behind_a_route_of_any_tool_is_not_forgotten(route: str) -> None:
    assert await problems_of(route, methods={"get_prize": "app.py:3"}) == []


async def test_an_environment_that_may_judge_calls_itself_is_warned_of(
    caplog: pytest.LogCaptureFixture,
) -> None:
    assert await problems_of(methods={"get_price": "app.py:3"}) == []
    assert "`shop` serves no tool, so every call of 'get_prize' will fail" in caplog.text
    assert "tasks.jsonl:7" in caplog.text


async def test_a_server_whose_list_has_another_form_is_not_checked() -> None:
    assert await problems_of("/get_price", lists=False) == []


async def test_tools_over_mcp_are_not_checked() -> None:
    assert await problems_of("/get_price", expose_tools_over_mcp=True) == []


async def test_agents_with_tools_of_their_own_are_not_checked() -> None:
    assert await problems_of("/get_price", agent="tool_simulation_agent") == []


async def test_a_server_that_does_not_answer_is_left_to_its_own_check() -> None:
    caller = Caller(Directory({"shop": ["http://gone"]}), InMemoryTransport({}))
    servers = {"clerk": {"responses_api_agents": {"simple_agent": {"resources_server": ENVIRONMENT}}}}
    assert await tool_problems(caller, {("clerk", "buy"): ROW}, servers, 1.0) == []
