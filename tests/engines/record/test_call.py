from __future__ import annotations

from typing import Any

import orjson
import pytest
from starlette.requests import Request

from nemo_gym.engines.record.call import (
    ModelCall,
    count_sampled_tokens,
    current_call,
    start_model_execution,
)
from nemo_gym.failures import EngineError
from nemo_gym.responses import Note
from nemo_gym.tokens.reasons import MaskReason
from nemo_gym.tokens.records import CallRecord
from nemo_gym.transport.calls import Reply

REQUEST = {"request": {"input": "hi"}}
ANSWER = {"id": "resp_1", "usage": {"output_tokens": 3}}


def line_of(call: ModelCall, outcome: Reply | BaseException | None = None) -> dict[str, Any]:
    line = call.build_line(REQUEST, outcome or Reply(200, [], orjson.dumps(ANSWER)))
    assert line.pop("completed_at") >= line.pop("started_at")
    line.pop("model_call_id")
    return line


def test_the_line_of_an_opened_rollout_s_call_has_its_tokens_and_its_budget() -> None:
    call = ModelCall("policy_model", "chat", "digest")
    call.tokens = CallRecord(masked=MaskReason.MISSING_TOKEN_IDS)
    call.note(Note("dropped", "messages[3].id", "removed"))
    call.note("hidden_overflow")
    assert list(line_of(call)) == [
        *("server", "dialect", "digest", "request", "status_code", "response", "sampled_tokens"),
        *("tokens", "notes"),
    ]
    assert line_of(call)["sampled_tokens"] == 3
    assert line_of(call)["notes"] == {"dropped messages[].id": 1, "hidden_overflow": 1}


def test_calls_of_all_rollouts_have_one_form() -> None:
    opened = line_of(ModelCall("policy_model", "responses", "digest"))
    other = line_of(ModelCall("policy_model", "responses"))
    assert opened == {**other, "digest": "digest", "sampled_tokens": 3}


@pytest.mark.parametrize("digest", [None, "digest"])
def test_a_failure_is_a_line_with_its_status_and_code(digest: str | None) -> None:
    line = line_of(ModelCall("m", "chat", digest), EngineError("it is gone", code="gone", status=503))
    assert (line["status_code"], line["error_category"], line["error"]) == (503, "gone", "it is gone")
    assert "response" not in line


def test_an_error_without_a_reply_is_a_line_with_its_type() -> None:
    line = line_of(ModelCall("m", "chat"), ValueError("x"))
    assert line["error_category"] == "ValueError"
    assert "status_code" not in line


def test_an_answer_that_is_no_object_is_kept_as_text() -> None:
    line = line_of(ModelCall("m", "chat"), Reply(404, [], b"gone"))
    assert (line["status_code"], line["response_raw"], line["error_category"]) == (404, "gone", "http_404")


def test_the_source_of_an_answer_is_a_part_of_the_line() -> None:
    call, request = ModelCall("m", "chat"), Request({"type": "http"})
    token = current_call.set(call)
    try:
        start_model_execution(request, upstream_attempted=True)["response_source"] = "local"
    finally:
        current_call.reset(token)
    assert (line_of(call)["upstream_attempted"], line_of(call)["response_source"]) == (True, "local")
    assert start_model_execution(request, upstream_attempted=False)["upstream_attempted"] is False


def test_sampled_tokens_are_read_from_every_api() -> None:
    assert count_sampled_tokens({"usage": {"output_tokens": 3}}) == 3
    assert count_sampled_tokens({"usage": {"completion_tokens": 4}}) == 4
    assert count_sampled_tokens({"usage": None}) == 0
