"""Calls between servers carry the session and the deadline."""

from __future__ import annotations

import asyncio
from typing import Any

import aiohttp
import orjson
import pytest
from fastapi import Request
from fastapi.testclient import TestClient

from nemo_gym.config.current import configured
from nemo_gym.failures import ConfigError
from nemo_gym.mock_engine import MockEngine
from nemo_gym.names import REPLICA_PORTS_KEY
from nemo_gym.testing.in_process import InProcessGym
from nemo_gym.transport import Call
from nemo_gym.transport.context import RequestContext, current_context
from nemo_gym.transport.pools import process_transport
from nemo_gym.transport.rollout_context import rollout_context
from nemo_gym.transport.server_client import (
    ServerClient,
    get_global_aiohttp_client,
    get_response_json,
    get_server_url,
    is_nemo_gym_fastapi_entrypoint,
    raise_for_status,
    request,
)
from nemo_gym.transport.upstream_error import UpstreamError
from responses_api_agents.simple_agent.app import SimpleAgent
from tests.serving.environments import Amount, CounterEnvironment, ScriptedModel, task_row, text
from tests.transport.loopback import answering


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


async def test_calls_below_the_url_of_a_rollout_are_timed_by_their_route() -> None:
    gym = InProcessGym()
    model = gym.add(ScriptedModel, "policy_model")
    assert isinstance(model, ScriptedModel)
    model.turns = [[text("hi")], [text("hi")]]
    context = RequestContext("attempt-7", calls=[])
    token = current_context.set(context)
    try:
        for path in ("/ng-rollout/attempt-7/v1/responses", "/v1/responses"):
            reply = await gym.client().post("policy_model", path, json={"input": "hi"})
            assert reply.status == 200
    finally:
        current_context.reset(token)
    assert context.calls is not None
    assert [call[:2] for call in context.calls] == [("policy_model", "/v1/responses")] * 2


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


async def test_a_reply_has_the_interface_of_an_aiohttp_response() -> None:
    gym = InProcessGym()
    gym.add(CounterEnvironment, "env")
    reply = await gym.client().post("env", "/seed_session", json=task_row())
    async with reply:
        assert reply.ok
        assert await reply.json() == orjson.loads(await reply.text()) == await get_response_json(reply)
        assert await reply.content.read() == reply.body
        assert any(name.startswith("ng_session_") for name in reply.cookies)
    reply.raise_for_status()
    reply.release()
    await raise_for_status(reply)


async def test_the_cookies_of_a_reply_select_its_session() -> None:
    gym = InProcessGym()
    gym.add(CounterEnvironment, "env")
    client = gym.client()
    opened = await client.post("env", "/seed_session", json=task_row())
    again = await client.post("env", "/add", json={"amount": 2}, cookies=opened.cookies)
    assert (await again.json())["count"] == 2
    other = await client.post("env", "/seed_session", json=task_row())
    assert (await (await client.post("env", "/add", json={"amount": 3}, cookies=other.cookies)).json())[
        "count"
    ] == 3


async def test_an_error_reply_raises_with_its_body() -> None:
    gym = InProcessGym()
    gym.add(CounterEnvironment, "env")
    reply = await gym.client().post("env", "/no_such_tool", json={})
    assert reply.status == 404
    with pytest.raises(UpstreamError):
        await raise_for_status(reply)


@pytest.mark.parametrize("body", [b"text", "text"], ids=["bytes", "text"])
async def test_data_and_params_are_sent_as_they_are(body: bytes | str) -> None:
    gym, seen = InProcessGym(), []
    gym.add(CounterEnvironment, "env")
    send = gym.transport.send

    async def recorded(base_url: str, call: Call) -> Any:
        seen.append(call)
        return await send(base_url, call)

    gym.transport.send = recorded  # type: ignore[method-assign]
    await gym.client().post("env", "/x", data=body, params={"a": "1 2"}, headers={"X-Own": "y"})
    assert (seen[0].path, seen[0].body, seen[0].headers["x-own"]) == ("/x?a=1+2", b"text", "y")


