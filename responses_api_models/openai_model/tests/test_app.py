"""openai_model: what OpenAI is sent, and what is left out because OpenAI refuses it."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from nemo_gym.failures import EngineError, InputError
from nemo_gym.mock_engine import EngineOptions, MockEngine
from nemo_gym.mock_engine.in_memory import mount
from nemo_gym.tokens.records import CARRIED_FIELDS
from nemo_gym.transport import InMemoryTransport, Transport
from responses_api_models.openai_model.app import OpenAIModel
from tests.engines.upstreams import Canned, RecordingUpstream, StrictOpenAI, openai_over

HELLO = {"input": "hello"}
MESSAGES = {"messages": [{"role": "user", "content": "hello"}]}
TOOL = {"type": "function", "name": "add", "parameters": {"type": "object", "properties": {}}}
OURS = {field: [1] for field in CARRIED_FIELDS}
METADATA = {"id": 3, "extra_body": '{"top_k": 5}', "chat_template_kwargs": '{"think": true}'}


def openai_of(**options: Any) -> RecordingUpstream:
    app: Any = MockEngine(EngineOptions(**options)).app
    return RecordingUpstream(StrictOpenAI(app))


async def test_model_key_headers_and_extra_body_are_the_configuration_s() -> None:
    upstream = openai_of()
    server = openai_over(
        upstream, openai_default_headers={"OpenAI-Organization": "org"}, extra_body={"temperature": 0.5}
    )
    await server.respond({**HELLO, "model": "other", "temperature": 1.0})
    await server.complete({**MESSAGES, "model": "other", "temperature": 1.0})
    assert [request.path for request in upstream.sent] == ["/v1/responses", "/v1/chat/completions"]
    for request in upstream.sent:
        assert request.headers["authorization"] == "Bearer key"
        assert request.headers["openai-organization"] == "org"
        assert (request.body["model"], request.body["temperature"]) == ("mock", 0.5)


async def test_one_url_or_several_are_asked_in_turn() -> None:
    transport = InMemoryTransport()
    upstreams = [openai_of(), openai_of()]
    urls = [mount(transport, each, f"http://engine-{number}") for number, each in enumerate(upstreams)]

    class Server(OpenAIModel):
        def new_transport(self) -> Transport:
            return transport

    for given in (urls, urls[0]):
        server = Server.standalone(openai_base_url=given, openai_api_key="key", openai_model="mock")
        assert isinstance(server, OpenAIModel)
        for _ in range(2):
            await server.complete(MESSAGES)
    assert [len(upstream.sent) for upstream in upstreams] == [3, 1]


@pytest.mark.parametrize("upstream_api", ["both", "chat_completions"])
async def test_a_whole_episode_can_be_sent_back(upstream_api: str) -> None:
    """With everything that a gym's answers hold, which OpenAI would refuse."""
    upstream = openai_of(think=True)
    server = openai_over(upstream, upstream_api=upstream_api)
    conversation: list[Any] = [{"role": "user", "content": "add"}]
    for _ in range(2):
        response = await server.respond({"input": conversation, "tools": [TOOL], "metadata": METADATA})
        last = response["output"][-1]
        reasoning, *others = response["output"]
        assert reasoning["type"] == "reasoning"
        conversation += [{**reasoning, "status": "completed", "content": None}]
        conversation += [{**item, **OURS} for item in others]
        if last["type"] == "function_call":
            output = {"type": "function_call_output", "call_id": last["call_id"], "output": "3", "id": None}
            conversation.append(output)
    assert "3" in last["content"][0]["text"]


async def test_reasoning_of_earlier_turns_can_be_left_out() -> None:
    upstream = openai_of()
    history = [
        {"role": "user", "content": "x"},
        {"type": "reasoning", "id": "rs_1", "summary": [{"type": "summary_text", "text": "so"}]},
        {
            "type": "message",
            "id": "msg_1",
            "role": "assistant",
            "content": [{"type": "output_text", "text": "y"}],
        },
    ]
    for upstream_api in ("responses", "chat_completions"):
        server = openai_over(upstream, drop_input_reasoning_items=True, upstream_api=upstream_api)
        await server.respond({"input": history})
    native, chat = (request.body for request in upstream.sent)
    assert [item.get("type") for item in native["input"]] == [None, "message"]
    assert "id" not in native["input"][1]
    assert chat["messages"][1] == {"role": "assistant", "content": "y"}


