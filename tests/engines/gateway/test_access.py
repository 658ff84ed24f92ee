"""Forged keys, other rollouts, control routes and path tricks are refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient

from nemo_gym import clock
from nemo_gym.engines.gateway.access import SESSION_HEADERS
from tests.engines.gateway.rollouts import HELLO, TOKEN, WITH_TOKEN, bearer, gateway, opened, record_of


@pytest.fixture
def client(tmp_path: Path) -> TestClient:
    return gateway(tmp_path)


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


def forged(key: str) -> list[str]:
    """Keys that resemble `key`."""
    name, _, proof = key.partition(".")
    return [
        name + ".",
        name,
        "ngr_",
        "ngr_.",
        f"ngr_.{proof}",
        f"{name}.{proof[:-1]}{'0' if proof[-1] != '0' else '1'}",
        f"{name}.{proof.upper()}0",
        f"ngr_Li4vLi4.{proof}",  # ../..
        f"ngr_!!!.{proof}",
        f"{key} ",
        f"ngr_{key}",
        f"{name}.{'é' * 64}",
    ]


def test_a_forged_key_opens_nothing(client: TestClient) -> None:
    mine = opened(client, rollout_id="mine")
    for key in forged(mine["key"]):
        headers = [(b"authorization", f"Bearer {key}".encode())]
        for path in ("/v1/responses", "/ng-rollout/mine/v1/responses", "/v1/models"):
            answer = client.request("POST", path, json=HELLO, headers=headers)
            assert answer.status_code in (401, 403), (key, path)
    assert calls_of(client, mine) == 0


def test_a_key_opens_no_other_rollout(client: TestClient) -> None:
    mine, other = opened(client, rollout_id="mine"), opened(client, rollout_id="other")
    for path in ("/ng-rollout/other/v1/responses", "/ng-rollout/unopened/v1/responses"):
        assert client.post(path, json=HELLO, headers=bearer(mine)).status_code == 403
    named = {**bearer(mine), "x-ng-session": "other"}
    assert client.post("/v1/responses", json=HELLO, headers=named).status_code == 403
    assert (calls_of(client, mine), calls_of(client, other)) == (0, 0)


def test_a_cookie_of_another_session_changes_nothing(client: TestClient) -> None:
    mine = opened(client, rollout_id="mine")
    cookie = {"cookie": "ng_session_policy_model=other.00"}
    path = "/ng-rollout/mine/v1/responses"
    assert client.post(path, json=HELLO, headers={**bearer(mine), **cookie}).status_code == 200
    assert client.post(path, json=HELLO, headers=cookie).status_code == 401
    assert calls_of(client, mine) == 1


CONTROL = [
    ("POST", "/ng-rollouts"),
    ("GET", "/ng-rollouts/mine"),
    ("POST", "/ng-rollouts/mine/seal"),
    ("DELETE", "/ng-rollouts/mine"),
    ("GET", "/ng-rollouts/other"),
    ("POST", "/policy_version"),
    ("GET", "/preflight"),
    ("GET", "/_ng/notes"),
    ("GET", "/_ng/stats"),
    ("GET", "/metrics"),
    ("GET", "/openapi.json"),
]


@pytest.mark.parametrize(("method", "path"), CONTROL)
def test_a_key_opens_no_control_route(client: TestClient, method: str, path: str) -> None:
    mine, other = opened(client, rollout_id="mine"), opened(client, rollout_id="other")
    for headers in (bearer(mine), {"x-ng-token": mine["key"]}, {"x-api-key": mine["key"]}):
        answer = client.request(method, path, json={}, headers=headers)
        is_open_to_all = "x-ng-token" in headers and not path.startswith(("/ng-rollouts", "/policy"))
        assert is_open_to_all or answer.status_code in (401, 403), (headers, answer.text)
    assert not record_of(client, mine)["sealed"]
    assert not record_of(client, other)["sealed"]


TRICKS = [
    "/ng-rollout/mine/ng-rollouts",
    "/ng-rollout/mine/ng-rollouts/other",
    "/ng-rollout/mine/v1/../../ng-rollouts/other",
    "/ng-rollout/mine/v1/..%2f..%2fng-rollouts%2fother",
    "/ng-rollout/mine/v1/%2e%2e/ng-rollouts/other",
    "/ng-rollout/mine%2f..%2fother/v1/responses",
    "/ng-rollout/../ng-rollout/other/v1/responses",
    "/ng-rollout/mine/ng-rollout/other/v1/responses",
    "/ng-rollout/mine/v1/ng-rollout/other/v1/responses",
    "/ng-rollout/other%00/v1/responses",
    "//ng-rollouts/other",
    "/ng-rollouts//other",
    "/ng-rollouts/other/",
    "/NG-ROLLOUTS/other",
    "/ng-rollouts/../ng-rollouts/other",
    "/ng-rollouts/other%2fseal",
    "/ng-rollout/other/training-token-capture/v1/responses",
]


@pytest.mark.parametrize("path", TRICKS)
@pytest.mark.parametrize("method", ["GET", "POST", "DELETE"])
def test_no_spelling_of_a_path_leads_elsewhere(client: TestClient, method: str, path: str) -> None:
    mine, other = opened(client, rollout_id="mine"), opened(client, rollout_id="other")
    answer = client.request(method, f"http://testserver{path}", json=HELLO, headers=bearer(mine))
    assert answer.status_code in (401, 403, 404, 405), answer.text
    assert (calls_of(client, mine), calls_of(client, other)) == (0, 0)
    assert not record_of(client, other)["sealed"]


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
    """A wall clock that is `seconds` ahead."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds

    def wall_clock(self) -> float:
        return super().wall_clock() + self.seconds


def test_a_key_expires(client: TestClient) -> None:
    mine: Any = opened(client, expires_s=1000)
    for later, status in ((0, 200), (999, 200), (1001, 401)):
        with clock.replaced_by(LaterSources(later)):
            assert client.post("/v1/responses", json=HELLO, headers=bearer(mine)).status_code == status
