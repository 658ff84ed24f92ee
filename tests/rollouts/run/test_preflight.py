"""The checks before the first rollout."""

from __future__ import annotations

import asyncio
from typing import Any

import orjson
import pytest
from fastapi import FastAPI, Response

from nemo_gym.config.problems import ConfigErrors, Location
from nemo_gym.failures import EngineError, GymError
from nemo_gym.names import POSTED_ROUTE
from nemo_gym.rollouts.run.preflight import EnginesFound, check_servers, read_engines, tool_problems
from nemo_gym.transport import Caller, Directory, InMemoryTransport
from tests.serving.environments import CounterEnvironment

SERVERS: dict[str, Any] = {
    "agent": {"responses_api_agents": {"simple": {"host": "h", "port": 1}}},
    "policy_model": {"responses_api_models": {"vllm": {"base_url": ["http://engine:8000/v1"]}}},
}


def app_of(routes: dict[str, tuple[int, bytes]]) -> FastAPI:
    app = FastAPI()
    for path, (status, body) in routes.items():
        app.get(path)(lambda status=status, body=body: Response(body, status))
    return app


async def check(model: Any, agent: Any = None, seconds: float = 30.0) -> EnginesFound:
    agent = app_of({"/": (200, b"{}")}) if agent is None else agent
    apps = {"http://agent": agent, "http://model": model}
    transport = InMemoryTransport({url: app for url, app in apps.items() if app != "absent"})
    caller = Caller(Directory({"agent": ["http://agent"], "policy_model": ["http://model"]}), transport)
    return await check_servers(caller, ["agent"], SERVERS, seconds=seconds)


async def hang(scope: Any, receive: Any, send: Any) -> None:
    await asyncio.Event().wait()


async def test_servers_that_are_well_pass() -> None:
    await check(app_of({"/preflight": (200, b'{"ok": true}')}))


async def test_a_third_party_model_server_without_the_route_passes() -> None:
    await check(app_of({}))


async def test_an_unreachable_engine_is_reported_with_its_model_servers_error() -> None:
    cause = EngineError(
        "http://engine:8000/v1 refuses the connection", code="connect_refused", peer="http://engine"
    )
    with pytest.raises(ConfigErrors, match="http://engine:8000/v1 refuses"):
        await check(app_of({"/preflight": (502, orjson.dumps(cause.failure.to_wire()))}))


async def test_an_engine_that_is_silent_is_named_by_its_url() -> None:
    with pytest.raises(ConfigErrors, match="http://engine:8000/v1 did not answer"):
        await check(hang, seconds=0.05)


async def test_a_busy_agent_is_not_taken_for_a_dead_one() -> None:
    await check(app_of({"/preflight": (200, b"{}")}), agent=hang, seconds=2)


@pytest.mark.parametrize(("agent", "model"), [("absent", None), (None, "absent")])
async def test_a_server_that_is_gone_is_named(agent: Any, model: Any) -> None:
    with pytest.raises(ConfigErrors, match="does not answer") as caught:
        await check(app_of({}) if model is None else model, agent=agent)
    error: GymError = caught.value
    assert "ng_run" in str(error)


async def test_a_model_server_of_the_gym_without_the_route_passes() -> None:
    await check(CounterEnvironment.standalone(name="model").setup_webserver())


async def test_a_model_server_tells_what_its_engine_is() -> None:
    answer = b'{"ok": true, "engine": {"id": "m", "version": "1"}}'
    assert await check(app_of({"/preflight": (200, answer)})) == {"policy_model": {"id": "m", "version": "1"}}


@pytest.mark.parametrize("answer", [b'{"ok": true}', b'{"engine": {}}', b'{"engine": "x"}', b"[]", b"<html>"])
async def test_an_engine_that_tells_nothing_is_left_out(answer: bytes) -> None:
    assert await check(app_of({"/preflight": (200, answer)})) == {}


async def test_engines_are_read_without_a_complaint_about_those_that_are_down() -> None:
    app = app_of({"/preflight": (200, b'{"engine": {"id": "m"}}')})
    caller = Caller(Directory({"policy_model": ["http://model"]}), InMemoryTransport({"http://model": app}))
    assert await read_engines(caller, SERVERS) == {"policy_model": {"id": "m"}}
    down = Caller(Directory({"policy_model": ["http://model"]}), InMemoryTransport({}))
    assert await read_engines(down, SERVERS) == {}


# --- Declared tools ---------------------------------------------------------------------------------------------------


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


@pytest.mark.parametrize(
    ("routes", "tool", "is_told"),
    [
        (("/buy", "/get_price"), None, True),
        (("/buy",), "buy", False),
        ((), None, False),
        (("/{tool}",), None, False),
    ],
)
async def test_an_environment_whose_tools_no_row_declares_is_told(
    routes: tuple[str, ...], tool: str | None, is_told: bool, caplog: pytest.LogCaptureFixture
) -> None:
    shop = app_of({"/": (200, b"{}"), POSTED_ROUTE: (200, orjson.dumps({"paths": ["/verify", *routes]}))})
    transport = InMemoryTransport({"http://shop": shop, "http://clerk": shop})
    caller = Caller(Directory({"shop": ["http://shop"], "clerk": ["http://clerk"]}), transport)
    servers: dict[str, Any] = {
        "clerk": {"responses_api_agents": {"simple_agent": {"resources_server": ENVIRONMENT}}},
        "shop": {"resources_servers": {"shop": {}}},
    }
    await check_servers(caller, ["clerk"], servers, tools={("clerk", tool): ROW} if tool else {})
    assert ("gets none of the tools of `shop`: buy, get_price" in caplog.text) == is_told
