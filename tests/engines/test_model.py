"""A model server of an author: two routes, typed requests, and the streams and Messages that are derived."""

from __future__ import annotations

import json
from typing import Any

import pytest
from fastapi.testclient import TestClient

from nemo_gym.failures import Boundary
from tests.serving.environments import ScriptedModel, text


def test_the_routes_call_the_author_s_methods() -> None:
    model = ScriptedModel.standalone(name="policy_model")
    assert isinstance(model, ScriptedModel)
    model.turns = [[text("hello")], "overflow"]
    client = TestClient(model.setup_webserver())
    assert (
        client.post("/v1/responses", json={"input": "hi"}).json()["output"][0]["content"][0]["text"]
        == "hello"
    )
    refused = client.post("/v1/responses", json={"input": "hi"})
    assert (refused.status_code, refused.json()["error"]["type"]) == (400, Boundary.ENGINE)
    assert [request["input"] for request in model.requests] == ["hi", "hi"]


def test_an_error_of_an_author_s_method_is_an_engine_error() -> None:
    model = ScriptedModel.standalone(name="policy_model")
    body = {"messages": [{"role": "user", "content": "hi"}]}
    failed = TestClient(model.setup_webserver()).post("/v1/chat/completions", json=body)
    assert (failed.status_code, failed.json()["error"]["type"]) == (500, Boundary.ENGINE)


def test_a_request_that_does_not_fit_the_api_is_refused_before_the_method() -> None:
    model = ScriptedModel.standalone(name="policy_model")
    assert isinstance(model, ScriptedModel)
    refused = TestClient(model.setup_webserver()).post("/v1/responses", json={"inptu": "hi"})
    assert refused.status_code == 422
    assert model.requests == []


@pytest.fixture
def client() -> TestClient:
    model = ScriptedModel.standalone(name="policy_model")
    assert isinstance(model, ScriptedModel)
    model.turns = [[text("hello")]]
    return TestClient(model.setup_webserver())


def events_of(body: str) -> list[dict[str, Any]]:
    return [json.loads(line[6:]) for line in body.splitlines() if line.startswith("data: {")]


def test_a_response_is_streamed(client: TestClient) -> None:
    reply = client.post("/v1/responses", json={"input": "hi", "stream": True})
    assert reply.headers["content-type"].startswith("text/event-stream")
    last = events_of(reply.text)[-1]
    assert last["type"] == "response.completed"
    assert last["response"]["output"][0]["content"][0]["text"] == "hello"


def test_stream_false_is_no_stream(client: TestClient) -> None:
    reply = client.post("/v1/responses", json={"input": "hi", "stream": False})
    assert reply.json()["output"][0]["content"][0]["text"] == "hello"


def test_a_message_is_answered(client: TestClient) -> None:
    body = {"model": "m", "max_tokens": 9, "messages": [{"role": "user", "content": "hi"}]}
    message = client.post("/v1/messages", json=body).json()
    assert (message["type"], message["content"]) == ("message", [{"type": "text", "text": "hello"}])


def test_a_message_is_streamed(client: TestClient) -> None:
    body = {"model": "m", "max_tokens": 9, "stream": True, "messages": [{"role": "user", "content": "hi"}]}
    events = events_of(client.post("/v1/messages", json=body).text)
    assert (events[0]["type"], events[-1]["type"]) == ("message_start", "message_stop")


@pytest.mark.parametrize("path", ["/v1/responses", "/v1/messages"])
def test_a_refusal_is_no_stream(path: str) -> None:
    model = ScriptedModel.standalone(name="policy_model")
    assert isinstance(model, ScriptedModel)
    model.turns = ["overflow"]
    body = {"stream": True, "input": "hi"}
    if path == "/v1/messages":
        body = {"max_tokens": 9, "stream": True, "messages": [{"role": "user", "content": "hi"}]}
    reply = TestClient(model.setup_webserver()).post(path, json=body)
    assert reply.status_code == 400
    assert reply.headers["content-type"] == "application/json"
