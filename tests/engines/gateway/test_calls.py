from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import orjson
import pytest

from nemo_gym.engines.gateway.calls import RolloutCalls
from nemo_gym.engines.gateway.openings import Openings, RolloutTerms
from nemo_gym.engines.record.deltas import apply_delta
from nemo_gym.mock_engine import EngineOptions, MockEngine
from nemo_gym.serving.app import GymApp
from nemo_gym.transport import Call, InMemoryTransport, Reply
from nemo_gym.transport.request_body import WholeBody
from tests.engines.gateway.rollouts import HELLO, WITH_TOKEN, bearer, gateway, opened, record_of
from tests.engines.upstreams import RecordingUpstream
from tests.waiting import until

MESSAGE: dict[str, Any] = {"model": "m", "max_tokens": 9, "messages": [{"role": "user", "content": "hi"}]}
PATHS: dict[str, dict[str, Any]] = {"responses": HELLO, "chat/completions": MESSAGE, "messages": MESSAGE}


@pytest.mark.parametrize("path", PATHS)
def test_pins_replace_the_fields_of_every_call(tmp_path: Path, path: str) -> None:
    engine = RecordingUpstream(MockEngine(EngineOptions(model="mock")).app)
    client = gateway(tmp_path, engine)
    pins = {"temperature": 0.25, "top_k": 7, "seed": 3, "min_p": 0.1, "max_tokens": 77}
    rollout = opened(client, sampling=pins)
    body = {**PATHS[path], "temperature": 0.9, "model": "claude-opus"}
    assert client.post(f"/v1/{path}", json=body, headers=bearer(rollout)).status_code == 200
    sent = engine.last.body
    assert {name: sent[name] for name in ("temperature", "top_k", "seed", "min_p")} == {
        name: pins[name] for name in ("temperature", "top_k", "seed", "min_p")
    }
    assert sent["max_completion_tokens"] == 77
    assert sent["model"] == "mock"


@pytest.mark.parametrize("path", PATHS)
def test_a_stream_has_the_events_of_the_recorded_answer(tmp_path: Path, path: str) -> None:
    client = gateway(tmp_path)
    rollout = opened(client)
    streamed = client.post(f"/v1/{path}", json={**PATHS[path], "stream": True}, headers=bearer(rollout))
    assert streamed.headers["content-type"].startswith("text/event-stream")
    (call,) = record_of(client, rollout)["calls"]
    assert call["response"]["id"] in streamed.text
    assert "stream" not in call["request"]


def test_a_budget_of_calls_ends_with_an_error_that_agents_do_not_retry(tmp_path: Path) -> None:
    client = gateway(tmp_path)
    rollout = opened(client, max_calls=2)
    statuses = [
        client.post("/v1/responses", json=HELLO, headers=bearer(rollout)).status_code for _ in range(3)
    ]
    assert statuses == [200, 200, 400]
    refused = client.post("/v1/responses", json=HELLO, headers=bearer(rollout))
    assert refused.json()["error"]["code"] == "rollout_budget_exhausted"
    assert refused.headers["x-should-retry"] == "false"


def test_a_budget_of_tokens_is_counted_over_all_model_servers(tmp_path: Path) -> None:
    first, second = gateway(tmp_path), gateway(tmp_path, replica=1)
    rollout = opened(first, max_sampled_tokens=1)
    assert first.post("/v1/responses", json=HELLO, headers=bearer(rollout)).status_code == 200
    assert second.post("/v1/responses", json=HELLO, headers=bearer(rollout)).status_code == 400


def test_a_failed_call_is_recorded_with_its_error(tmp_path: Path) -> None:
    client = gateway(tmp_path)
    rollout = opened(client)
    assert client.post("/v1/responses", json={"input": []}, headers=bearer(rollout)).status_code == 422
    (call,) = record_of(client, rollout)["calls"]
    assert call["status_code"] == 422
    assert "input" in call["error"]


async def test_a_seal_cancels_the_calls_in_flight_down_to_the_engine(tmp_path: Path) -> None:
    engine = MockEngine(EngineOptions(model="mock", latency_s=60))
    transport = InMemoryTransport({"http://gym": gateway(tmp_path, engine.app).app})

    async def ask(method: str, path: str, body: Any, headers: dict[str, str]) -> Reply:
        return await transport.send("http://gym", Call(method, path, orjson.dumps(body), dict(headers)))

    rollout = (await ask("POST", "/ng-rollouts", {}, WITH_TOKEN)).json()
    call = asyncio.create_task(ask("POST", "/v1/responses", HELLO, bearer(rollout)))
    await until(lambda: engine.stats.in_flight)
    path = f"/ng-rollouts/{rollout['rollout_id']}"
    assert (await ask("POST", f"{path}/seal", {}, WITH_TOKEN)).json()["cancelled"] == 1
    refused = await call
    assert (refused.status, refused.json()["error"]["code"]) == (409, "rollout_sealed")
    await until(lambda: engine.stats.in_flight == 0)
    assert (await ask("GET", path, {}, WITH_TOKEN)).json()["calls"] == []


