from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient
from starlette.requests import Request

from nemo_gym.engines.capture import start_model_execution
from nemo_gym.engines.model_calls import CaptureStore, read_model_call_records
from nemo_gym.responses.schemas import Response, ResponseCreateParams
from nemo_gym.transport.context import SESSION_HEADER
from tests.serving.environments import ScriptedModel, text

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
