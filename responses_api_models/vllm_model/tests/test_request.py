"""Keys of the configuration that change a chat request or its answer."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from nemo_gym.mock_engine import EngineOptions, MockEngine
from nemo_gym.transport.context import RequestContext, current_context
from responses_api_models.vllm_model.config import VLLMModelConfig
from tests.engines.upstreams import Canned, RecordingUpstream, vllm_over

REASONED = [
    {"role": "user", "content": "x"},
    {"type": "reasoning", "id": "rs_1", "summary": [{"type": "summary_text", "text": "so"}]},
    {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "y"}]},
    {"role": "user", "content": "z"},
]
PREFIXED = {"messages": [{"role": "user", "content": "x"}, {"role": "assistant", "content": "The answer"}]}


def engine() -> RecordingUpstream:
    app: Any = MockEngine(EngineOptions()).app
    return RecordingUpstream(app)


async def body_of(chat: dict[str, Any], **options: Any) -> dict[str, Any]:
    upstream = engine()
    await vllm_over(upstream, **options).complete(chat)
    body: dict[str, Any] = upstream.last.body
    return body


@pytest.mark.parametrize(
    ("field", "fields"),
    [
        ("both", {"reasoning", "reasoning_content"}),
        ("reasoning", {"reasoning"}),
        ("reasoning_content", {"reasoning_content"}),
    ],
)
async def test_the_fields_of_reasoning_can_be_chosen(field: str, fields: set[str]) -> None:
    upstream = engine()
    server = vllm_over(upstream, reasoning_field=field)
    for _ in range(2):
        await server.respond({"input": REASONED})
        message = upstream.last.body["messages"][1]
        assert {name for name in message if name.startswith("reasoning")} == fields


async def test_reasoning_can_stay_in_the_text() -> None:
    upstream = engine()
    await vllm_over(upstream, preserve_reasoning_in_assistant_content=True).respond({"input": REASONED})
    assert upstream.last.body["messages"][1] == {"role": "assistant", "content": "<think>so</think>y"}


async def test_the_last_assistant_message_is_continued_where_that_is_wanted() -> None:
    assert "continue_final_message" not in await body_of(PREFIXED)
    body = await body_of(PREFIXED, continue_final_assistant_message=True)
    assert (body["continue_final_message"], body["add_generation_prompt"]) == (True, False)


async def test_a_continuation_that_the_engine_took_for_reasoning_is_text() -> None:
    message = {"role": "assistant", "content": None, "reasoning": " is 4."}
    choice = {"index": 0, "message": message, "finish_reason": "stop"}
    answer = {"id": "c", "object": "chat.completion", "created": 0, "model": "mock", "choices": [choice]}
    server = vllm_over(Canned().add(200, answer), continue_final_assistant_message=True)
    completed = await server.complete(PREFIXED)
    assert completed["choices"][0]["message"]["content"] == " is 4."


async def test_the_session_is_the_conversation_where_that_is_wanted() -> None:
    context = current_context.set(RequestContext(session="s-1"))
    try:
        body = await body_of(PREFIXED, forward_session_id_as_conversation_id=True)
    finally:
        current_context.reset(context)
    assert body["conversation_params"] == {"conversation_id": "s-1"}


async def test_template_arguments_of_a_request_can_be_left_out() -> None:
    chat = {
        "messages": PREFIXED["messages"][:1],
        "chat_template_kwargs": {"a": 1},
        "metadata": {"chat_template_kwargs": '{"b": 2}'},
    }
    assert (await body_of(dict(chat)))["chat_template_kwargs"] == {"a": 1, "b": 2}
    body = await body_of(dict(chat), forward_request_chat_template_kwargs=False)
    assert body["chat_template_kwargs"] == {"b": 2}


async def test_an_empty_answer_is_not_reasoned_on_where_that_is_not_allowed() -> None:
    upstream = engine()
    history = {"messages": [{"role": "user", "content": "x"}, {"role": "assistant", "content": ""}]}
    answer = await vllm_over(upstream, sequential_reasoning_allowed=False).complete(history)
    assert answer["choices"][0]["finish_reason"] == "content_filter"
    assert upstream.sent == []


async def test_a_context_overflow_can_be_an_empty_truncated_answer() -> None:
    upstream: Any = MockEngine(EngineOptions(max_model_len=16)).app
    server = vllm_over(upstream, propagate_context_overflow_errors=False)
    response = await server.respond({"input": "x" * 100})
    assert response["status"] == "incomplete"
    assert response["incomplete_details"] == {"reason": "max_output_tokens"}
    assert server._noted["hidden_overflow"] == 1


def config_of(**keys: Any) -> VLLMModelConfig:
    given = {"host": "", "port": 0, "entrypoint": "app.py", "name": "policy_model"}
    return VLLMModelConfig(
        **{**given, "base_url": "http://engine/v1", "api_key": "key", "model": "m", **keys}
    )


def test_supply_of_prefixes_is_the_method_with_required_prefixes() -> None:
    config = config_of(supply_prefix_token_ids=True, return_token_id_information=True)
    assert config.exact_prompts == "required_prefix"
    with pytest.raises(ValidationError, match="needs return_token_id_information"):
        config_of(supply_prefix_token_ids=True)


def test_null_is_an_empty_mapping() -> None:
    config = config_of(sampling_overrides=None, extra_body=None, chat_template_kwargs=None)
    assert (config.sampling_overrides, config.extra_body) == ({}, {})


def test_attempts_are_those_of_the_endpoint_file_if_there_is_one() -> None:
    assert config_of(endpoint_connection_retries=3).retry_budget().attempts == 8
    assert config_of(endpoint_connection_retries=3, endpoint_file="url").retry_budget().attempts == 3
