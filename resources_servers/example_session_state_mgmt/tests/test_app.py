"""The counter of a session: initialized, changed, verified, and removed when the session is closed."""

from __future__ import annotations

from typing import Any
from unittest.mock import MagicMock

import pytest
from fastapi.testclient import TestClient

from nemo_gym.base_resources_server import BaseResourcesServerConfig
from nemo_gym.server_utils import ServerClient
from resources_servers.example_session_state_mgmt.app import ExampleSessionStateMgmtResourcesServer

ROW: dict[str, Any] = {"responses_create_params": {"input": "add"}, "initial_count": 3, "expected_count": 6}
RESPONSE = {
    "id": "r",
    "created_at": 0,
    "model": "m",
    "object": "response",
    "output": [],
    "parallel_tool_calls": True,
    "tool_choice": "auto",
    "tools": [],
}


@pytest.fixture
def server() -> ExampleSessionStateMgmtResourcesServer:
    return ExampleSessionStateMgmtResourcesServer(
        config=BaseResourcesServerConfig(host="", port=0, entrypoint="", name=""),
        server_client=MagicMock(spec=ServerClient),
    )


@pytest.mark.parametrize(("adds", "reward"), [([1, 2], 1.0), ([3], 1.0), ([], 0.0), ([1, 3], 0.0)])
def test_reward(server: ExampleSessionStateMgmtResourcesServer, adds: list[int], reward: float) -> None:
    client = TestClient(server.setup_webserver())
    client.post("/seed_session", json=ROW)
    for count in adds:
        assert client.post("/increment_counter", json={"count": count}).json() == {"success": True}
    assert client.post("/get_counter_value").json() == {"count": 3 + sum(adds)}
    for _ in range(2):
        scored = client.post("/verify", json={**ROW, "response": RESPONSE}).json()
        assert (scored["reward"], scored["final_count"]) == (reward, 3 + sum(adds))


def test_sessions_do_not_see_each_other(server: ExampleSessionStateMgmtResourcesServer) -> None:
    app = server.setup_webserver()
    one, other = TestClient(app), TestClient(app)
    one.post("/seed_session", json=ROW)
    other.post("/seed_session", json={**ROW, "initial_count": 100})
    one.post("/increment_counter", json={"count": 1})
    assert one.post("/get_counter_value").json() == {"count": 4}
    assert other.post("/get_counter_value").json() == {"count": 100}


def test_a_tool_without_a_session_is_refused(server: ExampleSessionStateMgmtResourcesServer) -> None:
    answer = TestClient(server.setup_webserver()).post("/get_counter_value")
    assert answer.status_code == 409


def test_closing_frees_the_state(server: ExampleSessionStateMgmtResourcesServer) -> None:
    client = TestClient(server.setup_webserver())
    client.post("/seed_session", json=ROW)
    client.post("/close_session")
    assert server.session_id_to_counter == {}
