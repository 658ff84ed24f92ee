"""vllm_model: what the engine is sent, what is made of its answers, and token ids for training."""

from __future__ import annotations

from collections.abc import Callable
from itertools import chain
from typing import Any

import pytest

from nemo_gym.failures import EngineError, InputError
from nemo_gym.mock_engine import EngineOptions, MockEngine
from nemo_gym.tokens.records import RECORD_FIELD
from responses_api_models.vllm_model.app import VLLMModel
from tests.engines.upstreams import Canned, RecordingUpstream, vllm_over

TOKEN_FIELDS = ("prompt_token_ids", "generation_token_ids", "generation_log_probs")
HELLO = {"input": "hello"}
MESSAGES = {"messages": [{"role": "user", "content": "hello"}]}
TOOL = {"type": "function", "name": "add", "parameters": {"type": "object", "properties": {}}}
CHAT_TOOL = {"type": "function", "function": {"name": "add", "parameters": {"type": "object"}}}


def engine_of(**options: Any) -> RecordingUpstream:
    app: Any = MockEngine(EngineOptions(**options)).app
    return RecordingUpstream(app)


def completion(message: dict[str, Any], **fields: Any) -> dict[str, Any]:
    choice = {"index": 0, "message": {"role": "assistant", **message}, "finish_reason": "stop"}
    return {
        "id": "chatcmpl-1",
        "object": "chat.completion",
        "created": 0,
        "model": "mock",
        "choices": [choice | fields.pop("choice", {})],
        **fields,
    }


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


# --- A context that is too short --------------------------------------------------------------------------------


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


# --- Token ids --------------------------------------------------------------------------------------------------


def trained(engine: Any, **options: Any) -> VLLMModel:
    return vllm_over(engine, return_token_id_information=True, **options)


async def test_ids_are_on_the_last_output_item_and_nowhere_else() -> None:
    response = await trained(engine_of(think=True)).respond({"input": "add", "tools": [TOOL]})
    *others, last = response["output"]
    assert [item["type"] for item in response["output"]] == ["reasoning", "function_call"]
    assert len(last["generation_token_ids"]) == len(last["generation_log_probs"]) > 0
    assert last["prompt_token_ids"]
    assert "masked" not in last[RECORD_FIELD]
    assert not any(field in item for item in others for field in TOKEN_FIELDS)


async def test_ids_are_on_the_message_of_a_chat_completion_and_nowhere_else() -> None:
    answer = await trained(engine_of()).complete(dict(MESSAGES))
    choice = answer["choices"][0]
    assert (
        len(choice["message"]["generation_token_ids"]) == len(choice["message"]["generation_log_probs"]) > 0
    )
    assert choice["message"]["prompt_token_ids"]
    assert "prompt_token_ids" not in answer
    assert "token_ids" not in choice
    assert choice["logprobs"] is None


async def test_a_turn_s_prompt_begins_with_all_that_was_seen_before() -> None:
    server = trained(engine_of(think=True))
    params: dict[str, Any] = {"input": [{"role": "user", "content": "add"}], "tools": [TOOL]}
    seen: list[int] = []
    for _ in range(2):
        last = (response := await server.respond(params))["output"][-1]
        assert last["prompt_token_ids"][: len(seen)] == seen
        seen = last["prompt_token_ids"] + last["generation_token_ids"]
        params["input"] = [*params["input"], *response["output"]]
        if last["type"] == "function_call":
            output = {"type": "function_call_output", "call_id": last["call_id"], "output": "3"}
            params["input"].append(output)


async def test_ids_of_the_history_do_not_travel_to_the_engine() -> None:
    engine = engine_of()
    server = trained(engine)
    first = await server.respond(HELLO)
    masked = {
        "type": "message",
        "role": "assistant",
        "content": [],
        RECORD_FIELD: {"masked": "missing_token_ids"},
    }
    await server.respond({"input": [{"role": "user", "content": "x"}, *first["output"], masked]})
    chat = await server.complete(dict(MESSAGES))
    message = chat["choices"][0]["message"] | {RECORD_FIELD: {"masked": "missing_token_ids"}}
    await server.complete({"messages": [*MESSAGES["messages"], message, *MESSAGES["messages"]]})
    histories = [each.body["messages"] for each in engine.sent if each.body and "messages" in each.body]
    assert len(histories) >= 4
    for message in chain.from_iterable(histories):
        assert not {*TOKEN_FIELDS, RECORD_FIELD} & message.keys()


@pytest.mark.parametrize(
    ("fault", "reason"),
    [
        ("tokens_missing", "missing_token_ids"),
        ("logprobs_short_by_one", "short_logprobs"),
        ("logprob_nan", "invalid_logprobs"),
        ("logprob_missing", "invalid_logprobs"),
        ("ids_conflict", "conflicting_token_ids"),
    ],
)
async def test_a_call_whose_ids_cannot_be_trusted_is_masked_and_says_why(fault: str, reason: str) -> None:
    server = trained(engine_of(faults=[{"do": fault}]))
    last = (await server.respond(HELLO))["output"][-1]
    assert last[RECORD_FIELD]["masked"] == reason
    assert not any(field in last for field in TOKEN_FIELDS)
    message = (await server.complete(dict(MESSAGES)))["choices"][0]["message"]
    assert message[RECORD_FIELD]["masked"] == reason
    assert server._noted[f"masked_{reason}"] == 2


@pytest.mark.parametrize("fault", ["prompt_ids_on_choice", "tokens_on_message"])
async def test_ids_are_found_where_other_engines_put_them(fault: str) -> None:
    server = trained(engine_of(faults=[{"do": fault}]))
    last = (await server.respond(HELLO))["output"][-1]
    assert all(last[field] for field in TOKEN_FIELDS)


async def test_logprobs_that_the_caller_reads_have_the_tokens_texts() -> None:
    server = trained(engine_of())
    params = {**HELLO, "include": ["message.output_text.logprobs"], "top_logprobs": 2}
    last = (await server.respond(params))["output"][-1]
    logprobs = last["content"][0]["logprobs"]
    assert "".join(entry["token"] for entry in logprobs) == last["content"][0]["text"]
    assert len(logprobs[0]["top_logprobs"]) == 2
    assert last["generation_token_ids"]
    asked = {**MESSAGES, "logprobs": True}
    choice = (await server.complete(asked))["choices"][0]
    assert choice["logprobs"]["content"][0]["token"].startswith("N")
    assert choice["message"]["generation_token_ids"]


async def test_experts_are_passed_on() -> None:
    named = {"token": "token_id:7", "logprob": -0.5}
    choice = {"token_ids": [7], "logprobs": {"content": [named]}, "routed_experts": "base64"}
    canned = Canned().add(200, completion({"content": "x"}, choice=choice, prompt_token_ids=[1]))
    assert (await trained(canned).respond(HELLO))["output"][-1]["routed_experts"] == "base64"


@pytest.mark.parametrize(
    ("extra", "param"),
    [
        ('{"include_reasoning": false}', "include_reasoning"),
        ('{"truncate_prompt_tokens": 9}', "truncate_prompt_tokens"),
    ],
)
async def test_what_would_make_ids_wrong_is_refused(extra: str, param: str) -> None:
    params = {**HELLO, "metadata": {"extra_body": extra}}
    with pytest.raises(InputError) as raised:
        await trained(engine_of()).respond(params)
    assert raised.value.failure.param == param
    assert (await vllm_over(engine_of()).respond(params))["status"] == "completed"


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
