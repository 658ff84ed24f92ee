"""Scenarios of clients of a model server, with the `openai` package. Each scenario checks its answers.

The engine calls each declared tool once, reasons before it answers, and follows a schema. All scenarios have different
requests, so that their recordings differ.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from openai import OpenAI
from pydantic import BaseModel

MODEL = "mock"
PIXEL = "data:image/gif;base64,R0lGODlhAQABAIAAAAAAAP///yH5BAEAAAAALAAAAAABAAEAAAIBRAA7"
PARAMETERS = {
    "type": "object",
    "properties": {"a": {"type": "integer"}, "b": {"type": "integer"}},
    "required": ["a", "b"],
    "additionalProperties": False,
}
TOOL: Any = {
    "type": "function",
    "name": "add",
    "description": "Adds.",
    "parameters": PARAMETERS,
    "strict": True,
}
CHAT_TOOL: Any = {
    "type": "function",
    "function": {"name": "add", "description": "Adds.", "parameters": PARAMETERS, "strict": True},
}


class City(BaseModel):
    name: str
    inhabitants: int


def respond_with_text(client: OpenAI) -> None:
    response = client.responses.create(
        model=MODEL, instructions="Be brief.", input="hello", temperature=0.5, max_output_tokens=500
    )
    assert response.output_text == "No tool was needed for: hello"
    assert [item.type for item in response.output] == ["reasoning", "message"]
    assert response.status == "completed"
    assert response.usage is not None
    assert response.usage.output_tokens > 0
    assert response.usage.total_tokens == response.usage.input_tokens + response.usage.output_tokens


def respond_with_tools(client: OpenAI) -> None:
    conversation: list[Any] = [{"role": "user", "content": "add 2 and 3"}]
    first = client.responses.create(model=MODEL, input=conversation, tools=[TOOL])
    call = first.output[-1]
    assert call.type == "function_call"
    assert call.name == "add"
    assert json.loads(call.arguments).keys() == {"a", "b"}
    conversation += [item.model_dump() for item in first.output]
    conversation.append({"type": "function_call_output", "call_id": call.call_id, "output": "5"})
    second = client.responses.create(model=MODEL, input=conversation, tools=[TOOL])
    assert "5" in second.output_text


def respond_about_an_image(client: OpenAI) -> None:
    parts: Any = [
        {"type": "input_text", "text": "what is this?"},
        {"type": "input_image", "image_url": PIXEL, "detail": "low"},
    ]
    response = client.responses.create(model=MODEL, input=[{"role": "user", "content": parts}])
    assert "what is this?" in response.output_text


def respond_by_schema(client: OpenAI) -> None:
    response = client.responses.parse(model=MODEL, input="which city?", text_format=City)
    assert isinstance(response.output_parsed, City)


def stream_a_response(client: OpenAI) -> None:
    events = list(client.responses.create(model=MODEL, input="hello stream", stream=True))
    assert [event.sequence_number for event in events] == list(range(len(events)))
    assert (events[0].type, events[-1].type) == ("response.created", "response.completed")
    text = "".join(event.delta for event in events if event.type == "response.output_text.delta")
    assert text == "No tool was needed for: hello stream"


def stream_a_response_by_helper(client: OpenAI) -> None:
    with client.responses.stream(model=MODEL, input="add in a stream", tools=[TOOL]) as stream:
        kinds = [event.type for event in stream]
        final = stream.get_final_response()
    assert "response.function_call_arguments.done" in kinds
    assert final.output[-1].type == "function_call"
    assert final.output[-1].parsed_arguments == json.loads(final.output[-1].arguments)


def chat_with_text(client: OpenAI) -> None:
    completion = client.chat.completions.create(
        model=MODEL,
        messages=[{"role": "system", "content": "Be brief."}, {"role": "user", "content": "hello chat"}],
        max_completion_tokens=500,
    )
    choice = completion.choices[0]
    assert choice.message.content == "No tool was needed for: hello chat"
    assert choice.finish_reason == "stop"
    assert completion.usage is not None
    assert completion.usage.completion_tokens > 0


def chat_with_tools(client: OpenAI) -> None:
    messages: list[Any] = [{"role": "user", "content": "add 4 and 5 in chat"}]
    first = client.chat.completions.create(model=MODEL, messages=messages, tools=[CHAT_TOOL])
    choice = first.choices[0]
    assert choice.finish_reason == "tool_calls"
    assert choice.message.tool_calls is not None
    call = choice.message.tool_calls[0]
    assert call.type == "function"
    assert call.function.name == "add"
    messages.append(choice.message.model_dump(exclude_none=True))
    messages.append({"role": "tool", "tool_call_id": call.id, "content": "9"})
    second = client.chat.completions.create(model=MODEL, messages=messages, tools=[CHAT_TOOL])
    assert "9" in (second.choices[0].message.content or "")


def chat_about_an_image(client: OpenAI) -> None:
    parts: Any = [
        {"type": "text", "text": "what is this, chat?"},
        {"type": "image_url", "image_url": {"url": PIXEL}},
    ]
    completion = client.chat.completions.create(model=MODEL, messages=[{"role": "user", "content": parts}])
    assert "what is this, chat?" in (completion.choices[0].message.content or "")


def chat_by_schema(client: OpenAI) -> None:
    completion = client.chat.completions.parse(
        model=MODEL, messages=[{"role": "user", "content": "which city, chat?"}], response_format=City
    )
    assert isinstance(completion.choices[0].message.parsed, City)


def stream_a_chat(client: OpenAI) -> None:
    chunks = list(
        client.chat.completions.create(
            model=MODEL,
            messages=[{"role": "user", "content": "hello chat stream"}],
            stream=True,
            stream_options={"include_usage": True},
        )
    )
    text = "".join(chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices)
    assert text == "No tool was needed for: hello chat stream"
    assert chunks[-2].choices[0].finish_reason == "stop"
    assert chunks[-1].usage is not None


def stream_a_chat_by_helper(client: OpenAI) -> None:
    messages: Any = [{"role": "user", "content": "add in a chat stream"}]
    with client.chat.completions.stream(model=MODEL, messages=messages, tools=[CHAT_TOOL]) as stream:
        kinds = {event.type for event in stream}
        final = stream.get_final_completion()
    assert "tool_calls.function.arguments.done" in kinds
    assert final.choices[0].message.tool_calls is not None
    assert final.choices[0].finish_reason == "tool_calls"


ALL: tuple[Callable[[OpenAI], None], ...] = (
    respond_with_text,
    respond_with_tools,
    respond_about_an_image,
    respond_by_schema,
    stream_a_response,
    stream_a_response_by_helper,
    chat_with_text,
    chat_with_tools,
    chat_about_an_image,
    chat_by_schema,
    stream_a_chat,
    stream_a_chat_by_helper,
)
