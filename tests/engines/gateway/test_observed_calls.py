from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient
from starlette.requests import Request

from nemo_gym.ecosystem.model_calls import read_model_call_records
from nemo_gym.engines.record.call import start_model_execution
from nemo_gym.engines.record.store import CaptureStore
from nemo_gym.mock_engine import EngineOptions, MockEngine
from nemo_gym.responses.schemas import Response, ResponseCreateParams
from nemo_gym.transport import Call, InMemoryTransport
from nemo_gym.transport.context import SESSION_HEADER
from tests.engines.gateway.rollouts import HELLO, WITH_TOKEN, bearer, gateway, opened, record_of
from tests.serving.environments import ScriptedModel, text
from tests.waiting import until

BODY = {"input": "hi"}


class ObservedModel(ScriptedModel):
    async def responses(self, request: Request, body: ResponseCreateParams) -> Response:  # type: ignore[override]
        start_model_execution(request, upstream_attempted=True)["response_source"] = "upstream"
        return await super().responses(body)


def client_of(tmp_path: Path, **keys: Any) -> TestClient:
    model = ObservedModel.standalone(name="policy_model")
    assert isinstance(model, ObservedModel)
    given = {"observability_enabled": True, "model_call_capture_dir": str(tmp_path), **keys}
    model.server_client.global_config_dict = given
    model.turns = [[text("hello")], "overflow"]
    return TestClient(model.setup_webserver())


def test_calls_of_a_rollout_are_recorded_by_path_and_by_header(tmp_path: Path) -> None:
    client = client_of(tmp_path)
    client.post("/ng-rollout/0-0/v1/responses", json=BODY)
    assert client.post("/v1/responses", json=BODY, headers={SESSION_HEADER: "0-0"}).status_code == 400
    first, second = read_model_call_records(CaptureStore(tmp_path), "0-0")
    assert (first.dialect, first.status_code, first.response_source) == ("responses", 200, "upstream")
    assert first.request == BODY
    assert first.response is not None
    assert first.response_id == first.response["id"]
    assert first.model_ref is not None
    assert first.model_ref.name == "policy_model"
    assert first.started_at is not None
    assert first.completed_at is not None
    assert first.completed_at >= first.started_at
    assert second.error_category is not None


def test_a_streamed_answer_is_recorded_whole(tmp_path: Path) -> None:
    client = client_of(tmp_path)
    client.post("/ng-rollout/0-0/v1/responses", json={**BODY, "stream": True})
    (record,) = read_model_call_records(CaptureStore(tmp_path), "0-0")
    assert record.response is not None
    assert record.response["output"][0]["content"][0]["text"] == "hello"


def test_messages_are_recorded_in_their_own_dialect(tmp_path: Path) -> None:
    body = {"model": "m", "max_tokens": 9, "messages": [{"role": "user", "content": "hi"}]}
    client_of(tmp_path).post("/ng-rollout/0-0/v1/messages", json=body)
    (record,) = read_model_call_records(CaptureStore(tmp_path), "0-0")
    assert record.dialect == "messages"
    assert record.response is not None
    assert record.response["type"] == "message"


@pytest.mark.parametrize("keys", [{"observability_enabled": False}, {}])
def test_other_calls_are_not_recorded(tmp_path: Path, keys: dict[str, Any]) -> None:
    path = "/ng-rollout/0-0/v1/responses" if keys else "/v1/responses"
    assert client_of(tmp_path, **keys).post(path, json=BODY).status_code == 200
    assert list(tmp_path.iterdir()) == []


def test_an_answer_is_sent_even_if_it_cannot_be_recorded(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "file").touch()
    client = client_of(tmp_path / "file")
    assert client.post("/ng-rollout/0-0/v1/responses", json=BODY).status_code == 200
    assert "could not be written" in caplog.text


async def test_the_exchange_is_written_before_the_answer_ends(tmp_path: Path) -> None:
    client = client_of(tmp_path)
    await asyncio.to_thread(client.post, "/ng-rollout/0-0/v1/responses", json=BODY)
    assert (tmp_path / "0-0.jsonl").read_bytes().endswith(b"}\n")


