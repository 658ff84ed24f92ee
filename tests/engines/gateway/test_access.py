"""Keys, paths and session headers lead to one rollout; forged ones are in `tests/security`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient

from nemo_gym import clock
from nemo_gym.engines.compaction import COMPACT_PATH
from nemo_gym.engines.gateway.access import SESSION_HEADERS
from nemo_gym.engines.record.call import DIALECTS
from nemo_gym.names import CALL_ROUTES
from tests.engines.gateway.rollouts import HELLO, TOKEN, WITH_TOKEN, bearer, gateway, opened, record_of


@pytest.fixture
def client(tmp_path: Path) -> TestClient:
    return gateway(tmp_path)


def test_the_routes_of_calls_are_those_that_are_captured() -> None:
    assert frozenset(DIALECTS) | {COMPACT_PATH} == CALL_ROUTES


def calls_of(client: TestClient, rollout: dict[str, str]) -> int:
    return len(record_of(client, rollout)["calls"])


@pytest.mark.parametrize("header", ["authorization", "x-api-key"])
@pytest.mark.parametrize("prefix", ["", "/ng-rollout/mine"])
def test_a_key_opens_the_calls_of_its_rollout(client: TestClient, header: str, prefix: str) -> None:
    mine = opened(client, rollout_id="mine")
    key = f"Bearer {mine['key']}" if header == "authorization" else mine["key"]
    message = {"model": "m", "max_tokens": 9, "messages": [{"role": "user", "content": "hi"}]}
    for path, body in (("responses", HELLO), ("chat/completions", message), ("messages", message)):
        assert client.post(f"{prefix}/v1/{path}", json=body, headers={header: key}).status_code == 200
    assert client.get(f"{prefix}/v1/models", headers={header: key}).status_code == 200
    assert calls_of(client, mine) == 3


def test_a_cookie_of_another_session_changes_nothing(client: TestClient) -> None:
    mine = opened(client, rollout_id="mine")
    cookie = {"cookie": "ng_session_policy_model=other.00"}
    path = "/ng-rollout/mine/v1/responses"
    assert client.post(path, json=HELLO, headers={**bearer(mine), **cookie}).status_code == 200
    assert calls_of(client, mine) == 1


@pytest.mark.parametrize("header", SESSION_HEADERS)
def test_a_session_header_names_a_rollout_and_the_token_opens_it(client: TestClient, header: str) -> None:
    mine = opened(client, rollout_id="mine")
    assert client.post("/v1/responses", json=HELLO, headers={header: "mine"}).status_code == 401
    allowed = {header: "mine", "authorization": f"Bearer {TOKEN}"}
    assert client.post("/v1/responses", json=HELLO, headers=allowed).status_code == 200
    assert calls_of(client, mine) == 1


def test_an_opened_rollout_needs_its_key_and_others_do_not(client: TestClient) -> None:
    opened(client, rollout_id="mine")
    refused = client.post("/ng-rollout/mine/v1/responses", json=HELLO)
    assert (refused.status_code, refused.json()["error"]["code"]) == (401, "rollout_key_required")
    assert client.post("/ng-rollout/unopened/v1/responses", json=HELLO).status_code == 200
    assert client.post("/v1/responses", json=HELLO).status_code == 200


def test_a_server_for_opened_rollouts_refuses_all_others(tmp_path: Path) -> None:
    client = gateway(tmp_path, require_open_rollouts=True)
    mine = opened(client)
    for path in ("/ng-rollout/unknown/v1/responses", "/v1/responses"):
        refused = client.post(path, json=HELLO, headers=WITH_TOKEN)
        assert (refused.status_code, refused.json()["error"]["code"]) == (403, "rollout_unknown")
    assert client.post("/v1/responses", json=HELLO, headers=bearer(mine)).status_code == 200
    assert client.get("/preflight").status_code == 200


class LaterSources(clock.Sources):
    """Clocks that are `seconds` ahead, and a wall clock that was also set by `jump`."""

    def __init__(self, seconds: float, jump: float = 0.0) -> None:
        self.seconds = seconds
        self.jump = jump

    def monotonic(self) -> float:
        return super().monotonic() + self.seconds

    def wall_clock(self) -> float:
        return super().wall_clock() + self.seconds + self.jump


def test_a_key_expires(client: TestClient) -> None:
    mine: Any = opened(client, expires_s=1000)
    for later, status in ((0, 200), (999, 200), (1001, 401)):
        with clock.replaced_by(LaterSources(later)):
            assert client.post("/v1/responses", json=HELLO, headers=bearer(mine)).status_code == status


@pytest.mark.parametrize("jump", [-1e6, -500.0, 500.0, 1e6])
def test_a_change_of_the_wall_clock_neither_ends_nor_prolongs_a_key(client: TestClient, jump: float) -> None:
    mine: Any = opened(client, expires_s=1000)
    for later, status in ((0, 200), (999, 200), (1001, 401)):
        with clock.replaced_by(LaterSources(later, jump)):
            assert client.post("/v1/responses", json=HELLO, headers=bearer(mine)).status_code == status