async def test_metadata_is_strings_and_goes_to_chat_only_where_it_is_stored() -> None:
    upstream = openai_of()
    await openai_over(upstream).respond({**HELLO, "metadata": METADATA})
    chat_server = openai_over(upstream, upstream_api="chat_completions")
    response = await chat_server.respond({**HELLO, "metadata": METADATA})
    await chat_server.respond({**HELLO, "metadata": METADATA, "store": True})
    await chat_server.complete({**MESSAGES, "metadata": METADATA})
    native, chat, stored, plain = (request.body for request in upstream.sent)
    assert native["metadata"] == stored["metadata"] == {"id": "3"}
    assert "metadata" not in chat
    assert "metadata" not in plain
    assert response["metadata"] == METADATA
    assert chat_server._noted["dropped_engine_extras"] == 6


@pytest.mark.parametrize("upstream_api", ["both", "chat_completions"])
async def test_engine_extras_of_a_row_are_fields_where_the_upstream_takes_them(upstream_api: str) -> None:
    upstream = openai_of()
    server = openai_over(upstream, merge_metadata_extras=True, upstream_api=upstream_api)
    await server.respond({**HELLO, "metadata": METADATA})
    assert (upstream.last.body["top_k"], upstream.last.body["chat_template_kwargs"]) == (5, {"think": True})


async def test_a_chat_request_is_tidied() -> None:
    upstream = openai_of()
    message = {"role": "assistant", "content": "y", **OURS}
    messages = [*MESSAGES["messages"], message, *MESSAGES["messages"]]
    await openai_over(upstream).complete(
        {"messages": messages, "tools": [], "tool_choice": "auto", "seed": None, "max_tokens": 50}
    )
    sent = upstream.last.body
    assert sent["messages"][1] == {"role": "assistant", "content": "y"}
    assert sent["max_completion_tokens"] == 50
    assert not {"tools", "tool_choice", "seed", "max_tokens"} & sent.keys()


async def test_a_chat_request_is_converted_for_an_upstream_that_speaks_responses_only() -> None:
    upstream = openai_of()
    answer = await openai_over(upstream, upstream_api="responses").complete(dict(MESSAGES))
    assert upstream.last.path == "/v1/responses"
    assert upstream.last.body["store"] is False
    assert answer["choices"][0]["message"]["content"] == "No tool was needed for: hello"


async def test_an_answer_in_the_background_is_refused() -> None:
    with pytest.raises(InputError) as raised:
        await openai_over(openai_of()).respond({**HELLO, "background": True})
    assert raised.value.failure.param == "background"


@pytest.mark.parametrize(
    ("answer", "code"),
    [
        (
            {"id": "resp_1", "status": "failed", "error": {"message": "it broke"}, "output": []},
            "engine_error",
        ),
        ({"id": "resp_1", "status": "queued", "output": []}, "malformed_answer"),
    ],
)
async def test_a_response_that_failed_is_no_answer(answer: dict[str, Any], code: str) -> None:
    with pytest.raises(EngineError) as raised:
        await openai_over(Canned().add(200, answer)).respond(HELLO)
    assert (raised.value.failure.code, raised.value.failure.peer) == (code, "http://engine/v1")


async def test_a_chat_answer_that_is_an_error_is_no_answer() -> None:
    with pytest.raises(EngineError, match="the worker died") as raised:
        await openai_over(Canned().add(200, {"error": {"message": "the worker died"}})).complete(
            dict(MESSAGES)
        )
    assert (raised.value.failure.code, raised.value.failure.peer) == ("engine_error", "http://engine/v1")


async def test_preflight_checks_the_model_s_name() -> None:
    found = await openai_over(openai_of()).preflight()
    assert found["ok"]
    assert found["engine"]["id"] == "mock"
    with pytest.raises(EngineError, match="no model named `gpt`"):
        await openai_over(openai_of(), openai_model="gpt").preflight()


async def test_requests_beyond_the_limit_wait_for_a_slot() -> None:
    running = most = 0
    inner: Any = MockEngine(EngineOptions()).app

    async def counting(scope: Any, receive: Any, send: Any) -> None:
        nonlocal running, most
        running += 1
        most = max(most, running)
        await asyncio.sleep(0)
        await inner(scope, receive, send)
        running -= 1

    server = openai_over(counting, max_concurrent_requests=2)
    await asyncio.gather(*(server.complete(dict(MESSAGES)) for _ in range(6)))
    assert most == 2


async def test_attempts_can_be_limited() -> None:
    upstream = Canned().add(503, {"error": {"message": "busy"}})
    with pytest.raises(EngineError):
        await openai_over(upstream, max_http_attempts=2).complete(dict(MESSAGES))
    assert upstream.count == 2


def test_many_attempts_have_the_time_for_them() -> None:
    assert openai_over(openai_of(), max_http_attempts=1800).config.retry_budget().seconds == 900
