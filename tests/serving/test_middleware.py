"""Sessions, tokens, failures and cancellation in the middleware of a server, over its real app."""

from __future__ import annotations

import asyncio
from typing import Any

import orjson
import pytest
from fastapi import FastAPI, HTTPException, Request
from fastapi.testclient import TestClient

from nemo_gym.config import bootstrap
from nemo_gym.config.bootstrap import Bootstrap
from nemo_gym.failures import Boundary, InputError
from nemo_gym.serving.sessions import SESSION_ID_KEY
from nemo_gym.testing.in_process import InProcessGym
from nemo_gym.transport import Call
from nemo_gym.transport.server_client import ServerClient
from responses_api_agents.simple_agent.app import SimpleAgent
from tests.serving.environments import Amount, CounterEnvironment, ScriptedModel, task_row, text

VERIFY = {
    **task_row(),
    "response": {
        "id": "r",
        "created_at": 0,
        "model": "m",
        "object": "response",
        "output": [],
        "parallel_tool_calls": True,
        "tool_choice": "auto",
        "tools": [],
    },
}


@pytest.fixture
def environment() -> CounterEnvironment:
    server = CounterEnvironment.standalone(name="env")
    assert isinstance(server, CounterEnvironment)
    return server


def test_a_client_that_knows_only_cookies_keeps_its_session(environment: CounterEnvironment) -> None:
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


class Notebook(CounterEnvironment):
    """Has a tool that stores its argument in a session that was not seeded."""

    def setup_webserver(self) -> FastAPI:
        app = super().setup_webserver()
        app.post("/reset")(self.note)
        app.post("/note")(self.note)
        app.post("/read")(self.read)
        return app

    async def note(self, request: Request, body: Amount) -> None:
        request.session["amounts"] = [*request.session.get("amounts", ()), body.amount]
        if body.amount < 0:
            raise HTTPException(422, "noted all the same")

    async def read(self, request: Request) -> list[int]:
        return list(request.session.get("amounts", ()))

    async def close_session(self, session_id: str) -> None:
        self.closed.append(session_id)


@pytest.fixture
def notebook() -> Notebook:
    server = Notebook.standalone(name="env")
    assert isinstance(server, Notebook)
    return server


@pytest.mark.parametrize("path", ["/reset", "/note"])
@pytest.mark.parametrize("amount", [1, -1], ids=["answers", "refuses"])
def test_what_a_handler_puts_into_a_session_opens_it(notebook: Notebook, path: str, amount: int) -> None:
    client = TestClient(notebook.setup_webserver())
    assert client.post("/read").json() == []
    assert len(notebook.middleware.access.sessions) == 0, "reading opens nothing"
    client.post(path, json={"amount": amount})
    client.post(path, json={"amount": 2})
    assert client.post("/read").json() == [amount, 2]
    assert len(notebook.middleware.access.sessions) == 1
    assert client.post("/close_session").json()["was_open"] is True
    assert len(notebook.closed) == 1
    assert client.post("/note", json={"amount": 3}).status_code == 410


def test_a_session_that_is_closed_while_its_handler_works_stays_closed(notebook: Notebook) -> None:
    app = notebook.setup_webserver()

    async def close_and_note(request: Request) -> None:
        notebook.middleware.access.sessions.close(request.session[SESSION_ID_KEY])
        request.session["amounts"] = [1]

    app.post("/close_and_note")(close_and_note)
    client = TestClient(app)
    assert client.post("/close_and_note").status_code == 200
    assert len(notebook.middleware.access.sessions) == 0
    assert client.post("/read").status_code == 410


def test_a_session_opened_by_its_data_is_swept_by_its_deadline(notebook: Notebook) -> None:
    client = TestClient(notebook.setup_webserver(), headers={"x-ng-session": "s", "x-ng-deadline": "-3600"})
    client.post("/note", json={"amount": 1})
    assert notebook.middleware.access.sessions.abandoned() == ["s"]


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


def test_verify_answers_the_same_twice(environment: CounterEnvironment) -> None:
    client = TestClient(environment.setup_webserver(), headers={"x-ng-session": "s1"})
    client.post("/seed_session", json=task_row())
    client.post("/add", json={"amount": 3})
    assert client.post("/verify", json=VERIFY).json() == client.post("/verify", json=VERIFY).json()


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