@pytest.mark.parametrize("path", ["responses", "chat/completions", "messages"])
def test_a_call_of_an_opened_rollout_is_recorded_once(tmp_path: Path, path: str) -> None:
    client = gateway(tmp_path, is_observed=True)
    rollout = opened(client, rollout_id="r", max_calls=1)
    body = {"model": "m", "max_tokens": 9, "messages": [{"role": "user", "content": "hi"}]}
    asked = HELLO if path == "responses" else body
    url = f"{rollout['base_url_path']}/{path}"
    assert client.post(url, json=asked, headers=bearer(rollout)).status_code == 200
    (call,) = record_of(client, rollout)["calls"]
    (record,) = read_model_call_records(CaptureStore(tmp_path), "r")
    assert (record.model_call_id, record.request) == (call["model_call_id"], asked)
    assert record.model_ref is not None
    assert (record.model_ref.name, record.latency_total_ms is not None) == ("policy_model", True)
    assert not (tmp_path / "r.jsonl").exists()


def test_refused_calls_of_an_opened_rollout_are_observed_and_not_in_its_record(tmp_path: Path) -> None:
    client = gateway(tmp_path, is_observed=True)
    rollout = opened(client, rollout_id="r", max_calls=1)
    statuses = [
        client.post("/v1/responses", json=HELLO, headers=bearer(rollout)).status_code for _ in range(2)
    ]
    statuses.append(client.post("/v1/responses", content=b"[]", headers=bearer(rollout)).status_code)
    client.post("/ng-rollouts/r/seal", headers=WITH_TOKEN)
    statuses.append(client.post("/v1/responses", json=HELLO, headers=bearer(rollout)).status_code)
    assert statuses == [200, 400, 400, 409]
    assert len(record_of(client, rollout)["calls"]) == 1
    records = read_model_call_records(CaptureStore(tmp_path), "r")
    assert [each.status_code for each in records] == statuses
    assert [each.error_category for each in records[1:]] == [
        "rollout_budget_exhausted",
        "invalid_json",
        "rollout_sealed",
    ]
    assert (records[1].request, records[2].request_raw) == (HELLO, "[]")


def test_a_failed_call_of_an_opened_rollout_is_in_its_record_only(tmp_path: Path) -> None:
    client = gateway(tmp_path, is_observed=True)
    rollout = opened(client, rollout_id="r")
    assert client.post("/v1/responses", json={"input": []}, headers=bearer(rollout)).status_code == 422
    (record,) = read_model_call_records(CaptureStore(tmp_path), "r")
    assert (record.status_code, record.error_category) == (422, "not_convertible")


@pytest.mark.parametrize("is_observed", [False, True])
@pytest.mark.parametrize("is_opened", [False, True])
def test_the_token_ids_are_in_the_record_of_an_opened_rollout_or_in_the_answer(
    tmp_path: Path, is_opened: bool, is_observed: bool
) -> None:
    client = gateway(tmp_path, is_observed=is_observed, return_token_id_information=True)
    headers = bearer(opened(client, rollout_id="r")) if is_opened else {SESSION_HEADER: "r", **WITH_TOKEN}
    answer = client.post("/v1/responses", json=HELLO, headers=headers).json()
    assert ("generation_token_ids" in answer["output"][-1]) is not is_opened
    calls = CaptureStore(tmp_path).read("r")
    assert len(calls) == (1 if is_opened or is_observed else 0)
    assert all(("tokens" in call) is is_opened for call in calls)


async def test_a_call_that_its_client_has_left_is_observed(tmp_path: Path) -> None:
    engine = MockEngine(EngineOptions(model="mock", latency_s=60))
    transport = InMemoryTransport({"http://gym": gateway(tmp_path, engine.app, is_observed=True).app})
    key = opened(gateway(tmp_path), rollout_id="opened")
    for rollout, headers in (("opened", bearer(key)), ("other", {SESSION_HEADER: "other", **WITH_TOKEN})):
        call = Call("POST", "/v1/responses", b'{"input": "hi"}', headers)
        asking = asyncio.create_task(transport.send("http://gym", call))
        await until(lambda: engine.stats.in_flight)
        asking.cancel()
        await asyncio.wait({asking})
        await until(lambda: not engine.stats.in_flight)
        (record,) = read_model_call_records(CaptureStore(tmp_path), rollout)
        assert (record.error_category, record.status_code) == ("CancelledError", None)
