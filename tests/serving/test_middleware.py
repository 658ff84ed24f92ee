"""Sessions, tokens, failures and cancellation in the middleware of a server, over its real app."""

from __future__ import annotations

from collections.abc import Coroutine, Iterable
from typing import Any

import pytest
from fastapi import FastAPI, HTTPException, Request
from fastapi.testclient import TestClient

from nemo_gym.serving.sessions import SESSION_ID_KEY
from tests.serving.environments import VERIFY, Amount, CounterEnvironment, task_row
from tests.waiting import until


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

    async def release_session(self, session_id: str) -> None:
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
    assert notebook.middleware.access.sessions.list_abandoned() == ["s"]


def test_verify_answers_the_same_twice(environment: CounterEnvironment) -> None:
    client = TestClient(environment.setup_webserver(), headers={"x-ng-session": "s1"})
    client.post("/seed_session", json=task_row())
    client.post("/add", json={"amount": 3})
    assert client.post("/verify", json=VERIFY).json() == client.post("/verify", json=VERIFY).json()


def test_stats_count_requests_errors_and_sessions(environment: CounterEnvironment) -> None:
    client = TestClient(environment.setup_webserver())
    client.post("/seed_session", json=task_row())
    client.post("/crash")
    for path in ("/", "/health", "/_ng/stats"):  # to look is no request
        assert client.get(path).status_code == 200
    stats = client.get("/_ng/stats").json()
    del stats["workers"]  # the process's, whatever other tests had them do
    assert stats.pop("seconds") > 0
    crash = stats.pop("tools").pop("crash")
    assert (crash["calls"], crash["errors"], crash["cause"]) == (1, 1, "RuntimeError: a bug in the tool")
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


@pytest.mark.parametrize("deadline", ["soon", "nan", "inf", ""])
def test_a_deadline_that_is_no_number_is_named(environment: CounterEnvironment, deadline: str) -> None:
    refused = TestClient(environment.setup_webserver()).get("/", headers={"x-ng-deadline": deadline})
    assert (refused.status_code, refused.json()["error"]["code"]) == (422, "invalid_deadline")


async def test_background_work_that_fails_is_logged_when_it_does(caplog: pytest.LogCaptureFixture) -> None:
    class Failing(CounterEnvironment):
        def background_tasks(self) -> Iterable[Coroutine[Any, Any, None]]:
            return (self.count_sheep(),)

        async def count_sheep(self) -> None:
            raise LookupError("no sheep")

    async with Failing.standalone(name="env").alive():
        await until(lambda: caplog.records)
    (record,) = caplog.records
    assert "count_sheep" in record.message
    assert record.exc_info is not None
    assert isinstance(record.exc_info[1], LookupError)


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
