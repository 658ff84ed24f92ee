"""The base class of environments: its routes, sessions that it closes, and where `verify` runs."""

from __future__ import annotations

import os

import pytest
from fastapi.testclient import TestClient

from nemo_gym.base_resources_server import BaseResourcesServerConfig
from nemo_gym.rows.models import ReverifyMode
from tests.resources.computing import ComputingEnvironment
from tests.serving.environments import VERIFY, CounterEnvironment

HEADERS = {"x-ng-session": "s"}


class Stateless(BaseResourcesServerConfig):
    REVERIFY_MODE = ReverifyMode.STATELESS


class Broken(CounterEnvironment):
    config: Stateless

    async def release_session(self, session_id: str) -> None:
        await super().release_session(session_id)
        raise OSError("the container is gone")


def counter(server: type[CounterEnvironment] = CounterEnvironment) -> CounterEnvironment:
    made = server.standalone(name="env")
    assert isinstance(made, CounterEnvironment)
    return made


def test_the_paths_of_tools_are_listed_as_the_schema_has_them() -> None:
    client = TestClient(counter().finish_app())
    described = client.get("/openapi.json").json()["paths"]
    posted = sorted(path for path, methods in described.items() if "post" in methods)
    assert client.get("/_ng/posted").json() == {"paths": posted, "methods": {}}
    assert "/add" in posted


def test_the_reverify_mode_is_that_of_the_configuration_s_class() -> None:
    for server, mode in ((CounterEnvironment, "unknown"), (Broken, "stateless")):
        assert TestClient(counter(server).setup_webserver()).get("/reverify_mode").json() == mode


def test_the_author_s_method_is_called_once_for_an_open_session_only() -> None:
    environment = counter()
    client = TestClient(environment.setup_webserver(), headers=HEADERS)
    assert client.post("/close_session").json()["was_open"] is False
    client.post("/seed_session", json=VERIFY, headers={"x-ng-session": "other"})
    client.post("/close_session", headers={"x-ng-session": "other"})
    client.post("/close_session", headers={"x-ng-session": "other"})
    assert environment.closed == ["other"]


async def test_a_stop_closes_every_session_although_one_fails(caplog: pytest.LogCaptureFixture) -> None:
    environment = counter(Broken)
    client = TestClient(environment.setup_webserver())
    for session in ("a", "b"):
        client.post("/seed_session", json=VERIFY, headers={"x-ng-session": session})
        client.cookies.clear()
    await environment.before_stop()
    assert environment.closed == ["a", "b"]
    assert "closing session a failed" in caplog.text


async def test_workers_are_built_before_the_first_attempt_and_verify_runs_there() -> None:
    environment = ComputingEnvironment.standalone(name="env", factor=1.5)
    assert isinstance(environment, ComputingEnvironment)
    app = environment.setup_webserver()
    await environment.warm_workers()
    scored = TestClient(app).post("/verify", json={**VERIFY, "mode": "answer"}).json()
    assert scored["reward"] == 3.0
    assert scored["pid"] != os.getpid()
