from __future__ import annotations

import stat
from pathlib import Path
from typing import Any

import pytest

from tests.engines.gateway.rollouts import HELLO, WITH_TOKEN, bearer, gateway, opened, record_of


def test_a_rollout_is_opened_called_and_read(tmp_path: Path) -> None:
    client = gateway(tmp_path)
    rollout = opened(client, rollout_id="r-1")
    assert rollout["base_url_path"] == "/ng-rollout/r-1/v1"
    answer = client.post("/ng-rollout/r-1/v1/responses", json=HELLO, headers=bearer(rollout))
    assert answer.status_code == 200
    record = record_of(client, rollout)
    (call,) = record["calls"]
    assert (record["rollout_id"], record["sealed"], call["dialect"]) == ("r-1", False, "responses")
    assert call["request"]["set"]["input"] == "hello"
    assert call["response"] == answer.json()


def test_a_rollout_without_an_id_gets_one(tmp_path: Path) -> None:
    client = gateway(tmp_path)
    first, second = opened(client), opened(client)
    assert first["rollout_id"] != second["rollout_id"]
    assert first["key"] != second["key"]


def test_opening_again_is_idempotent_with_the_same_options_only(tmp_path: Path) -> None:
    client = gateway(tmp_path)
    first = opened(client, rollout_id="r", max_calls=3, sampling={"temperature": 0.5})
    assert opened(client, rollout_id="r", max_calls=3, sampling={"temperature": 0.5}) == first
    assert (
        opened(gateway(tmp_path, replica=1), rollout_id="r", max_calls=3, sampling={"temperature": 0.5})
        == first
    )
    other = client.post("/ng-rollouts", json={"rollout_id": "r"}, headers=WITH_TOKEN)
    assert (other.status_code, other.json()["error"]["code"]) == (409, "rollout_exists")


@pytest.mark.parametrize(
    "terms",
    [
        {"rollout_id": "../x"},
        {"rollout_id": ".x"},
        {"rollout_id": "a/b"},
        {"rollout_id": ""},
        {"rollout_id": "x" * 201},
        {"sampling": {"stop": "x"}},
        {"max_calls": -1},
        {"expires_s": 0},
        {"unknown": 1},
    ],
)
def test_terms_that_make_no_sense_are_refused(tmp_path: Path, terms: dict[str, Any]) -> None:
    assert gateway(tmp_path).post("/ng-rollouts", json=terms, headers=WITH_TOKEN).status_code == 422
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("content", [
    '{"sampling": {"temperature": "nan"}}', '{"sampling": {"temperature": 1e400}}', '{"sampling": {"temperature": -5}}',
    '{"sampling": {"temperature": "inf"}}', '{"sampling": {"temperature": NaN}}', '{"sampling": {"top_p": 0}}',
    '{"sampling": {"top_p": 1.5}}', '{"sampling": {"top_p": "nan"}}', '{"sampling": {"top_k": -2}}',
    '{"sampling": {"top_k": 1180591620717411303424}}', '{"sampling": {"min_p": -0.1}}', '{"sampling": {"min_p": 2}}',
    '{"sampling": {"repetition_penalty": 0}}', '{"sampling": {"repetition_penalty": "inf"}}',
    '{"sampling": {"presence_penalty": "-inf"}}', '{"sampling": {"presence_penalty": 3}}',
    '{"sampling": {"frequency_penalty": "nan"}}', '{"sampling": {"seed": 1180591620717411303424}}',
    '{"sampling": {"seed": -1180591620717411303424}}', '{"sampling": {"max_tokens": 1180591620717411303424}}',
    '{"max_calls": 1180591620717411303424}', '{"max_sampled_tokens": 1180591620717411303424}',
    '{"expires_s": 1e400}', '{"expires_s": "nan"}', '{"expires_s": -1}',
])  # fmt: skip
def test_numbers_that_make_no_sense_are_refused(tmp_path: Path, content: str) -> None:
    headers = WITH_TOKEN | {"content-type": "application/json"}
    refused = gateway(tmp_path).post("/ng-rollouts", content=content, headers=headers)
    assert 400 <= refused.status_code < 500
    assert refused.json()["error"]["code"] in ("invalid_request", "invalid_json")


@pytest.mark.parametrize("sampling", [
    {"temperature": 0}, {"temperature": 5.0, "top_p": 1, "top_k": -1, "min_p": 0},
    {"top_k": 0, "repetition_penalty": 3.5}, {"presence_penalty": -2, "frequency_penalty": 2},
    {"seed": -(1 << 63) + 1, "max_tokens": 1}, {"seed": (1 << 63) - 1},
])  # fmt: skip
def test_numbers_that_engines_take_are_accepted(tmp_path: Path, sampling: dict[str, Any]) -> None:
    assert opened(gateway(tmp_path), sampling=sampling)


def test_a_sealed_rollout_refuses_calls_and_stays_readable(tmp_path: Path) -> None:
    client = gateway(tmp_path)
    rollout = opened(client, rollout_id="r")
    client.post("/v1/responses", json=HELLO, headers=bearer(rollout))
    for _ in range(2):
        assert client.post("/ng-rollouts/r/seal", headers=WITH_TOKEN).json()["sealed"]
    refused = client.post("/v1/responses", json=HELLO, headers=bearer(rollout))
    assert (refused.status_code, refused.json()["error"]["code"]) == (409, "rollout_sealed")
    assert refused.headers["x-should-retry"] == "false"
    record = record_of(client, rollout)
    assert record["sealed"]
    assert len(record["calls"]) == 1


def test_a_seal_holds_at_every_model_server_of_the_run(tmp_path: Path) -> None:
    first, second = gateway(tmp_path), gateway(tmp_path, replica=1)
    rollout = opened(first)
    assert second.post("/v1/responses", json=HELLO, headers=bearer(rollout)).status_code == 200
    first.post(f"/ng-rollouts/{rollout['rollout_id']}/seal", headers=WITH_TOKEN)
    assert second.post("/v1/responses", json=HELLO, headers=bearer(rollout)).status_code == 409
    assert len(record_of(first, rollout)["calls"]) == 1


def test_a_deleted_rollout_is_gone(tmp_path: Path) -> None:
    client = gateway(tmp_path)
    rollout = opened(client, rollout_id="r")
    client.post("/v1/responses", json=HELLO, headers=bearer(rollout))
    assert client.delete("/ng-rollouts/r", headers=WITH_TOKEN).json()["deleted"]
    assert not client.delete("/ng-rollouts/r", headers=WITH_TOKEN).json()["deleted"]
    assert client.get("/ng-rollouts/r", headers=WITH_TOKEN).status_code == 404
    assert client.post("/ng-rollouts/r/seal", headers=WITH_TOKEN).status_code == 404
    assert client.post("/v1/responses", json=HELLO, headers=bearer(rollout)).status_code == 401
    assert list(tmp_path.iterdir()) == []


def test_only_the_owner_can_read_a_record_and_no_file_has_the_key(tmp_path: Path) -> None:
    client = gateway(tmp_path)
    rollout = opened(client, rollout_id="r")
    client.post("/v1/responses", json=HELLO, headers=bearer(rollout))
    files = [path for path in (tmp_path / "r").iterdir() if path.is_file()]
    assert len(files) == 2
    assert {stat.S_IMODE(path.stat().st_mode) for path in files} == {0o600}
    secret = rollout["key"].rpartition(".")[2].encode()
    assert not any(secret in path.read_bytes() for path in files)
