from collections.abc import Callable
from typing import Any

import pytest
from openai.types.responses import Response

from nemo_gym.failures import EngineError
from nemo_gym.responses import Dialect, FinishKind, InlineThinking, convert_chat_to_response
from nemo_gym.responses.responses_answer import ConvertedAnswer

Ids = Callable[[str], str]

TOOL = {"type": "function", "name": "add"}
USAGE = {"prompt_tokens": 11, "completion_tokens": 3, "total_tokens": 14}


def call(call_id: Any = "c1", arguments: Any = '{"a":1}', name: str = "add") -> dict[str, Any]:
    return {"id": call_id, "type": "function", "function": {"name": name, "arguments": arguments}}


def chat(reason: str = "stop", *, usage: Any = USAGE, logprobs: Any = None, **message: Any) -> dict[str, Any]:
    return {
        "id": "chatcmpl-1",
        "object": "chat.completion",
        "created": 1,
        "model": "policy",
        "choices": [
            {
                "index": 0,
                "message": {"role": "assistant", "content": None, **message},
                "finish_reason": reason,
                "logprobs": logprobs,
            }
        ],
        "usage": usage,
    }


def answer_of(
    body: dict[str, Any], ids: Ids, dialect: Dialect | None = None, **params: Any
) -> ConvertedAnswer:
    answer = convert_chat_to_response(
        body, {"input": "hi", **params}, ids=ids, now=1760000000.7, dialect=dialect or Dialect()
    )
    Response.model_validate(answer.response)
    return answer


def output_of(body: dict[str, Any], ids: Ids, dialect: Dialect | None = None) -> list[tuple[str, Any]]:
    """What each item says, without ids: its type, and its text or texts or call."""
    told: list[tuple[str, Any]] = []
    for item in answer_of(body, ids, dialect).response["output"]:
        if item["type"] == "reasoning":
            told.append(("reasoning", [part["text"] for part in item["summary"]]))
        elif item["type"] == "message":
            told.append(
                ("message", "".join(part.get("text", part.get("refusal")) for part in item["content"]))
            )
        else:
            told.append(("call", (item["call_id"], item["arguments"])))
    return told


def test_a_plain_answer(ids: Ids) -> None:
    response, finish = answer_of(
        chat(content="yes"), ids, model="asked", temperature=0.5, metadata={"a": "b"}
    )
    assert finish.kind is FinishKind.COMPLETE
    assert response == {
        "id": "resp_2",
        "object": "response",
        "created_at": 1760000000,
        "model": "policy",
        "status": "completed",
        "error": None,
        "incomplete_details": None,
        "output": [
            {
                "type": "message",
                "id": "msg_1",
                "role": "assistant",
                "status": "completed",
                "content": [{"type": "output_text", "text": "yes", "annotations": []}],
            }
        ],
        "usage": {
            "input_tokens": 11,
            "input_tokens_details": {"cached_tokens": 0, "cache_write_tokens": 0},
            "output_tokens": 3,
            "output_tokens_details": {"reasoning_tokens": 0},
            "total_tokens": 14,
        },
        "background": None,
        "instructions": None,
        "max_output_tokens": None,
        "max_tool_calls": None,
        "metadata": {"a": "b"},
        "parallel_tool_calls": True,
        "previous_response_id": None,
        "prompt_cache_key": None,
        "reasoning": None,
        "safety_identifier": None,
        "service_tier": None,
        "store": None,
        "temperature": 0.5,
        "text": {"format": {"type": "text"}},
        "tool_choice": "auto",
        "tools": [],
        "top_logprobs": None,
        "top_p": None,
        "truncation": "disabled",
        "user": None,
    }


def test_the_request_is_repeated_so_that_the_client_can_read_it(ids: Ids) -> None:
    text = {"format": {"type": "json_schema", "name": "n", "schema": {"type": "object"}}}
    params: dict[str, Any] = {
        "tools": [TOOL],
        "tool_choice": {"type": "function", "name": "add"},
        "parallel_tool_calls": False,
    }
    response = answer_of(chat(content="yes"), ids, text=text, instructions="Be brief.", **params).response
    assert response["tools"] == [{**TOOL, "parameters": None, "strict": None}]
    assert (response["tool_choice"], response["parallel_tool_calls"]) == (params["tool_choice"], False)
    assert (response["text"], response["instructions"]) == (text, "Be brief.")


def test_the_service_tier_is_the_one_that_served(ids: Ids) -> None:
    body = {**chat(content="yes"), "service_tier": "default"}
    assert answer_of(body, ids, service_tier="auto").response["service_tier"] == "default"


def test_items_come_in_one_order(ids: Ids) -> None:
    body = chat("tool_calls", content="Let me see.", reasoning="hm", tool_calls=[call("c1"), call("c2")])
    assert output_of(body, ids) == [
        ("reasoning", ["hm"]),
        ("message", "Let me see."),
        ("call", ("c1", '{"a":1}')),
        ("call", ("c2", '{"a":1}')),
    ]


