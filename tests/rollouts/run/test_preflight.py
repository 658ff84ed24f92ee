"""The checks before the first rollout."""

from __future__ import annotations

import asyncio
from typing import Any

import orjson
import pytest
from fastapi import FastAPI, Response

from nemo_gym.config.problems import ConfigErrors
from nemo_gym.failures import EngineError, GymError
from nemo_gym.rollouts.run._preflight import EnginesFound, check_servers, read_engines
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
    await check(app_of({"/preflight": (200, b"{}")}), agent=hang, seconds=0.05)


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
