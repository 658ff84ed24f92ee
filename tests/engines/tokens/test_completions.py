"""A request is fitted to the engine's context, and an answer that the context cut off is known."""

from __future__ import annotations

from typing import Any

import pytest

from nemo_gym.failures import EngineError
from nemo_gym.tokens.records import RECORD_FIELD
from tests.engines.upstreams import Canned, RecordingUpstream, completion, engine_of, vllm_over

MESSAGES = {"messages": [{"role": "user", "content": "hello"}]}
TOOL = {"type": "function", "name": "add", "parameters": {"type": "object", "properties": {}}}
CHAT_TOOL = {"type": "function", "function": {"name": "add", "parameters": {"type": "object"}}}


async def test_a_budget_that_does_not_fit_is_cut_to_what_is_left() -> None:
    engine = engine_of(max_model_len=200)
    server = vllm_over(engine)
    response = await server.respond({"input": "x" * 40, "max_output_tokens": 5_000})
    assert response["status"] == "completed"
    assert [request.body["max_completion_tokens"] for request in engine.sent] == [5_000, 200 - 24]


async def test_too_little_left_is_a_context_overflow() -> None:
    with pytest.raises(EngineError) as raised:
        await vllm_over(engine_of(max_model_len=40)).respond({"input": "x" * 60, "max_output_tokens": 100})
    assert (raised.value.failure.code, raised.value.failure.http_status) == ("context_overflow", 400)
    server = vllm_over(engine_of(max_model_len=40), min_new_tokens=5)
    response = await server.respond({"input": "x" * 60, "max_output_tokens": 100})
    assert response["status"] == "incomplete"


def overflowing(text: int, **rule: Any) -> RecordingUpstream:
    return engine_of(faults=[{"do": f"overflow_{text}", **rule}], max_model_len=1_000)


@pytest.mark.parametrize("text", [3, 5])
async def test_a_budget_overflow_is_asked_again_once(text: int) -> None:
    engine = overflowing(text, times=1)
    response = await vllm_over(engine).respond({"input": "hello", "max_output_tokens": 990})
    assert response["status"] == "completed"
    assert len(engine.sent) == 2


@pytest.mark.parametrize("text", [1, 2, 4, 6, 7])
async def test_a_prompt_overflow_is_not_asked_again(text: int) -> None:
    engine = overflowing(text)
    with pytest.raises(EngineError) as raised:
        await vllm_over(engine).respond({"input": "hello", "max_output_tokens": 990})
    assert raised.value.failure.code == "context_overflow"
    assert len(engine.sent) == 1


async def test_an_overflow_that_comes_back_is_the_answer() -> None:
    engine = engine_of(faults=[{"do": "overflow_3"}])
    with pytest.raises(EngineError, match="too large"):
        await vllm_over(engine).respond({"input": "hello", "max_output_tokens": 500})
    assert len(engine.sent) == 2


async def test_a_hidden_overflow_is_an_empty_answer_to_the_request_that_was_sent_last() -> None:
    engine = engine_of(faults=[{"do": "overflow_3"}], max_model_len=1_000)
    options = {"return_token_id_information": True, "exact_prompts": False}
    server = vllm_over(engine, propagate_context_overflow_errors=False, **options)
    response = await server.respond({"input": "hello", "max_output_tokens": 990})
    assert (response["status"], len(engine.sent)) == ("incomplete", 2)
    record = response["output"][-1][RECORD_FIELD]
    assert record["masked"] == "missing_token_ids"
    assert record["sampling"].get("max_completion_tokens") == engine.last.body.get("max_completion_tokens")
    assert engine.last.body.get("max_completion_tokens") != 990


async def test_a_length_that_is_called_a_tool_call_is_seen_through_by_the_context_s_own_length() -> None:
    """Without a limit of the request, only the engine's list of models has the maximum length of an answer."""
    listing = {"data": [{"id": "mock", "max_model_len": 100}]}
    call = {"id": "c", "type": "function", "function": {"name": "add", "arguments": '{"a": '}}
    cut = completion(
        {"content": None, "tool_calls": [call]},
        choice={"finish_reason": "tool_calls"},
        usage={"prompt_tokens": 60, "completion_tokens": 40, "total_tokens": 100},
    )
    chat_tools = {**MESSAGES, "tools": [CHAT_TOOL]}
    server = vllm_over(Canned().add(200, listing).add(200, cut))
    await server.preflight()
    response = await server.respond({"input": "x", "tools": [TOOL]})
    assert (response["status"], response["output"][-1]["status"]) == ("incomplete", "incomplete")
    assert (await server.complete(chat_tools))["choices"][0]["finish_reason"] == "length"
    unaware = vllm_over(Canned().add(200, cut))
    assert (await unaware.complete(chat_tools))["choices"][0]["finish_reason"] == "tool_calls"
