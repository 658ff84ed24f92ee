"""Sessions by header and cookie, and the run's token that opening one requires."""

from __future__ import annotations

import pytest
from fastapi.testclient import TestClient

from nemo_gym.config import bootstrap
from nemo_gym.config.bootstrap import Bootstrap
from responses_api_agents.simple_agent.app import SimpleAgent
from tests.serving.environments import VERIFY, CounterEnvironment, ScriptedModel, task_row, text


def test_a_client_with_only_cookies_keeps_its_session(environment: CounterEnvironment) -> None:
    client = TestClient(environment.setup_webserver())
    seeded = client.post("/seed_session", json=task_row())
    cookies = dict(seeded.cookies)
    client.cookies.clear()
    assert len(cookies) == 1
    for _ in range(2):
        added = client.post(
            "/add", json={"amount": 2}, headers={"cookie": "; ".join(map("=".join, cookies.items()))}
        )
    assert added.json() == {"count": 4}
    verified = client.post(
        "/verify", json=VERIFY, headers={"cookie": "; ".join(map("=".join, cookies.items()))}
    )
    assert verified.json()["reward"] == 4.0


def test_two_clients_without_a_session_get_different_ones(environment: CounterEnvironment) -> None:
    app = environment.setup_webserver()
    TestClient(app).post("/seed_session", json=task_row())
    TestClient(app).post("/seed_session", json=task_row())
    assert len(environment.counts) == 2


def test_a_forged_cookie_is_refused(environment: CounterEnvironment) -> None:
    client = TestClient(environment.setup_webserver())
    value = client.post("/seed_session", json=task_row()).cookies[environment.middleware.access.cookies.name]
    client.cookies.clear()
    forged = "other" + value[value.index(".") :]
    answer = client.post(
        "/add",
        json={"amount": 1},
        headers={"cookie": f"{environment.middleware.access.cookies.name}={forged}"},
    )
    assert answer.status_code == 403
    assert answer.json()["error"]["code"] == "session_forged"


def test_cookies_of_another_run_are_refused(environment: CounterEnvironment) -> None:
    other = CounterEnvironment.standalone(name="env")
    value = TestClient(other.setup_webserver()).post("/seed_session", json=task_row()).headers["set-cookie"]
    answer = TestClient(environment.setup_webserver()).post(
        "/add", json={"amount": 1}, headers={"cookie": value.partition(";")[0]}
    )
    assert answer.status_code == 403


def test_a_server_that_keeps_no_sessions_minds_no_foreign_cookie() -> None:
    model = ScriptedModel.standalone(name="model")
    assert isinstance(model, ScriptedModel)
    model.turns = [[text("hello")]]
    cookie = f"{model.middleware.access.cookies.name}=session-of-another-run.0123"
    answer = TestClient(model.setup_webserver()).post(
        "/v1/responses", json={"input": "hi"}, headers={"cookie": cookie}
    )
    assert answer.status_code == 200
    assert model.middleware.access.cookies.name in answer.cookies, "it is given a session of its own"


def test_closing_is_idempotent_and_opening_again_starts_anew(environment: CounterEnvironment) -> None:
    client = TestClient(environment.setup_webserver(), headers={"x-ng-session": "s1"})
    client.post("/seed_session", json=task_row())
    client.post("/add", json={"amount": 2})
    assert client.post("/close_session").json() == {"session_id": "s1", "was_open": True}
    assert client.post("/close_session").json() == {"session_id": "s1", "was_open": False}
    client.post("/seed_session", json=task_row())
    assert client.post("/add", json={"amount": 1}).json() == {"count": 1}


@pytest.mark.usefixtures("run_with_token")
@pytest.mark.parametrize("route", ["/seed_session", "/verify", "/close_session", "/aggregate_metrics"])
def test_control_routes_need_the_token_of_the_run(route: str) -> None:
    environment = CounterEnvironment.standalone(name="env")
    client = TestClient(environment.setup_webserver())
    assert client.post(route, json=VERIFY).status_code == 401
    assert client.post(route, json=VERIFY, headers={"x-ng-token": "another"}).status_code == 401
    right = client.post(
        route,
        json={**VERIFY, "verify_responses": []},
        headers={"x-ng-token": "the-run-token", "x-ng-session": "s"},
    )
    assert right.status_code != 401


TOKEN = {"x-ng-token": "the-run-token"}