@pytest.mark.parametrize("content", [None, "", []])
@pytest.mark.parametrize("extra", [{}, {"tool_calls": []}, {"tool_calls": None}])
def test_an_answer_without_content_is_an_empty_message(ids: Ids, content: Any, extra: Any) -> None:
    assert output_of(chat(content=content, **extra), ids) == [("message", "")]


def test_a_call_needs_no_message_beside_it(ids: Ids) -> None:
    assert output_of(chat("tool_calls", content="", tool_calls=[call()]), ids) == [
        ("call", ("c1", '{"a":1}'))
    ]


def test_content_may_be_parts(ids: Ids) -> None:
    parts = [
        {"type": "text", "text": "a"},
        {"type": "text", "text": "b"},
        {"type": "refusal", "refusal": "c"},
    ]
    message = answer_of(chat(content=parts), ids).response["output"][0]
    assert [part["type"] for part in message["content"]] == ["output_text", "output_text", "refusal"]


def test_a_refusal_is_a_part(ids: Ids) -> None:
    message = answer_of(chat(refusal="I won't."), ids).response["output"][0]
    assert message["content"] == [{"type": "refusal", "refusal": "I won't."}]


def test_annotations_are_flat(ids: Ids) -> None:
    citation = {"url": "https://x", "title": "x", "start_index": 0, "end_index": 3}
    annotations = [{"type": "url_citation", "url_citation": citation}]
    message = answer_of(chat(content="yes", annotations=annotations), ids).response["output"][0]
    assert message["content"][0]["annotations"] == [{"type": "url_citation", **citation}]


# --- Reasoning --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "message",
    [
        {"reasoning": "hm"},
        {"reasoning_content": "hm"},
        {"reasoning": "hm", "reasoning_content": "hm"},
        {"reasoning": "hm", "reasoning_content": None},
    ],
)
def test_reasoning_goes_by_two_names(ids: Ids, message: Any) -> None:
    assert output_of(chat(content="yes", **message), ids) == [("reasoning", ["hm"]), ("message", "yes")]
    assert output_of(chat(**message), ids) == [("reasoning", ["hm"])]


def test_two_reasonings_that_differ_are_counted(ids: Ids) -> None:
    answer = answer_of(chat(content="yes", reasoning="a", reasoning_content="b"), ids)
    assert answer.finish.warnings == ("conflicting_reasoning",)


def test_inline_reasoning_is_taken_off_the_text(ids: Ids) -> None:
    assert output_of(chat(content="<think>a</think><think>b</think>yes"), ids) == [
        ("reasoning", ["a", "b"]),
        ("message", "yes"),
    ]


def test_a_tag_in_the_answer_survives(ids: Ids) -> None:
    assert output_of(chat(content="Write <think>."), ids) == [("message", "Write <think>.")]
    assert output_of(chat(content="<think>x</think>", reasoning="hm"), ids) == [
        ("reasoning", ["hm"]),
        ("message", "<think>x</think>"),
    ]


def test_thinking_that_was_cut_off_is_reasoning_only(ids: Ids) -> None:
    answer = answer_of(chat("length", content="<think>hm, let"), ids)
    assert [item["type"] for item in answer.response["output"]] == ["reasoning"]
    assert answer.response["output"][0]["status"] == "incomplete"
    assert answer.response["incomplete_details"] == {"reason": "max_output_tokens"}
    assert answer.finish.kind is FinishKind.TRUNCATED
    assert answer.finish.warnings == ("unclosed_thinking",)


def test_a_tag_that_the_template_opened(ids: Ids) -> None:
    opened = Dialect(inline_thinking=InlineThinking.OPENED)
    called = answer_of(chat("tool_calls", content="", tool_calls=[call()]), ids, opened)
    assert called.finish.warnings == ()
    assert output_of(chat(content="hm</think>yes"), ids, opened) == [
        ("reasoning", ["hm"]),
        ("message", "yes"),
    ]


# --- Calls ------------------------------------------------------------------------------------------------------


def test_malformed_arguments_stay_as_the_model_wrote_them(ids: Ids) -> None:
    answer = answer_of(chat("tool_calls", tool_calls=[call(arguments='{"a": ')]), ids)
    assert answer.response["output"][0]["arguments"] == '{"a": '
    assert answer.finish.warnings == ("malformed_arguments",)


@pytest.mark.parametrize(("given", "expected"), [(None, "{}"), ({"a": 1}, '{"a":1}'), ("{}", "{}")])
def test_arguments_are_text(ids: Ids, given: Any, expected: str) -> None:
    assert output_of(chat("tool_calls", tool_calls=[call(arguments=given)]), ids) == [
        ("call", ("c1", expected))
    ]


