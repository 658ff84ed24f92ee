"""A request that goes to chat and back is the same request, in its canonical spelling."""

from typing import Any

import orjson
from hypothesis import given
from hypothesis import strategies as st

from nemo_gym.responses import Dialect, ReasoningHistory, build_chat_request, convert_chat_request
from tests.responses.canonical import canonical_params

words = st.text(st.sampled_from('abc 1{}"\n<>é🙂'), min_size=1, max_size=12)
names = st.sampled_from(["add", "get_weather", "f"])
call_ids = st.sampled_from(["c1", "c2", "c3"])
optional_ids = st.sampled_from([{}, {"id": "item_1"}, {"id": "item_1", "status": "completed"}])

input_parts = st.lists(
    st.one_of(
        st.builds(lambda text: {"type": "input_text", "text": text}, words),
        st.sampled_from(
            [
                {"type": "input_image", "image_url": "data:x", "detail": "low"},
                {"type": "input_audio", "input_audio": {"data": "QQ==", "format": "wav"}},
                {"type": "input_file", "file_data": "data:x", "filename": "a.pdf"},
            ]
        ),
    ),
    min_size=1,
    max_size=3,
)
output_parts = st.lists(
    st.one_of(
        st.builds(lambda text: {"type": "output_text", "text": text, "annotations": []}, words),
        st.builds(lambda text: {"type": "refusal", "refusal": text}, words),
    ),
    min_size=1,
    max_size=3,
)
input_messages = st.builds(
    lambda role, content, ids: {"type": "message", "role": role, "content": content, **ids},
    st.sampled_from(["user", "system", "developer"]),
    words | input_parts,
    optional_ids,
)
easy_messages = st.builds(
    lambda role, content: {"role": role, "content": content},
    st.sampled_from(["user", "system", "developer", "assistant"]),
    words,
)
output_messages = st.builds(
    lambda content, ids: {"type": "message", "role": "assistant", "content": content, **ids},
    output_parts,
    optional_ids,
)
calls = st.builds(
    lambda call_id, name, arguments, ids: {
        "type": "function_call",
        "call_id": call_id,
        "name": name,
        "arguments": orjson.dumps(arguments).decode(),
        **ids,
    },
    call_ids,
    names,
    st.dictionaries(words, st.integers(-100, 100) | words, max_size=2),
    optional_ids,
)
outputs = st.builds(
    lambda call_id, output: {"type": "function_call_output", "call_id": call_id, "output": output},
    call_ids,
    words | input_parts,
)
reasoning = st.builds(
    lambda texts, ids: {
        "type": "reasoning",
        "summary": [{"type": "summary_text", "text": text} for text in texts],
        **ids,
    },
    st.lists(words, max_size=2),
    optional_ids,
)
items = st.one_of(input_messages, easy_messages, output_messages, calls, outputs, reasoning)
user = {"role": "user", "content": "hi"}
conversations = words | st.lists(items, max_size=12).map(lambda given: [user, *given])

tools = st.lists(
    st.builds(
        lambda name, strict: {
            "type": "function",
            "name": name,
            "parameters": {"type": "object"},
            "strict": strict,
        },
        names,
        st.none() | st.booleans(),
    ),
    max_size=2,
)
params = st.fixed_dictionaries(
    {"input": conversations},
    optional={
        "instructions": st.none() | words,
        "tools": tools,
        "tool_choice": st.sampled_from(["auto", "none"]),
        "parallel_tool_calls": st.booleans(),
        "max_output_tokens": st.none() | st.integers(1, 10**6),
        "temperature": st.none() | st.floats(0, 2),
        "top_p": st.floats(0, 1),
        "include": st.sampled_from([None, [], ["message.output_text.logprobs"]]),
        "top_logprobs": st.none() | st.integers(0, 20),
        "reasoning": st.sampled_from([None, {"effort": "low"}]),
        "text": st.sampled_from(
            [
                None,
                {"verbosity": "low"},
                {
                    "format": {
                        "type": "json_schema",
                        "name": "n",
                        "schema": {"type": "object"},
                        "strict": True,
                    }
                },
                {"format": {"type": "json_object"}, "verbosity": "high"},
            ]
        ),
        "metadata": st.none() | st.dictionaries(words, words, max_size=2),
        "background": st.none() | st.just(False),
        "truncation": st.none() | st.just("disabled"),
        "previous_response_id": st.none(),
        "seed": st.integers(0, 2**63 - 1),
        "stop": st.lists(words, min_size=1, max_size=2),
        "store": st.booleans(),
        "user": words,
    },
)


@given(params)
def test_a_request_survives_there_and_back(given_params: dict[str, Any]) -> None:
    chat = build_chat_request(given_params)
    assert chat.notes == ()
    assert convert_chat_request(chat.body).body == canonical_params(given_params)


@given(params)
def test_going_to_chat_twice_says_the_same(given_params: dict[str, Any]) -> None:
    once = build_chat_request(given_params).body
    back = convert_chat_request(once).body
    again = convert_chat_request(build_chat_request(back).body).body
    assert again == back
    assert orjson.loads(orjson.dumps(once)) == once


@given(params)
def test_every_item_is_sent_once_and_in_order(given_params: dict[str, Any]) -> None:
    body = build_chat_request({**given_params, "instructions": None}).body
    sent = [
        call["function"]["arguments"] if call else message["content"]
        for message in body["messages"]
        for call in message.get("tool_calls") or ([None] if message["role"] == "tool" else [])
    ]
    written = given_params["input"]
    called = [
        item["arguments"] if item["type"] == "function_call" else item["output"]
        for item in (written if isinstance(written, list) else [])
        if item.get("type") in ("function_call", "function_call_output")
    ]
    assert len(sent) == len(called)
    assert [text for text in sent if isinstance(text, str)] == [
        text for text in called if isinstance(text, str)
    ]


@given(st.lists(words, min_size=1, max_size=3), words)
def test_inline_reasoning_survives_there_and_back(texts: list[str], answer: str) -> None:
    inline = Dialect(reasoning_history=ReasoningHistory.INLINE)
    items = [
        user,
        {"type": "reasoning", "summary": [{"type": "summary_text", "text": text} for text in texts]},
        {"type": "message", "role": "assistant", "content": answer},
    ]
    body = build_chat_request({"input": items}, inline).body
    assert convert_chat_request(body, inline).body["input"][1:] == items[1:]


def test_a_chat_request_comes_back_without_additions() -> None:
    """`strict: false` is chat's default, and some chat templates read the name of a tool message."""
    call = {"id": "c1", "type": "function", "function": {"name": "add", "arguments": "{}"}}
    chat = {
        "messages": [
            {"role": "user", "content": "Add."},
            {"role": "assistant", "content": None, "tool_calls": [call]},
            {"role": "tool", "tool_call_id": "c1", "name": "add", "content": "3"},
            {"role": "tool", "tool_call_id": "c1", "content": "4"},
        ],
        "tools": [{"type": "function", "function": {"name": "add", "parameters": {"type": "object"}}}],
    }
    back = build_chat_request(convert_chat_request(chat).body).body
    assert (back["messages"], back["tools"]) == (chat["messages"], chat["tools"])
