"""Requests to replicas that can move, and sessions whose opener is lost."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from fastapi.testclient import TestClient

from nemo_gym.config import bootstrap
from nemo_gym.config.bootstrap import Bootstrap
from tests.serving.environments import CounterEnvironment, task_row


@pytest.fixture
def replica() -> Iterator[CounterEnvironment]:
    bootstrap.set_current(Bootstrap("env", {}, "token", "cookie", [], generation=2))
    environment = CounterEnvironment.standalone()
    assert isinstance(environment, CounterEnvironment)
    yield environment
    bootstrap.set_current(None)


def test_a_call_to_another_generation_is_refused(replica: CounterEnvironment) -> None:
    client = TestClient(replica.setup_webserver(), headers={"x-ng-token": "token"})
    stale = client.post("/seed_session", json=task_row(), headers={"x-ng-generation": "1"})
    assert stale.status_code == 410
    assert (stale.json()["error"]["code"], stale.json()["error"]["retryable"]) == ("node_lost", True)
    for current in ({"x-ng-generation": "2"}, {}):
        assert client.post("/seed_session", json=task_row(), headers=current).status_code == 200


def test_sessions_whose_opener_is_lost_are_abandoned(replica: CounterEnvironment) -> None:
    sessions = replica.middleware.access.sessions
    sessions.has_lost = lambda opener: opener == "agent/0/1"
    client = TestClient(replica.setup_webserver(), headers={"x-ng-token": "token"})
    for session, caller in (("lost", "agent/0/1"), ("kept", "agent/0/2")):
        headers = {"x-ng-session": session, "x-ng-caller": caller}
        assert client.post("/seed_session", json=task_row(), headers=headers).status_code == 200
    assert sessions.list_abandoned() == ["lost"]
    client.post("/close_session", json={}, headers={"x-ng-session": "lost"})
    assert sessions.list_abandoned() == []
    assert list(sessions.openers) == ["kept"]