async def test_json_may_hold_models_and_sets() -> None:
    gym, seen = InProcessGym(), []
    gym.add(CounterEnvironment, "env")
    send = gym.transport.send

    async def recorded(base_url: str, call: Call) -> Any:
        seen.append(orjson.loads(call.body or b""))
        return await send(base_url, call)

    gym.transport.send = recorded  # type: ignore[method-assign]
    client = gym.client()
    await client.post("env", "/add", json=Amount(amount=1))
    await client.post("env", "/add", json={"amount": Amount(amount=1), "tags": {"a"}})
    assert seen == [{"amount": 1}, {"amount": {"amount": 1}, "tags": ["a"]}]
    with pytest.raises(TypeError, match="not JSON serializable: object"):
        await client.post("env", "/add", json={"amount": object()})


async def test_any_url_is_called_with_the_options_of_aiohttp() -> None:
    async with MockEngine() as engine:
        try:
            sent = {"model": engine.options.model, "messages": [{"role": "user", "content": "hi"}]}
            answer = await request("POST", f"{engine.base_url}/chat/completions", json=sent)
            await raise_for_status(answer)
            assert (await get_response_json(answer))["choices"]
            missing = await request("POST", f"{engine.root_url}/no/such/route", json={})
            with pytest.raises(aiohttp.ClientResponseError) as caught:
                await raise_for_status(missing)
            assert caught.value.status == 404
            assert caught.value.response_content  # type: ignore[attr-defined]
            assert get_global_aiohttp_client() is process_transport().session()
        finally:
            await process_transport().close()


async def test_every_process_of_a_server_is_called() -> None:
    async with MockEngine() as first, MockEngine() as second:
        ports = [int(engine.root_url.rpartition(":")[2]) for engine in (first, second)]
        server = {"host": "127.0.0.1", "port": ports[0], REPLICA_PORTS_KEY: ports, "entrypoint": "app.py"}
        config = {"env": {"resources_servers": {"env": server}}}
        client = ServerClient.connect(config, transport=process_transport(), token=None)
        try:
            assert client.has_replicas("env")
            replies = await client.post_everywhere("env", "/no/such/route", json={})
        finally:
            await process_transport().close()
        assert [reply.url.partition("/no")[0] for reply in replies] == [e.root_url for e in (first, second)]
        assert {reply.status for reply in replies} == {404}


def head_at(url: str) -> dict[str, Any]:
    host, _, port = url.removeprefix("http://").rpartition(":")
    return {"head_server": {"host": host, "port": int(port)}}


async def test_a_client_reads_its_configuration_from_the_head_server() -> None:
    served = orjson.dumps(
        "env:\n  resources_servers:\n    env: {host: 127.0.0.1, port: 7001, entrypoint: app.py}\n"
    )
    head = b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n" % len(served)
    async with answering([head + served], stays_open=False) as url:
        with configured(head_at(url)):
            client = await asyncio.to_thread(ServerClient.load_from_global_config)
    entry = client.global_config_dict.env.resources_servers.env
    assert client._build_server_base_url(entry) == "http://127.0.0.1:7001"
    assert client.caller().directory.names() == ("env",)


async def test_a_head_server_that_refuses_is_named_with_its_address() -> None:
    async with answering([b"HTTP/1.1 401 No\r\ncontent-length: 0\r\n\r\n"], stays_open=False) as url:
        with (
            configured(head_at(url)),
            pytest.raises(ConfigError, match=f"{url} does not answer .HTTP 401.") as caught,
        ):
            await asyncio.to_thread(ServerClient.load_from_global_config)
    assert caught.value.failure.code == "head_unreachable"


def test_the_url_of_a_server_is_found_by_its_name() -> None:
    config = {
        "env": {"resources_servers": {"env": {"host": "127.0.0.1", "port": 7001, "entrypoint": "app.py"}}}
    }
    with configured(config):
        assert get_server_url("env") == "http://127.0.0.1:7001"
    assert not is_nemo_gym_fastapi_entrypoint("app.py")
