"""Every error of a server has the same envelope."""

from __future__ import annotations

import orjson
import pytest
from fastapi import FastAPI, HTTPException
from fastapi.testclient import TestClient

from nemo_gym.failures import Boundary, InputError
from nemo_gym.testing.in_process import InProcessGym
from tests.serving.environments import CounterEnvironment, ScriptedModel


def test_an_exception_becomes_an_envelope_that_names_it(environment: CounterEnvironment) -> None:
    answer = TestClient(environment.setup_webserver()).post("/crash")
    assert answer.status_code == 500
    error = answer.json()["error"]
    assert error["type"] == Boundary.VERIFIER
    assert error["message"] == "RuntimeError: a bug in the tool"
    assert error["peer"] == "env"


class Helpless(CounterEnvironment):
    """Has a tool that needs FastAPI."""

    def setup_webserver(self) -> FastAPI:
        app = super().setup_webserver()
        app.post("/fail/{how}")(self.fail)
        return app

    async def fail(self, how: str) -> None:
        if how == "surrogate":
            raise ValueError("no tool \ud800")
        raise InputError("not like this", code=how) if how == "refused" else RuntimeError("a bug")


@pytest.mark.parametrize(
    ("how", "status", "code"), [("refused", 422, "refused"), ("crash", 500, "unhandled_exception")]
)
def test_an_error_of_a_route_that_needs_fastapi_is_an_envelope_too(how: str, status: int, code: str) -> None:
    server = Helpless.standalone(name="env")
    answer = TestClient(server.setup_webserver()).post(f"/fail/{how}")
    assert (answer.status_code, answer.json()["error"]["code"]) == (status, code)
    assert isinstance(server, Helpless)
    assert (server.middleware.stats.requests, server.middleware.stats.errors) == (1, 1)


def test_a_request_with_wrong_fields_names_all_of_them(environment: CounterEnvironment) -> None:
    answer = TestClient(environment.setup_webserver()).post(
        "/verify", json={"responses_create_params": {"inptu": 1}}
    )
    assert answer.status_code == 422
    message = answer.json()["error"]["message"]
    assert "inptu" in message
    assert "response" in message


def test_a_body_that_is_not_json_is_refused(environment: CounterEnvironment) -> None:
    answer = TestClient(environment.setup_webserver()).post("/add", content=b"{")
    assert answer.status_code == 422


async def test_the_root_cause_and_every_hop_reach_the_caller() -> None:
    gym = InProcessGym()
    model = gym.add(ScriptedModel, "policy_model")
    assert isinstance(model, ScriptedModel)
    model.turns = ["overflow"]
    reply = await gym.post("policy_model", "/v1/responses", {"input": "hi"})
    assert reply.status == 400
    error = orjson.loads(reply.body)["error"]
    assert (error["type"], error["code"], error["message"]) == (
        "engine",
        "context_overflow",
        "the context is full",
    )


@pytest.mark.parametrize(
    ("method", "path", "status", "code"),
    [("POST", "/nowhere", 404, "no_route"), ("DELETE", "/add", 405, "method_not_allowed")],
)
@pytest.mark.parametrize("is_authors_app", [False, True])
def test_an_error_of_the_router_is_an_envelope(
    environment: CounterEnvironment, method: str, path: str, status: int, code: str, is_authors_app: bool
) -> None:
    app = environment.setup_webserver()
    if is_authors_app:
        app = FastAPI(title="env")
        app.post("/add")(environment.add)
        environment.setup_session_middleware(app)
    answer = TestClient(app).request(method, path)
    assert (answer.status_code, answer.json()["error"]["code"]) == (status, code)
    assert answer.json()["error"]["peer"] == "env"
    assert path in answer.json()["error"]["message"]
    assert (answer.headers.get("allow") == "POST") is (status == 405)


def test_an_error_that_an_author_raises_keeps_the_form_that_models_read(
    environment: CounterEnvironment,
) -> None:
    app = environment.setup_webserver()

    async def fail() -> None:
        raise HTTPException(404, "no such page")

    app.post("/page")(fail)
    answer = TestClient(app).post("/page")
    assert (answer.status_code, answer.json()) == (404, {"detail": "no such page"})


def test_a_body_that_is_not_text_is_an_envelope(environment: CounterEnvironment) -> None:
    app = environment.setup_webserver()

    async def of(name: str, body: dict[str, str]) -> None:
        raise AssertionError

    app.post("/of/{name}")(of)
    answer = TestClient(app).post(
        "/of/me", content=b'{"a": "\xff"}', headers={"content-type": "application/json"}
    )
    assert (answer.status_code, answer.json()["error"]["code"]) == (400, "invalid_request")


def test_a_message_that_json_cannot_hold_is_shown_readably() -> None:
    client = TestClient(Helpless.standalone(name="env").setup_webserver())
    answer = client.post("/fail/surrogate")
    assert (answer.status_code, answer.json()["error"]["message"]) == (500, "ValueError: no tool \ufffd")