async def test_a_silent_stream_has_comments_until_the_answer(tmp_path: Path) -> None:
    engine = MockEngine(EngineOptions(model="mock", latency_s=60))
    app = gateway(tmp_path, engine.app, tick_s=0.001).app
    rollout = opened(gateway(tmp_path))
    comments = asyncio.Event()
    sent: list[Any] = []

    async def send(message: Any) -> None:
        sent.append(message)
        if sent.count(message) > 3:
            comments.set()

    body = WholeBody(orjson.dumps({**HELLO, "stream": True}), asyncio.Event().wait)  # type: ignore[arg-type]
    scope = {"type": "http", "method": "POST", "path": "/v1/responses", "query_string": b""}
    headers = [(b"authorization", bearer(rollout)["authorization"].encode())]
    call = asyncio.ensure_future(app({**scope, "headers": headers}, body, send))
    await comments.wait()
    assert sent[0]["status"] == 200
    assert sent[1]["body"].startswith(b": ")
    elsewhere = Openings(tmp_path, "cookie key")
    elsewhere.seal(elsewhere.open(RolloutTerms(rollout_id=rollout["rollout_id"])))
    await call  # another server sealed the rollout
    assert b"event: error" in sent[-1]["body"]
    assert b"is sealed" in sent[-1]["body"]
    await until(lambda: engine.stats.in_flight == 0)


async def test_identical_calls_in_flight_are_one_and_each_client_gets_the_answer(tmp_path: Path) -> None:
    engine = MockEngine(EngineOptions(model="mock", latency_s=0.05))
    transport = InMemoryTransport({"http://gym": gateway(tmp_path, engine.app).app})
    rollout = (
        await transport.send("http://gym", Call("POST", "/ng-rollouts", b"{}", dict(WITH_TOKEN)))
    ).json()
    call = [Call("POST", "/v1/responses", orjson.dumps(HELLO), dict(bearer(rollout))) for _ in range(5)]
    replies = await asyncio.gather(*(transport.send("http://gym", each) for each in call))
    assert len({reply.body for reply in replies}) == 1
    assert engine.stats.requests.total() == 1


@pytest.mark.parametrize("steps", [1, 2, 3])
async def test_a_call_that_its_client_has_left_does_not_refuse_the_repeated_call(
    tmp_path: Path, steps: int
) -> None:
    engine = MockEngine(EngineOptions(model="mock", latency_s=0.05))
    transport = InMemoryTransport({"http://gym": gateway(tmp_path, engine.app).app})
    rollout = (
        await transport.send("http://gym", Call("POST", "/ng-rollouts", b"{}", dict(WITH_TOKEN)))
    ).json()
    call = Call("POST", "/v1/responses", orjson.dumps(HELLO), dict(bearer(rollout)))
    left = asyncio.create_task(transport.send("http://gym", call))
    await until(lambda: engine.stats.in_flight == 1)
    left.cancel()
    for _ in range(steps):  # the call ends in several steps of the loop
        await asyncio.sleep(0)
    reply = await transport.send("http://gym", call)
    assert reply.ok, reply.body


async def test_a_rollout_without_a_call_in_flight_is_not_remembered(tmp_path: Path) -> None:
    server = gateway(tmp_path).app
    assert isinstance(server, GymApp)
    (calls,) = (layer for layer in server.layers if isinstance(layer, RolloutCalls))
    transport = InMemoryTransport({"http://gym": server})
    terms = Call("POST", "/ng-rollouts", b'{"max_calls": 0}', dict(WITH_TOKEN))
    rollout = (await transport.send("http://gym", terms)).json()
    refused = Call("POST", "/v1/responses", orjson.dumps(HELLO), dict(bearer(rollout)))
    assert (await transport.send("http://gym", refused)).status == 400
    assert not calls.flights


def test_a_repeated_call_whose_answer_was_lost_gets_it_again(tmp_path: Path) -> None:
    client = gateway(tmp_path)
    rollout = opened(client, max_calls=1)
    first = client.post("/v1/messages", json=MESSAGE, headers=bearer(rollout)).json()
    again = {**bearer(rollout), "x-stainless-retry-count": "1"}
    other = gateway(tmp_path, replica=1)  # such as the one that was started after a crash
    assert other.post("/v1/messages", json=MESSAGE, headers=again).json() == first
    streamed = other.post("/v1/messages", json={**MESSAGE, "stream": True}, headers=again)
    assert first["id"] in streamed.text
    assert len(record_of(client, rollout)["calls"]) == 1


CALLED: dict[str, Any] = {"name": "search", "arguments": '{ "q": "x" }'}
HISTORIES: dict[str, dict[str, Any]] = {
    "responses": {
        "input": [
            {"role": "user", "content": "hi"},
            {"type": "function_call", "call_id": "c", **CALLED, "phase": "x"},
            {"type": "function_call_output", "call_id": "c", "output": "found"},
        ],
        "tools": [{"type": "function", "name": "search", "parameters": {"type": "object"}}],
        "client_metadata": {"a": "b"},
    },
    "chat/completions": {
        "messages": [
            {"role": "user", "content": "hi"},
            {"role": "assistant", "tool_calls": [{"id": "c", "type": "function", "function": CALLED}]},
            {"role": "tool", "tool_call_id": "c", "content": "found"},
        ],
    },
    "messages": {
        "max_tokens": 9,
        "system": [
            {"type": "text", "text": "x-anthropic-billing-header: 1"},
            {"type": "text", "text": "act"},
        ],
        "messages": [
            {"role": "user", "content": "hi"},
            {
                "role": "assistant",
                "content": [{"type": "tool_use", "id": "c", "name": "search", "input": {}}],
            },
            {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "c", "content": "found"}]},
        ],
    },
}


@pytest.mark.parametrize("path", HISTORIES)
def test_the_record_has_the_request_as_it_was_sent(tmp_path: Path, path: str) -> None:
    client = gateway(tmp_path, return_token_id_information=True)
    rollout = opened(client)
    sent = {"model": "m", **HISTORIES[path]}
    assert client.post(f"/v1/{path}", json=sent, headers=bearer(rollout)).status_code == 200
    (call,) = record_of(client, rollout)["calls"]
    items, fields = apply_delta(None, call["request"])
    assert {**fields, "input" if path == "responses" else "messages": items} == sent