@pytest.mark.parametrize(
    ("call_id", "warning"), [("", "missing_call_id"), (None, "missing_call_id"), ("c1", "duplicate_call_id")]
)
def test_every_call_has_its_own_id(ids: Ids, call_id: Any, warning: str) -> None:
    answer = answer_of(chat("tool_calls", tool_calls=[call("c1"), call(call_id)]), ids)
    call_ids = [item["call_id"] for item in answer.response["output"]]
    assert call_ids[0] == "c1"
    assert len(set(call_ids)) == 2
    assert answer.finish.warnings == (warning,)


def test_a_call_in_the_old_field_is_a_call(ids: Ids) -> None:
    body = chat("function_call", function_call={"name": "add", "arguments": "{}"})
    answer = answer_of(body, ids)
    assert answer.response["output"][0]["name"] == "add"
    assert answer.finish.kind is FinishKind.TOOL


# --- How it ended -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("limit", [{"max_output_tokens": 3}, {"max_tokens": 3}])
def test_a_relabelled_length_is_truncated(ids: Ids, limit: Any) -> None:
    answer = answer_of(chat("tool_calls", tool_calls=[call(), call("c2", '{"a":')]), ids, **limit)
    assert answer.response["status"] == "incomplete"
    assert [item["status"] for item in answer.response["output"]] == ["completed", "incomplete"]
    assert answer.finish.warnings == ("relabelled_length", "malformed_arguments")


def test_the_limit_that_the_engine_got_counts(ids: Ids) -> None:
    body = chat("tool_calls", tool_calls=[call()])
    answer = convert_chat_to_response(body, {"max_output_tokens": 100}, ids=ids, now=0, max_tokens=3)
    assert answer.finish.kind is FinishKind.TRUNCATED


def test_a_call_that_was_left_in_the_text_is_counted(ids: Ids) -> None:
    body = chat(content='<tool_call>{"name": "add"}</tool_call>')
    assert answer_of(body, ids, tools=[TOOL]).finish.warnings == ("unparsed_tool_call",)
    assert answer_of(body, ids).finish.warnings == ()


@pytest.mark.parametrize("usage", [None, {}])
def test_usage_may_be_missing(ids: Ids, usage: Any) -> None:
    answer = answer_of(chat(content="yes", usage=usage), ids)
    assert (answer.response["usage"], answer.finish.warnings) == (None, ())


def test_a_partial_usage_is_counted(ids: Ids) -> None:
    answer = answer_of(chat(content="yes", usage={"completion_tokens": 3}), ids)
    assert (answer.response["usage"], answer.finish.warnings) == (None, ("partial_usage",))


# --- Logprobs ---------------------------------------------------------------------------------------------------

LOGPROBS: dict[str, Any] = {
    "content": [{"token": token, "logprob": -0.5, "bytes": None, "top_logprobs": []} for token in ("y", "es")]
}
ASKED: dict[str, Any] = {"include": ["message.output_text.logprobs"]}


def test_logprobs_are_given_where_they_were_asked_for(ids: Ids) -> None:
    body = chat(content="yes", logprobs=LOGPROBS)
    part = answer_of(body, ids, **ASKED).response["output"][0]["content"][0]
    assert [entry["token"] for entry in part["logprobs"]] == ["y", "es"]
    assert "logprobs" not in answer_of(body, ids).response["output"][0]["content"][0]


@pytest.mark.parametrize(
    ("logprobs", "warning"),
    [
        (None, "missing_logprobs"),
        ({"content": None}, "missing_logprobs"),
        ({"content": [{"token": "yes", "logprob": None}]}, "missing_logprobs"),
        ({"content": [{"token": "token_id:7", "logprob": -0.5}]}, "unaligned_logprobs"),
    ],
)
def test_logprobs_that_cannot_be_given_are_counted(ids: Ids, logprobs: Any, warning: str) -> None:
    assert answer_of(chat(content="yes", logprobs=logprobs), ids, **ASKED).finish.warnings == (warning,)


# --- Answers that make no sense ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("body", "code"),
    [
        (chat("abort", content="y"), "engine_abort"),
        (chat("error", content="y"), "engine_error"),
        ({"choices": []}, "malformed_answer"),
        ({"choices": None}, "malformed_answer"),
        ({}, "malformed_answer"),
        ({"choices": [{"finish_reason": "stop"}]}, "malformed_answer"),
        ({"choices": chat(content="a")["choices"] * 2}, "malformed_answer"),
        (chat(content=[{"type": "hologram"}]), "malformed_answer"),
        (chat(content=7), "malformed_answer"),
        (chat(content="y", audio={"id": "a"}), "malformed_answer"),
        (chat("tool_calls", tool_calls=[{"id": "c", "type": "custom", "custom": {}}]), "malformed_answer"),
        ({"object": "error", "message": "The model `x` does not exist.", "code": 404}, "model_not_found"),
    ],
)
def test_an_answer_that_makes_no_sense_is_the_engines_error(
    ids: Ids, body: dict[str, Any], code: str
) -> None:
    with pytest.raises(EngineError) as caught:
        answer_of(body, ids)
    assert caught.value.failure.code == code
