"""Features of all model servers: routes, recording, notes, OpenAPI, and disconnecting clients."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import orjson
import pytest
from fastapi.testclient import TestClient

from nemo_gym.engines.engine_model import anthropic_models, model_entry
from nemo_gym.failures import ConfigError
from nemo_gym.mock_engine import EngineOptions, MockEngine
from nemo_gym.openai_utils import (
    NeMoGymChatCompletionCreateParamsNonStreaming,
    NeMoGymResponseCreateParamsNonStreaming,
)
from nemo_gym.testing.serving import serving
from nemo_gym.transport.pools import process_transport
from responses_api_models.vllm_model.app import VLLMModel
from tests.engines.gateway.rollouts import bearer, gateway, opened
from tests.engines.upstreams import Canned, vllm_over
from tests.tokens.conversations import model_server
from tests.waiting import until

HELLO = {"input": "hello"}
MESSAGES = {"messages": [{"role": "user", "content": "hello"}]}


def engine_app(**options: Any) -> Any:
    return MockEngine(EngineOptions(**options)).app


def test_typed_requests_get_typed_answers() -> None:
    server = vllm_over(engine_app())
    response = asyncio.run(server.responses(NeMoGymResponseCreateParamsNonStreaming(input="hello")))
    assert response.output_text == "No tool was needed for: hello"
    params = NeMoGymChatCompletionCreateParamsNonStreaming.model_validate(MESSAGES)
    completion = asyncio.run(server.chat_completions(params))
    assert completion.choices[0].message.content == "No tool was needed for: hello"


def test_openapi_has_the_bodies() -> None:
    client = TestClient(vllm_over(engine_app()).setup_webserver())
    described = client.get("/openapi.json").json()
    for path, asked in (
        ("/v1/responses", "ResponseCreateParams"),
        ("/v1/chat/completions", "ChatCompletionCreateParams"),
    ):
        schema = described["paths"][path]["post"]["requestBody"]["content"]["application/json"]["schema"]
        assert schema == {"$ref": f"#/components/schemas/{asked}"}
        assert described["components"]["schemas"][asked]["properties"]["stream"]["type"] == "boolean"
    referred = {
        part.split('"')[0] for part in orjson.dumps(described).decode().split("#/components/schemas/")[1:]
    }
    assert referred <= described["components"]["schemas"].keys()


def test_nothing_is_described_before_it_is_asked_for() -> None:
    app = vllm_over(engine_app()).setup_webserver()
    TestClient(app).post("/v1/responses", json=HELLO)
    assert app.openapi_schema is None


def test_anthropic_s_messages_are_answered_plain_and_as_events() -> None:
    client = TestClient(vllm_over(engine_app()).setup_webserver())
    asked = {"model": "claude", "max_tokens": 100, "messages": [{"role": "user", "content": "hello"}]}
    message = client.post("/v1/messages", json=asked).json()
    assert message["content"] == [{"type": "text", "text": "No tool was needed for: hello"}]
    assert message["stop_reason"] == "end_turn"
    streamed = client.post("/v1/messages", json={**asked, "stream": True})
    assert streamed.headers["content-type"].startswith("text/event-stream")
    assert streamed.text.startswith("event: message_start\n")
    assert streamed.text.rstrip().endswith('data: {"type":"message_stop"}')


def test_what_was_odd_is_counted_and_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    broken = {"type": "function_call", "call_id": "c", "name": "add", "arguments": "{"}
    history = [{"role": "user", "content": "x"}, broken]
    history.append({"type": "function_call_output", "call_id": "c", "output": "bad"})
    client = TestClient(vllm_over(engine_app(), name="policy").setup_webserver())
    for _ in range(3):
        assert client.post("/v1/responses", json={"input": history}).status_code == 200
    assert client.get("/_ng/notes").json() == {"sanitised_arguments": 3}
    logged = [
        record.getMessage() for record in caplog.records if "sanitised_arguments" in record.getMessage()
    ]
    assert len(logged) == 1
    assert "`policy`" in logged[0]
    assert "input[1].arguments" in logged[0]


@pytest.mark.parametrize("path", ["/v1/responses", "/v1/chat/completions", "/v1/messages"])
async def test_an_engine_s_call_ends_with_its_caller(path: str) -> None:
    async with MockEngine(EngineOptions(latency_s=30)) as engine:
        server = VLLMModel.standalone(base_url=engine.base_url, api_key="key", model="mock")
        async with serving(server) as url:
            body = orjson.dumps(HELLO if path == "/v1/responses" else MESSAGES)
            head = f"POST {path} HTTP/1.1\r\nHost: x\r\nContent-Length: {len(body)}\r\n\r\n"
            _, connection = await asyncio.open_connection("127.0.0.1", int(url.rpartition(":")[2]))
            connection.write(head.encode() + body)
            await until(lambda: engine.stats.in_flight)
            connection.close()
            await until(lambda: engine.stats.disconnects)
            await connection.wait_closed()
    await process_transport().close()


# --- Recording --------------------------------------------------------------------------------------------------


def test_every_call_that_was_answered_is_recorded(tmp_path: Path) -> None:
    recordings = tmp_path / "new" / "calls.jsonl"
    server = vllm_over(engine_app(), record_to=str(recordings))
    client = TestClient(server.setup_webserver())
    response = client.post("/v1/responses", json={**HELLO, "stream": True})
    assert response.status_code == 200
    completion = client.post("/v1/chat/completions", json=MESSAGES).json()
    client.post("/v1/messages", json={"max_tokens": 9, **MESSAGES})
    assert client.post("/v1/responses", json={"input": []}).status_code == 422
    asyncio.run(server.on_stop())
    recorded = [orjson.loads(line) for line in recordings.read_bytes().splitlines()]
    assert [line["api"] for line in recorded] == ["responses", "chat", "responses"]
    assert recorded[0]["request"] == HELLO
    assert recorded[1] == {"api": "chat", "request": MESSAGES, "answer": completion}


def test_a_recording_that_cannot_be_written_is_found_at_the_start(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(ConfigError, match="cannot record to"):
        vllm_over(engine_app(), record_to=str(tmp_path / "file" / "calls.jsonl"))


# --- Small things -----------------------------------------------------------------------------------------------


def test_a_model_s_entry_has_openai_s_fields_and_the_engine_s() -> None:
    assert model_entry("m", {"id": "other", "created": 5, "max_model_len": 9}) == {
        "id": "m",
        "object": "model",
        "created": 5,
        "owned_by": "nemo_gym",
        "max_model_len": 9,
    }


def test_a_key_is_in_no_error_about_the_configuration() -> None:
    with pytest.raises(ValueError) as raised:
        vllm_over(Canned(), api_key="sk-very-secret", extra_body={"model": "x"})
    assert "sk-very-secret" not in str(raised.value)
    server = vllm_over(Canned(), api_key="sk-very-secret", default_headers={"X-Key": "also-secret"})
    assert "secret" not in repr(server.config)


PATCH = {"type": "custom", "name": "apply_patch", "description": "Edits files."}
AS_CODING_AGENTS_ASK = {
    "input": "hello",
    "tools": [PATCH],
    "client_metadata": {"a": "b"},
    "truncation": "auto",
}


def test_a_request_of_a_coding_agent_is_read_below_a_rollout_only() -> None:
    client = TestClient(vllm_over(engine_app()).setup_webserver())
    refused = client.post("/v1/responses", json=AS_CODING_AGENTS_ASK)
    assert refused.status_code == 422
    assert "client_metadata" in refused.text
    answered = client.post("/ng-rollout/r1/v1/responses", json=AS_CODING_AGENTS_ASK).json()
    (called,) = (item for item in answered["output"] if item["type"] == "custom_tool_call")
    assert (called["name"], "arguments" in called) == ("apply_patch", False)
    noted = client.get("/_ng/notes").json()
    assert noted == {"dropped_field": 2, "mapped_custom_tool": 1}


def test_a_custom_tool_s_call_is_streamed_as_the_package_reads_it() -> None:
    client = TestClient(vllm_over(engine_app()).setup_webserver())
    streamed = client.post("/ng-rollout/r1/v1/responses", json={**AS_CODING_AGENTS_ASK, "stream": True})
    events = [orjson.loads(line[6:]) for line in streamed.text.splitlines() if line.startswith("data: ")]
    (done,) = (event for event in events if event["type"] == "response.custom_tool_call_input.done")
    (item,) = (event["item"] for event in events if event["type"] == "response.output_item.done")
    assert item["input"] == done["input"] != ""
    assert events[-1]["response"]["output"] == [item]


def test_a_provider_s_server_leaves_requests_as_they_are(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(VLLMModel, "is_provider", True)
    client = TestClient(vllm_over(engine_app()).setup_webserver())
    assert client.post("/ng-rollout/r1/v1/responses", json=AS_CODING_AGENTS_ASK).status_code == 422


def test_prompt_tokens_are_those_of_the_answer_s_usage() -> None:
    client = TestClient(model_server(engine_app()).setup_webserver())
    tools = [{"type": "function", "name": "f", "parameters": {"type": "object"}, "strict": False}]
    asked = {"input": "hello", "tools": tools}
    counted = client.post("/v1/responses/input_tokens", json=asked).json()
    usage = client.post("/v1/responses", json=asked).json()["usage"]
    assert counted == {"object": "response.input_tokens", "input_tokens": usage["input_tokens"]}
    message = {"max_tokens": 100, "messages": [{"role": "user", "content": "hello"}]}
    used = client.post("/v1/messages", json=message).json()["usage"]["input_tokens"]
    assert client.post("/v1/messages/count_tokens", json=message).json() == {"input_tokens": used}


# --- Routes beside those of the model ---------------------------------------------------------------------------------


CLAUDE = {"anthropic-version": "2023-06-01"}


def client() -> TestClient:
    return TestClient(vllm_over(MockEngine(EngineOptions(model="mock")).app).setup_webserver())


def test_models_have_the_form_of_the_caller_s_api() -> None:
    assert client().get("/v1/models").json()["object"] == "list"
    listed = client().get("/v1/models", headers=CLAUDE).json()
    entry = {"type": "model", "id": "mock", "display_name": "mock", "created_at": "1970-01-01T00:00:00Z"}
    assert listed == {"data": [entry], "has_more": False, "first_id": "mock", "last_id": "mock"}
    assert anthropic_models({"data": []})["first_id"] is None


def test_any_name_is_the_policy() -> None:
    assert client().get("/v1/models/claude-opus-4").json()["id"] == "claude-opus-4"
    named = client().get("/v1/models/org/model", headers=CLAUDE).json()
    assert (named["type"], named["id"]) == ("model", "org/model")


def test_an_agent_can_probe_its_base_url(tmp_path: Path) -> None:
    probed = gateway(tmp_path)
    rollout = opened(probed, rollout_id="r")
    for path in ("/", "/v1/models", "/ng-rollout/r", "/ng-rollout/r/", "/ng-rollout/r/v1/models"):
        answer = probed.head(path, headers=bearer(rollout))
        assert (answer.status_code, answer.content) == (200, b""), path
    assert probed.head("/ng-rollout/other/", headers=bearer(rollout)).status_code == 403


def test_a_key_opens_the_entry_of_a_model(tmp_path: Path) -> None:
    probed = gateway(tmp_path)
    headers = bearer(opened(probed))
    assert probed.get("/v1/models/claude-haiku", headers=headers).json()["id"] == "claude-haiku"