def test_stats_count_requests_errors_and_sessions(environment: CounterEnvironment) -> None:
    client = TestClient(environment.setup_webserver())
    client.post("/seed_session", json=task_row())
    client.post("/crash")
    for path in ("/", "/_ng/stats"):  # to look is no request
        assert client.get(path).status_code == 200
    stats = client.get("/_ng/stats").json()
    del stats["workers"]  # the process's, whatever other tests had them do
    assert stats == {
        "requests": 2,
        "errors": 1,
        "in_flight": 0,
        "cancelled": 0,
        "sessions_open": 1,
        "outages": [],
        "refusals": 0,
        "loop_held": {},
    }


@pytest.fixture
def run_with_token() -> Any:
    bootstrap.set_current(Bootstrap("env", {}, "the-run-token", "cookie-key", []))
    yield
    bootstrap.set_current(None)


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
def test_an_agent_plays_in_nobody_s_session_for_a_stranger() -> None:
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


@pytest.mark.parametrize("deadline", ["soon", "nan", "inf", ""])
def test_a_deadline_that_is_no_number_is_named(environment: CounterEnvironment, deadline: str) -> None:
    refused = TestClient(environment.setup_webserver()).get("/", headers={"x-ng-deadline": deadline})
    assert (refused.status_code, refused.json()["error"]["code"]) == (422, "invalid_deadline")


async def test_a_server_that_stops_frees_its_open_sessions() -> None:
    environment = CounterEnvironment.standalone(name="env")
    assert isinstance(environment, CounterEnvironment)
    app = environment.setup_webserver()
    async with environment.alive():
        for session in ("a", "b"):
            with TestClient(app) as client:
                client.post("/seed_session", json=task_row(), headers={"x-ng-session": session})
    assert environment.closed == ["a", "b"]
    assert len(environment.middleware.access.sessions) == 0


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


async def test_a_caller_that_goes_away_cancels_the_handler() -> None:
    model = ScriptedModel.standalone(name="policy_model")
    assert isinstance(model, ScriptedModel)
    model.turns = [30.0]
    app = model.setup_webserver()
    body = orjson.dumps({"input": "hi"})
    messages: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
    messages.put_nowait({"type": "http.request", "body": body, "more_body": False})
    sent: list[Any] = []

    async def send(message: Any) -> None:
        sent.append(message)

    scope = {
        "type": "http",
        "method": "POST",
        "path": "/v1/responses",
        "raw_path": b"/v1/responses",
        "query_string": b"",
        "headers": [(b"content-type", b"application/json")],
    }
    handling = asyncio.create_task(app(scope, messages.get, send))
    await model.started.wait()
    messages.put_nowait({"type": "http.disconnect"})
    await asyncio.wait_for(handling, 30)
    assert model.cancelled == 1
    assert not sent, "the client has disconnected"
    assert (model.middleware.stats.cancelled, model.middleware.stats.in_flight) == (1, 0)


async def test_a_caller_that_has_its_whole_answer_may_go() -> None:
    """As uvicorn has it: the request is over for `receive` when the answer is out."""
    model = ScriptedModel.standalone(name="policy_model")
    answered, went_on = asyncio.Event(), asyncio.Event()

    async def receive() -> dict[str, Any]:
        await answered.wait()
        return {"type": "http.disconnect"}

    async def send(message: Any) -> None:
        if message["type"] == "http.response.body":
            answered.set()

    async def inner(scope: Any, receive: Any, send: Any) -> None:
        await asyncio.sleep(0.03)  # until its caller is watched
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b"{}"})
        await asyncio.sleep(0.03)
        went_on.set()

    messages = iter([{"type": "http.request", "body": b"{}", "more_body": False}])

    async def receive_all() -> dict[str, Any]:
        return next(messages, None) or await receive()

    scope = {"type": "http", "method": "POST", "path": "/v1/responses", "headers": []}
    await model.middleware(inner, scope, receive_all, send)
    assert went_on.is_set()
    assert (model.middleware.stats.cancelled, model.middleware.stats.errors) == (0, 0)


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


def test_a_second_session_at_the_same_server_gets_a_name_of_its_own() -> None:
    from nemo_gym.transport.context import RequestContext
    from nemo_gym.transport.server_client import _session_of_context

    context = RequestContext("s")
    assert _session_of_context(context, "env", opens=True) == "s"
    context.incarnations["env"] = "boot"
    assert _session_of_context(context, "env", opens=True) != "s"
    assert _session_of_context(context, "env", opens=False) == "s"


def test_a_server_client_can_be_built_as_environments_do() -> None:
    from unittest.mock import MagicMock

    config = CounterEnvironment.model_fields["config"].annotation
    assert config is not None
    server = CounterEnvironment(
        config=config(host="0.0.0.0", port=8080, entrypoint="", name=""),
        server_client=MagicMock(spec=ServerClient),
    )
    assert TestClient(server.setup_webserver()).get("/").json() == {"status": "ok"}