@pytest.mark.usefixtures("run_with_token")
def test_a_tool_needs_a_session_that_was_opened_with_the_token() -> None:
    environment = CounterEnvironment.standalone(name="env")
    client = TestClient(environment.setup_webserver())
    seeded = client.post("/seed_session", json=task_row(), headers={"x-ng-session": "s", **TOKEN})
    client.cookies.clear()
    named = client.post("/add", json={"amount": 1}, headers={"x-ng-session": "s"})
    assert (named.status_code, named.json()["error"]["code"]) == (401, "token_required")
    cookie = seeded.headers["set-cookie"].partition(";")[0]
    assert client.post("/add", json={"amount": 1}, headers={"cookie": cookie}).json() == {"count": 1}
    assert client.post("/add", json={"amount": 1}, headers={"x-ng-session": "s", **TOKEN}).json() == {
        "count": 2
    }


@pytest.mark.usefixtures("run_with_token")
def test_an_agent_rejects_sessions_of_strangers() -> None:
    references = {
        "resources_server": {"type": "resources_servers", "name": "env"},
        "model_server": {"type": "responses_api_models", "name": "policy_model"},
    }
    client = TestClient(SimpleAgent.standalone(name="agent", **references).setup_webserver())
    refused = client.post("/run", json=task_row(), headers={"x-ng-session": "another's"})
    assert (refused.status_code, refused.json()["error"]["code"]) == (401, "token_required")


@pytest.mark.usefixtures("run_with_token")
def test_model_servers_take_any_session() -> None:
    model = ScriptedModel.standalone(name="policy_model")
    assert isinstance(model, ScriptedModel)
    model.turns = [[text("hi")]]
    client = TestClient(model.setup_webserver(), headers={"x-ng-session": "s"})
    assert client.post("/v1/responses", json={"input": "hi"}).status_code == 200


def test_a_closed_session_is_refused_and_only_opening_brings_it_back(environment: CounterEnvironment) -> None:
    client = TestClient(environment.setup_webserver(), headers={"x-ng-session": "s"})
    client.post("/seed_session", json=task_row())
    client.post("/close_session")
    for path, body in (("/add", {"amount": 1}), ("/verify", VERIFY)):
        refused = client.post(path, json=body)
        assert (refused.status_code, refused.json()["error"]["code"]) == (410, "session_closed")
        assert refused.json()["error"]["retryable"] is True
    client.post("/seed_session", json=task_row())
    assert client.post("/add", json={"amount": 1}).json() == {"count": 1}


def test_a_replayed_cookie_reaches_no_session(environment: CounterEnvironment) -> None:
    client = TestClient(environment.setup_webserver())
    cookie = client.post("/seed_session", json=task_row()).headers["set-cookie"].partition(";")[0]
    client.cookies.clear()
    old = {"cookie": cookie}
    assert client.post("/close_session", headers=old).json()["was_open"] is True
    assert client.post("/add", json={"amount": 1}, headers=old).status_code == 410
    anew = client.post("/seed_session", json=task_row(), headers=old)
    assert anew.headers["set-cookie"].partition(";")[0] != cookie
    assert client.post("/add", json={"amount": 1}, headers=old).status_code == 410


@pytest.mark.parametrize(
    ("host", "keys", "needs_token"),
    [
        ("127.0.0.1", {}, False),
        ("0.0.0.0", {}, True),
        ("::", {}, True),
        ("192.0.2.7", {}, True),
        ("0.0.0.0", {"open_network": True}, False),
    ],
)
def test_every_route_that_other_machines_reach_needs_the_token(
    host: str, keys: dict[str, object], needs_token: bool
) -> None:
    config = {"head_server": {"host": host, "port": 1}, **keys}
    bootstrap.set_current(Bootstrap("env", config, "the-run-token", "cookie-key", []))
    try:
        environment = CounterEnvironment.standalone(name="env", host=host)
        client = TestClient(environment.setup_webserver(), base_url="http://127.0.0.1")
        for path in ("/", "/_ng/stats", "/openapi.json", "/reverify_mode", "/nowhere"):
            assert (client.get(path).status_code == 401) is needs_token, path
            assert (client.get(path, headers={"x-ng-token": "wrong"}).status_code == 401) is needs_token
            for proof in (
                TOKEN,
                {"authorization": "Bearer the-run-token"},
                {"x-api-key": "the-run-token"},
                {"x-api-key": "of another service", "authorization": "Bearer the-run-token"},
            ):
                assert client.get(path, headers=proof).status_code in (200, 404), path
            for wrong in ({"authorization": "Bearer wrong"}, {"x-api-key": "wrong"}, {"x-api-key": ""}):
                assert (client.get(path, headers=wrong).status_code == 401) is needs_token
        if needs_token:
            remedy = client.get("/nowhere").json()["error"]["remedy"]
            assert "API key (Authorization: Bearer, or x-api-key)" in remedy
        assert client.post("/verify", json=VERIFY).status_code == 401
        for path in (
            "/health",
            "/healthz",
            "/livez",
            "/readyz",
        ):  # a platform probes a server without the token
            assert client.get(path).json() == {"status": "ok"}
    finally:
        bootstrap.set_current(None)
