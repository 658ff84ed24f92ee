"""Calls between servers carry the session and the deadline."""

from __future__ import annotations

import asyncio
from typing import Any

import aiohttp
import pytest
from fastapi import Request
from fastapi.testclient import TestClient

from nemo_gym.mock_engine import MockEngine
from nemo_gym.testing.in_process import InProcessGym
from nemo_gym.transport import Call
from nemo_gym.transport.pools import process_transport
from nemo_gym.transport.rollout_context import rollout_context
from nemo_gym.transport.server_client import ServerClient, request
from responses_api_agents.simple_agent.app import SimpleAgent
from tests.serving.environments import Amount, CounterEnvironment, ScriptedModel, task_row, text


async def test_session_and_deadline_travel_with_the_calls_a_handler_makes() -> None:
    seen: list[Call] = []

    gym = InProcessGym()
    send = gym.transport.send

    async def recorded(base_url: str, call: Call) -> Any:
        seen.append(call)
        return await send(base_url, call)

    gym.transport.send = recorded  # type: ignore[method-assign]
    gym.add(CounterEnvironment, "env")
    model = gym.add(ScriptedModel, "policy_model")
    assert isinstance(model, ScriptedModel)
    model.turns = [[text("hi")]]
    gym.add(
        SimpleAgent,
        "agent",
        resources_server={"type": "resources_servers", "name": "env"},
        model_server={"type": "responses_api_models", "name": "policy_model"},
    )
    headers = {"x-ng-session": "attempt-7", "x-ng-deadline": "60"}
    await gym.client().post("agent", "/run", json=task_row(), headers=headers)
    paths = [call.path for call in seen]
    assert paths == ["/run", "/seed_session", "/v1/responses", "/verify", "/close_session"]
    assert {call.headers["x-ng-session"] for call in seen} == {"attempt-7"}
    assert all(0 < float(call.headers["x-ng-deadline"]) <= 60 for call in seen[:-1])
    assert "x-ng-deadline" not in seen[-1].headers


async def test_a_second_session_at_the_same_server_gets_a_name_of_its_own() -> None:
    gym = InProcessGym()
    gym.add(CounterEnvironment, "env")
    seen: list[Call] = []
    send = gym.transport.send

    async def recorded(base_url: str, call: Call) -> Any:
        seen.append(call)
        return await send(base_url, call)

    gym.transport.send = recorded  # type: ignore[method-assign]
    client = gym.client()
    with rollout_context("s"):
        for path in ("/seed_session", "/seed_session", "/verify"):
            await client.post("env", path, json=task_row())
    first, second, verify = (call.headers["x-ng-session"] for call in seen)
    assert (first, verify) == ("s", "s")
    assert second.startswith("s~")


def test_a_server_client_can_be_built_as_environments_do() -> None:
    from unittest.mock import MagicMock

    config = CounterEnvironment.model_fields["config"].annotation
    assert config is not None
    server = CounterEnvironment(
        config=config(host="0.0.0.0", port=8080, entrypoint="", name=""),
        server_client=MagicMock(spec=ServerClient),
    )
    assert TestClient(server.setup_webserver()).get("/").json() == {"status": "ok"}


async def test_options_of_the_ecosystem_do_not_reach_the_http_client() -> None:
    async with MockEngine() as engine:
        given = {"_max_connection_retries": 1, "_internal": True, "_server_name": "engine"}
        response = await request("GET", f"{engine.root_url}/health", **given)
        assert response.status == 200
        response.release()
        await process_transport().close()


class SlowEnvironment(CounterEnvironment):
    async def add(self, request: Request, body: Amount) -> dict[str, int]:
        await asyncio.Event().wait()
        raise AssertionError("nothing sets the event")


@pytest.mark.parametrize("timeout", [0.01, aiohttp.ClientTimeout(total=0.01)], ids=["seconds", "aiohttp's"])
async def test_a_call_ends_after_its_timeout(timeout: Any) -> None:
    gym = InProcessGym()
    gym.add(SlowEnvironment, "env")
    client = gym.client()
    await client.post("env", "/seed_session", json={}, timeout=None)
    with pytest.raises(TimeoutError):
        await client.post("env", "/add", json={"amount": 1}, timeout=timeout)


async def test_an_unknown_option_is_refused_before_the_call() -> None:
    gym = InProcessGym()
    environment = gym.add(CounterEnvironment, "env")
    assert isinstance(environment, CounterEnvironment)
    with pytest.raises(TypeError, match=r"no option `jsn`, `auth`; they take json, data"):
        await gym.client().post("env", "/seed_session", jsn={}, auth="me", _internal=True)
    assert environment.counts == {}
    await gym.client().post("env", "/seed_session", json={}, _internal=True)
    assert len(environment.counts) == 1
