"""Every fault against a running engine, as a raw client sees it."""

import asyncio
import json
from typing import Any

import pytest

from nemo_gym.mock_engine import ModelReply, ScriptPolicy, ToolCall
from nemo_gym.mock_engine.policies import Scene
from tests.mock_engine.wire import ADD, USER, raw, running

CALLING = ScriptPolicy((Scene((ModelReply("I call.", "", (ToolCall("add", '{"a": 1}'),)),)),))
TRAINING = {"return_token_ids": True, "logprobs": True, "return_tokens_as_token_ids": True}


async def suffer(fault: str, **fields: Any) -> tuple[int, Any]:
    """The status and JSON of a chat answer that `fault` befell."""
    async with running(CALLING, faults=[{"do": fault}]) as wire:
        answer = await wire.chat(tools=[ADD], **fields)
        assert wire.engine.stats.faults == {fault: 1}
        return answer


async def choice_of(fault: str, **fields: Any) -> dict[str, Any]:
    status, answer = await suffer(fault, **fields)
    assert status == 200
    choice: dict[str, Any] = answer["choices"][0]
    return choice


@pytest.mark.parametrize("status", [429, 500, 503])
async def test_error_statuses_have_the_engine_s_envelope(status: int) -> None:
    seen, error = await suffer(f"http_{status}")
    assert (seen, error["error"]["code"]) == (status, status)


async def test_retry_after_is_sent_when_configured() -> None:
    async with running(faults=[{"do": "http_429", "retry_after_s": 2, "nth": 1}]) as wire:
        url = f"{wire.engine.base_url}/chat/completions"
        for expected in ("2", None):
            async with wire.session.post(url, json={"messages": [USER]}) as answer:
                assert answer.headers.get("retry-after") == expected


@pytest.mark.parametrize("status", [502, 504])
async def test_gateway_errors_are_a_proxy_s_page(status: int) -> None:
    async with running(faults=[{"do": f"http_{status}"}]) as wire:
        url = f"{wire.engine.base_url}/chat/completions"
        async with wire.session.post(url, json={"messages": [USER]}) as answer:
            assert (answer.status, answer.content_type) == (status, "text/html")
            assert (await answer.text()).startswith("<html>")


async def test_a_delay_alone_leaves_the_answer_whole() -> None:
    loop = asyncio.get_running_loop()
    async with running(faults=[{"delay_s": 0.1, "nth": 1}]) as wire:
        started = loop.time()
        status, _ = await wire.chat()
        assert loop.time() - started >= 0.1
        assert (status, wire.engine.stats.faults) == (200, {"delay": 1})


async def test_a_cut_answer_can_call_itself_a_tool_call() -> None:
    status, answer = await suffer("length_as_tool_calls", max_tokens=500)
    assert status == 200
    assert answer["choices"][0]["finish_reason"] == "tool_calls"
    assert answer["usage"]["completion_tokens"] == 500


@pytest.mark.parametrize(
    ("fault", "reason"),
    [
        ("finish_abort", "abort"),
        ("finish_error", "error"),
        ("finish_repetition", "repetition"),
        ("finish_length", "length"),
        ("tool_calls_as_stop", "stop"),
    ],
)
async def test_finish_reasons_can_mislead(fault: str, reason: str) -> None:
    choice = await choice_of(fault)
    assert choice["finish_reason"] == reason
    assert choice["message"]["tool_calls"]


async def test_finish_reasons_mislead_in_streams_too() -> None:
    async with running(faults=[{"do": "finish_abort"}]) as wire:
        assert b'"finish_reason":"abort"' in await raw(wire, stream=True)


async def test_a_tool_call_can_stay_unparsed_or_have_bad_arguments() -> None:
    unparsed = await choice_of("unparsed_tool_call")
    assert unparsed["message"]["content"].startswith("<tool_call>")
    assert ("tool_calls" in unparsed["message"], unparsed["finish_reason"]) == (False, "stop")
    bad = await choice_of("bad_arguments")
    with pytest.raises(json.JSONDecodeError):
        json.loads(bad["message"]["tool_calls"][0]["function"]["arguments"])


async def test_token_records_can_be_missing_short_or_contradictory() -> None:
    missing = await choice_of("tokens_missing", **TRAINING)
    assert "token_ids" not in missing
    assert missing["logprobs"] is None
    short = await choice_of("logprobs_short_by_one", **TRAINING)
    assert len(short["logprobs"]["content"]) == len(short["token_ids"]) - 1
    endless = await choice_of("end_token_missing", **TRAINING)
    assert len(endless["logprobs"]["content"]) == len(endless["token_ids"]) == len(short["token_ids"]) - 1
    conflicting = await choice_of("ids_conflict", **TRAINING)
    named = [token["token"] for token in conflicting["logprobs"]["content"]]
    assert named == [f"token_id:{token + 1}" for token in conflicting["token_ids"]]


@pytest.mark.parametrize(("fault", "value"), [("logprob_nan", None), ("logprob_missing", -9999.0)])
async def test_one_logprob_can_be_spoilt(fault: str, value: float | None) -> None:
    choice = await choice_of(fault, **TRAINING)
    logprobs = [token["logprob"] for token in choice["logprobs"]["content"]]
    assert logprobs.count(value) == 1


async def test_ids_can_be_where_other_engines_have_them() -> None:
    _, on_choice = await suffer("prompt_ids_on_choice", **TRAINING)
    assert "prompt_token_ids" not in on_choice
    assert on_choice["choices"][0]["prompt_token_ids"]
    _, on_message = await suffer("tokens_on_message", **TRAINING)
    message = on_message["choices"][0]["message"]
    assert message["prompt_token_ids"] == on_choice["choices"][0]["prompt_token_ids"]
    assert len(message["generation_token_ids"]) == len(message["generation_log_probs"]) > 0


@pytest.mark.parametrize(
    ("fault", "found"),
    [
        ("choices_empty", lambda answer: answer["choices"] == []),
        ("choices_null", lambda answer: answer["choices"] is None),
        ("message_missing", lambda answer: "message" not in answer["choices"][0]),
        ("usage_null", lambda answer: answer["usage"] is None),
        ("usage_partial", lambda answer: list(answer["usage"]) == ["prompt_tokens"]),
        ("content_null", lambda answer: answer["choices"][0]["message"]["content"] is None),
        ("content_empty", lambda answer: answer["choices"][0]["message"]["content"] == ""),
        ("content_parts", lambda answer: answer["choices"][0]["message"]["content"][0]["text"] == "I call."),
        ("tool_calls_empty", lambda answer: answer["choices"][0]["message"]["tool_calls"] == []),
        ("tool_calls_null", lambda answer: answer["choices"][0]["message"]["tool_calls"] is None),
    ],
)
async def test_answers_can_have_the_wrong_shape(fault: str, found: Any) -> None:
    status, answer = await suffer(fault)
    assert status == 200
    assert found(answer)


async def test_shapes_go_wrong_on_the_responses_route_too() -> None:
    async with running(faults=[{"do": "choices_null", "nth": 1}, {"do": "usage_partial", "nth": 2}]) as wire:
        _, without_output = await wire.post("/v1/responses", input="Hi")
        _, partial = await wire.post("/v1/responses", input="Hi")
    assert without_output["output"] is None
    assert list(partial["usage"]) == ["input_tokens"]


async def test_routes_that_do_not_generate_can_fail_too() -> None:
    async with running(faults=[{"do": "http_503", "route": "models", "times": 1}]) as wire:
        assert [(await wire.get("/v1/models"))[0] for _ in range(2)] == [503, 200]
        assert (await wire.chat())[0] == 200
