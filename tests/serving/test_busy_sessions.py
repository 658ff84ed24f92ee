"""The names of the sessions that a replica has, which decide when it can be removed."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest
from fastapi.testclient import TestClient

from nemo_gym.config import bootstrap
from nemo_gym.config.bootstrap import Bootstrap
from nemo_gym.serving._busy_sessions import BusySessions
from nemo_gym.transport.context import RequestContext, current_context
from tests.serving.environments import CounterEnvironment, task_row


@pytest.fixture
def replica() -> Iterator[CounterEnvironment]:
    bootstrap.set_current(Bootstrap("env", {}, "token", "cookie", [], generation=1))
    environment = CounterEnvironment.standalone()
    assert isinstance(environment, CounterEnvironment)
    yield environment
    bootstrap.set_current(None)


async def test_a_session_is_busy_until_its_last_request_has_ended() -> None:
    busy, finish = BusySessions(), {path: asyncio.Event() for path in ("/a", "/b", "/_ng/stats")}

    async def handle(scope: Any, receive: Any, send: Any) -> None:
        await finish[scope["path"]].wait()

    async def request(session: str, path: str) -> None:
        current_context.set(RequestContext(session))
        await busy(handle, {"path": path}, None, None)  # type: ignore[arg-type]

    calls = [asyncio.create_task(request("one", path)) for path in ("/a", "/b")]
    probe = asyncio.create_task(request("probe", "/_ng/stats"))
    await asyncio.sleep(0)
    assert busy.names() == {"one"}
    for path, left in (("/a", {"one"}), ("/b", set())):
        finish[path].set()
        await asyncio.wait(calls, return_when=asyncio.FIRST_COMPLETED)
        await asyncio.sleep(0)
        assert busy.names() == left
        calls = [call for call in calls if not call.done()]
    finish["/_ng/stats"].set()
    await probe


def test_the_route_answers_open_and_busy_sessions_to_those_who_know_the_token(
    replica: CounterEnvironment,
) -> None:
    client = TestClient(replica.setup_webserver())
    assert client.get("/_ng/sessions").status_code == 401
    client.headers["x-ng-token"] = "token"
    for session in ("b", "a"):
        client.post("/seed_session", json=task_row(), headers={"x-ng-session": session})
    replica._busy_sessions._inside["running"] = 1
    assert client.get("/_ng/sessions").json() == ["a", "b", "running"]
