"""vllm_model: what the engine is sent, what is made of its answers, and token ids for training."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from nemo_gym.failures import EngineError, InputError
from tests.engines.upstreams import Canned, completion, engine_of, vllm_over

HELLO = {"input": "hello"}
MESSAGES = {"messages": [{"role": "user", "content": "hello"}]}
TOOL = {"type": "function", "name": "add", "parameters": {"type": "object", "properties": {}}}
CHAT_TOOL = {"type": "function", "function": {"name": "add", "parameters": {"type": "object"}}}


# --- What the engine is sent ------------------------------------------------------------------------------------


async def sent(params: dict[str, Any], **options: Any) -> dict[str, Any]:
    engine = engine_of()
    await vllm_over(engine, **options).respond(params)
    body: dict[str, Any] = engine.last.body
    return body


async def test_each_layer_of_the_configuration_replaces_what_is_below() -> None:
    body = await sent(
        {
            "input": "x",
            "temperature": 0.1,
            "top_p": 0.2,
            "metadata": {"extra_body": '{"top_k": 3, "seed": 4}'},
        },
        extra_body={"top_p": 0.5, "top_k": 6},
        sampling_overrides={"top_k": 7},
    )
    assert {name: body[name] for name in ("temperature", "top_p", "top_k", "seed")} == {
        "temperature": 0.1,
        "top_p": 0.5,
        "top_k": 7,
        "seed": 4,
    }
    assert body["model"] == "mock"


async def test_arguments_of_the_chat_template_are_merged_key_by_key() -> None:
    body = await sent(
        {"input": "x", "metadata": {"chat_template_kwargs": '{"b": 2, "c": 2}'}},
        chat_template_kwargs={"a": 1, "b": 1},
        extra_body={"chat_template_kwargs": {"c": 3}},
    )
    assert body["chat_template_kwargs"] == {"a": 1, "b": 2, "c": 3}


@pytest.mark.parametrize("name", ["max_tokens", "max_completion_tokens", "max_output_tokens"])
async def test_a_limit_of_the_configuration_replaces_the_request_s_whatever_it_is_called(name: str) -> None:
    body = await sent({"input": "x", "max_output_tokens": 500}, sampling_overrides={name: 50})
    assert body["max_completion_tokens"] == 50
    assert not {"max_tokens", "max_output_tokens"} & body.keys()


async def test_images_reach_the_engine() -> None:
    image = {"type": "input_image", "image_url": "data:image/png;base64,QUJD", "detail": "low"}
    body = await sent({"input": [{"role": "user", "content": [{"type": "input_text", "text": "?"}, image]}]})
    assert body["messages"][0]["content"][1] == {
        "type": "image_url",
        "image_url": {"url": "data:image/png;base64,QUJD", "detail": "low"},
    }


@pytest.mark.parametrize(
    ("options", "expected"),
    [({}, "so"), ({"uses_interleaved_reasoning": False}, None)],
)
async def test_reasoning_of_earlier_turns_goes_back_unless_it_is_not_wanted(
    options: dict[str, Any], expected: str | None
) -> None:
    history = [
        {"role": "user", "content": "x"},
        {"type": "reasoning", "id": "rs_1", "summary": [{"type": "summary_text", "text": "so"}]},
        {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "y"}]},
        {"role": "user", "content": "z"},
    ]
    assistant = (await sent({"input": history}, **options))["messages"][1]
    assert assistant.get("reasoning") == assistant.get("reasoning_content") == expected


async def test_a_developer_can_be_called_system() -> None:
    params = {"input": [{"role": "developer", "content": "Be brief."}, {"role": "user", "content": "x"}]}
    assert (await sent(params))["messages"][0]["role"] == "developer"
    body = await sent(params, replace_developer_role_with_system=True)
    assert body["messages"][0]["role"] == "system"


async def test_headers_and_key_are_sent() -> None:
    engine = engine_of()
    await vllm_over(engine, default_headers={"X-Team": "gym"}).respond(HELLO)
    assert engine.last.headers["x-team"] == "gym"
    assert engine.last.headers["authorization"] == "Bearer key"


# --- Answers ----------------------------------------------------------------------------------------------------


def kinds_and_texts(response: dict[str, Any]) -> list[tuple[str, str]]:
    parts = [(item["type"], item.get("summary") or item.get("content") or ()) for item in response["output"]]
    return [(kind, "".join(part["text"] for part in texts)) for kind, texts in parts]


@pytest.mark.parametrize(
    ("message", "options", "expected"),
    [
        ({"content": "y", "reasoning": "so"}, {}, [("reasoning", "so"), ("message", "y")]),
        ({"content": "y", "reasoning_content": "so"}, {}, [("reasoning", "so"), ("message", "y")]),
        ({"content": "<think>so</think>y"}, {}, [("reasoning", "so"), ("message", "y")]),
        ({"content": "<think>so"}, {}, [("reasoning", "so")]),
        ({"content": "a <think> b"}, {}, [("message", "a <think> b")]),
        (
            {"content": "<think>so</think>y"},
            {"uses_reasoning_parser": False},
            [("message", "<think>so</think>y")],
        ),
        (
            {"content": "so</think>y"},
            {"reasoning_opened_by_template": True},
            [("reasoning", "so"), ("message", "y")],
        ),
    ],
)
async def test_every_dialect_of_reasoning(
    message: dict[str, Any], options: dict[str, Any], expected: list[tuple[str, str]]
) -> None:
    server = vllm_over(Canned().add(200, completion(message)), **options)
    assert kinds_and_texts(await server.respond(HELLO)) == expected


@pytest.mark.parametrize(
    "fault", ["finish_abort", "finish_error", "choices_empty", "choices_null", "message_missing"]
)
@pytest.mark.parametrize("api", ["respond", "complete"])
async def test_an_answer_that_is_none_is_the_engine_s_failure(fault: str, api: str) -> None:
    server = vllm_over(engine_of(faults=[{"do": fault}]))
    with pytest.raises(EngineError) as raised:
        await (server.respond(HELLO) if api == "respond" else server.complete(dict(MESSAGES)))
    assert raised.value.failure.peer == "http://engine/v1"


# --- The engine's own Responses API -----------------------------------------------------------------------------


async def test_native_requests_are_not_stored_unless_that_is_asked_for() -> None:
    engine = engine_of()
    server = vllm_over(engine, is_responses_native=True, sampling_overrides={"max_tokens": 50})
    await server.respond({**HELLO, "metadata": {"extra_body": '{"top_k": 3}', "id": "7"}})
    await server.respond({**HELLO, "store": True})
    first, second = (request.body for request in engine.sent)
    assert (first["store"], second["store"]) == (False, True)
    assert (first["top_k"], first["metadata"], first["max_output_tokens"]) == (3, {"id": "7"}, 50)
    assert all(request.path == "/v1/responses" for request in engine.sent)


async def test_native_requests_take_no_template_arguments() -> None:
    server = vllm_over(engine_of(), is_responses_native=True)
    with pytest.raises(InputError) as raised:
        await server.respond({**HELLO, "metadata": {"chat_template_kwargs": '{"think": true}'}})
    assert raised.value.failure.param == "metadata.chat_template_kwargs"


async def test_a_native_answer_that_was_aborted_is_the_engine_s_failure() -> None:
    server = vllm_over(engine_of(faults=[{"do": "finish_abort"}]), is_responses_native=True)
    with pytest.raises(EngineError) as raised:
        await server.respond(HELLO)
    assert (raised.value.failure.code, raised.value.failure.peer) == ("engine_error", "http://engine/v1")


# --- Models and configuration -----------------------------------------------------------------------------------


async def test_the_model_s_entry_is_the_engine_s() -> None:
    listed = (await vllm_over(engine_of(max_model_len=999)).list_models())["data"]
    assert [(model["id"], model["max_model_len"]) for model in listed] == [("mock", 999)]


async def test_preflight_reports_a_model_that_is_not_served() -> None:
    with pytest.raises(EngineError, match="no model named `mok`"):
        await vllm_over(engine_of(), model="mok").preflight()


Options = dict[str, Any]


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"is_responses_native": True, "return_token_id_information": True}, "returns no token ids"),
        (
            {"is_responses_native": True, "chat_template_kwargs": {"a": 1}},
            "does not support chat_template_kwargs",
        ),
        (
            {"is_responses_native": True, "extra_body": {"chat_template_kwargs": {}}},
            "does not support chat_template_kwargs",
        ),
        ({"sampling_overrides": {"model": "x"}}, "model cannot be set"),
        ({"extra_body": {"n": 2, "stream": True}}, "n, stream cannot be set"),
        ({"use_completions_api": True}, "the engine renders prompts"),
        ({"base_url": "engine:8000"}, "is not a URL"),
        ({"base_url": []}, "needs a base URL"),
    ],
)
def test_a_configuration_that_cannot_be_is_refused(options: Options, told: str) -> None:
    build: Callable[..., Any] = vllm_over
    with pytest.raises(Exception, match=told):
        build(engine_of(), **options)
