"""The unmodified `openai` client against a running engine: its types accept the engine's answers."""

import asyncio
import json
from collections.abc import Iterator
from typing import Any

import openai
import pytest
from openai import AsyncOpenAI, OpenAI

from nemo_gym.mock_engine import EngineOptions, EngineProcess

TOOL = {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]}
ADD = {"type": "function", "function": {"name": "add", "parameters": TOOL}}
FLAT_ADD = {"type": "function", "name": "add", "parameters": TOOL, "strict": False}
ASK = {"role": "user", "content": "What is 1 + 2?"}


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with EngineProcess(
        EngineOptions(model="policy", think=True, api_key="key", max_model_len=2_000)
    ) as engine:
        yield engine.base_url


@pytest.fixture
def client(url: str) -> Iterator[Any]:
    """Untyped, for the sake of requests written as plain data."""
    with OpenAI(base_url=url, api_key="key", max_retries=0) as made:
        yield made


def async_client(url: str) -> Any:
    return AsyncOpenAI(base_url=url, api_key="key", max_retries=0)


def test_chat_calls_a_tool_and_then_answers(client: Any) -> None:
    messages: list[Any] = [ASK]
    called = client.chat.completions.create(model="policy", messages=messages, tools=[ADD])
    call = called.choices[0].message.tool_calls[0]
    assert (call.function.name, json.loads(call.function.arguments)) == ("add", {"a": 1})
    messages += [called.choices[0].message, {"role": "tool", "tool_call_id": call.id, "content": "three"}]
    answered = client.chat.completions.create(model="policy", messages=messages, tools=[ADD])
    assert "three" in answered.choices[0].message.content
    assert answered.choices[0].finish_reason == "stop"
    assert answered.usage.completion_tokens_details.reasoning_tokens > 0


def test_a_chat_stream_adds_up_to_the_whole_answer(client: Any) -> None:
    whole = client.chat.completions.create(
        model="policy", messages=[ASK], tools=[ADD], seed=1, extra_body={"return_token_ids": True}
    )
    stream = client.chat.completions.create(
        model="policy",
        messages=[ASK],
        tools=[ADD],
        seed=1,
        stream=True,
        logprobs=True,
        stream_options={"include_usage": True},
        extra_body={"return_token_ids": True},
    )
    chunks = [chunk.to_dict() for chunk in stream]
    choices = [choice for chunk in chunks for choice in chunk["choices"]]
    message = whole.choices[0].message
    assert "".join(choice["delta"].get("reasoning") or "" for choice in choices) == message.reasoning
    calls = [call for choice in choices for call in choice["delta"].get("tool_calls", ())]
    assert calls[0]["function"]["name"] == "add"
    assert (
        "".join(call["function"]["arguments"] for call in calls) == message.tool_calls[0].function.arguments
    )
    assert chunks[0]["prompt_token_ids"] == whole.prompt_token_ids
    assert not any("prompt_token_ids" in chunk for chunk in chunks[1:])
    ids = [token for choice in choices for token in choice.get("token_ids", ())]
    assert ids == whole.choices[0].token_ids
    assert sum(len(choice["logprobs"]["content"]) for choice in choices if choice.get("logprobs")) == len(ids)
    assert [choice["finish_reason"] for choice in choices if choice.get("finish_reason")] == ["tool_calls"]
    assert chunks[-1]["usage"]["completion_tokens"] == len(ids)


async def test_an_async_chat_stream_is_understood(url: str) -> None:
    async with async_client(url) as client:
        stream = await client.chat.completions.create(model="policy", messages=[ASK], stream=True)
        text = "".join([chunk.choices[0].delta.content or "" async for chunk in stream])
    assert text == "No tool was needed for: What is 1 + 2?"


def test_completions_whole_and_streamed_agree(client: Any) -> None:
    whole = client.completions.create(model="policy", prompt="Say this.", max_tokens=20)
    stream = client.completions.create(model="policy", prompt="Say this.", max_tokens=20, stream=True)
    assert "".join(chunk.choices[0].text for chunk in stream) == whole.choices[0].text
    assert whole.choices[0].finish_reason == "length"


async def test_responses_go_through_a_tool_call_to_an_answer(url: str) -> None:
    async with async_client(url) as client:
        called = await client.responses.create(model="policy", input="Add.", tools=[FLAT_ADD])
        call = called.output[-1]
        assert (call.type, call.name) == ("function_call", "add")
        items = [{"role": "user", "content": "Add."}, *(item.to_dict() for item in called.output)]
        items.append({"type": "function_call_output", "call_id": call.call_id, "output": "three"})
        answered = await client.responses.create(model="policy", input=items, tools=[FLAT_ADD])
    assert "three" in answered.output_text
    assert answered.usage.total_tokens == answered.usage.input_tokens + answered.usage.output_tokens


@pytest.mark.parametrize("tools", [[], [FLAT_ADD]])
def test_a_responses_stream_builds_the_answer_it_ends_with(client: Any, tools: list[object]) -> None:
    with client.responses.stream(model="policy", input="Add.", tools=tools) as stream:
        events = list(stream)
        final = stream.get_final_response()
    assert [event.type for event in events][:2] == ["response.created", "response.in_progress"]
    assert [event.type for event in events][-1] == "response.completed"
    assert [event.sequence_number for event in events] == list(range(len(events)))
    deltas = "".join(
        event.delta for event in events if event.type.endswith(("output_text.delta", "arguments.delta"))
    )
    last = final.output[-1]
    assert deltas == (last.arguments if last.type == "function_call" else final.output_text)
    assert deltas


def test_structured_output_is_parsed(client: Any) -> None:
    wanted = {"type": "json_schema", "json_schema": {"name": "sum", "schema": TOOL}}
    answer = client.chat.completions.create(model="policy", messages=[ASK], response_format=wanted)
    assert json.loads(answer.choices[0].message.content) == {"a": 1}


def test_errors_are_the_client_s_own(client: Any, url: str) -> None:
    with pytest.raises(openai.NotFoundError, match="does not exist"):
        client.chat.completions.create(model="other", messages=[ASK])
    with pytest.raises(openai.BadRequestError, match="maximum context length is 2000 tokens"):
        client.chat.completions.create(model="policy", messages=[{"role": "user", "content": "x" * 5_000}])
    with (
        OpenAI(base_url=url, api_key="wrong", max_retries=0) as stranger,
        pytest.raises(openai.AuthenticationError),
    ):
        stranger.models.list()


def test_the_model_s_context_is_listed(client: Any) -> None:
    assert client.models.list().data[0].to_dict()["max_model_len"] == 2_000


async def test_many_clients_at_once_get_their_own_answers(url: str) -> None:
    async with async_client(url) as client:

        async def ask(number: int) -> str:
            messages = [{"role": "user", "content": f"Number {number}"}]
            answer = await client.chat.completions.create(model="policy", messages=messages)
            return answer.choices[0].message.content or ""

        texts = await asyncio.gather(*map(ask, range(12)))
    assert texts == [f"No tool was needed for: Number {number}" for number in range(12)]
