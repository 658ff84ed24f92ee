"""A model server of an author: two routes, and typed requests."""

from __future__ import annotations

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
