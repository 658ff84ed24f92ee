"""Fields that a Responses upstream would refuse are removed, and nothing else is lost."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nemo_gym.engines.responses_upstream import (
    build_responses_request,
    check_finished_response,
    drop_our_fields,
)
from nemo_gym.failures import EngineError, InputError
from nemo_gym.tokens.records import RECORD_FIELD
from tests.engines.upstreams import refusals

TOKENS = {"prompt_token_ids": [1], "generation_token_ids": [2], "generation_log_probs": [-0.5]}
REASONING = {"type": "reasoning", "id": "rs_1", "summary": [], "status": "completed"}
CALL = {
    "type": "function_call",
    "id": "fc_1",
    "call_id": "call_1",
    "name": "add",
    "arguments": "{}",
    "status": "completed",
}
OUTPUT = {"type": "function_call_output", "call_id": "call_1", "output": "3", "id": None, "status": None}


def sent_items(items: list[Any], **options: Any) -> list[dict[str, Any]]:
    params = {"input": items, **options.pop("params", {})}
    sent: list[dict[str, Any]] = build_responses_request(params, **options).body["input"]
    return sent


# --- Items ------------------------------------------------------------------------------------------------------


def test_status_of_reasoning_nulls_and_token_fields_stay_behind() -> None:
    answered = [
        {**REASONING, "encrypted_content": None, "content": None},
        {**CALL, **TOKENS, RECORD_FIELD: {"masked": "x"}},
    ]
    assert sent_items([*answered, OUTPUT]) == [
        {"type": "reasoning", "id": "rs_1", "summary": []},
        CALL,
        {"type": "function_call_output", "call_id": "call_1", "output": "3"},
    ]


def test_ids_stay_only_where_the_upstream_can_look_everything_up() -> None:
    assert sent_items([REASONING, CALL])[1]["id"] == "fc_1"
    for options in ({"drop_reasoning": True}, {"params": {"store": False}}):
        (call,) = sent_items([REASONING, CALL], **options)
        assert "id" not in call
        assert call["call_id"] == "call_1"


def test_a_hosted_tool_s_call_keeps_its_id() -> None:
    call = {"type": "web_search_call", "id": "ws_1", "status": "completed"}
    assert sent_items([call], params={"store": False}) == [call]


@pytest.mark.parametrize(
    ("fields", "is_stored", "is_sent"),
    [
        ({"id": "rs_1"}, True, True),
        ({"id": "rs_1"}, False, False),
        ({}, True, False),
        ({"encrypted_content": "abc"}, False, True),
        ({"content": [{"type": "reasoning_text", "text": "so"}]}, False, True),
        ({"summary": [{"type": "summary_text", "text": "so"}]}, False, False),
    ],
)
def test_reasoning_is_sent_where_it_can_be_read(fields: Any, is_stored: bool, is_sent: bool) -> None:
    params = {
        "input": [{"type": "reasoning", **fields}, {"role": "user", "content": "x"}],
        "store": is_stored,
    }
    body, notes = build_responses_request(params)
    assert len(body["input"]) == (2 if is_sent else 1)
    assert [note.code for note in notes] == ([] if is_sent else ["dropped_reasoning"])


def test_a_text_s_logprobs_and_nulls_stay_behind() -> None:
    part = {"type": "output_text", "text": "hi", "annotations": [], "logprobs": [1], "extra": None}
    (message,) = sent_items([{"type": "message", "role": "assistant", "content": [part]}])
    assert message["content"] == [{"type": "output_text", "text": "hi", "annotations": []}]


def test_a_history_that_is_written_as_chat_becomes_items() -> None:
    calls = [{"id": "call_1", "type": "function", "function": {"name": "add", "arguments": "{}"}}]
    items = sent_items(
        [
            {"role": "user", "content": "add"},
            {"role": "assistant", "content": None, "tool_calls": calls},
            {"role": "tool", "tool_call_id": "call_1", "content": "3"},
        ]
    )
    assert [item.get("type") for item in items] == [None, "function_call", "function_call_output"]


def test_an_item_that_is_no_object_is_named() -> None:
    with pytest.raises(InputError) as raised:
        build_responses_request({"input": ["hello", {"role": "user", "content": "x"}]})
    assert raised.value.failure.param == "input[0]"


texts = st.text(max_size=5)
json_integers = st.integers(-(2**63), 2**63 - 1)  # what a parsed body can hold
optional_ids = st.none() | texts
token_fields = st.sampled_from([{}, TOKENS, {RECORD_FIELD: {"masked": "missing_token_ids"}}])
items = st.builds(
    lambda item, ours: {**item, **ours},
    st.one_of(
        st.fixed_dictionaries(
            {"type": st.just("message"), "role": st.just("assistant")},
            optional={
                "id": optional_ids,
                "status": st.sampled_from([None, "completed"]),
                "phase": st.none(),
                "content": texts
                | st.lists(
                    st.fixed_dictionaries(
                        {"type": st.just("output_text"), "text": texts, "logprobs": st.none() | st.just([])}
                    ),
                    max_size=2,
                ),
            },
        ),
        st.fixed_dictionaries(
            {"type": st.just("reasoning"), "summary": st.just([])},
            optional={
                "id": optional_ids,
                "status": st.just("completed"),
                "content": st.none(),
                "encrypted_content": optional_ids,
            },
        ),
        st.just(CALL),
        st.just(OUTPUT),
    ),
    token_fields,
)
requests: st.SearchStrategy[dict[str, Any]] = st.fixed_dictionaries(
    {"input": st.lists(items, max_size=4)},
    optional={
        "store": st.sampled_from([True, False, None]),
        "metadata": st.none() | st.dictionaries(texts, texts | json_integers | st.none(), max_size=2),
        "temperature": st.none() | st.just(1.0),
        "tools": st.just([]),
        "tool_choice": st.sampled_from(["auto", "none", None]),
    },
)


@given(params=requests, drop_reasoning=st.booleans())
def test_whatever_a_model_server_answers_can_be_sent_back(params: Any, drop_reasoning: bool) -> None:
    before = copy.deepcopy(params)
    body, _ = build_responses_request(params, drop_reasoning=drop_reasoning)
    assert list(refusals("/v1/responses", body)) == []
    assert None not in body.values()
    assert params == before
    kept = [item for item in params["input"] if item["type"] != "reasoning"]
    assert [item["type"] for item in body["input"] if item["type"] != "reasoning"] == [
        item["type"] for item in kept
    ]


# --- The rest of a request --------------------------------------------------------------------------------------


def test_metadata_is_strings_and_extras_for_engines_are_left_out_with_a_note() -> None:
    metadata = {
        "id": 3,
        "tags": ["a"],
        "extra_body": '{"top_k": 5}',
        "chat_template_kwargs": '{"think": true}',
    }
    body, notes = build_responses_request({"input": "x", "metadata": metadata})
    assert body["metadata"] == {"id": "3", "tags": '["a"]'}
    assert [note.field for note in notes] == ["metadata.extra_body", "metadata.chat_template_kwargs"]
    assert build_responses_request({"input": "x", "metadata": {"extra_body": "{}"}}).body == {"input": "x"}


def test_extras_are_fields_where_the_upstream_takes_them() -> None:
    metadata = {"id": "3", "extra_body": '{"top_k": 5}', "chat_template_kwargs": '{"think": true}'}
    body, notes = build_responses_request({"input": "x", "metadata": metadata}, merge_extras=True)
    assert body == {
        "input": "x",
        "metadata": {"id": "3"},
        "top_k": 5,
        "chat_template_kwargs": {"think": True},
    }
    assert notes == ()


@pytest.mark.parametrize(
    ("params", "param"),
    [
        ({"background": True}, "background"),
        ({"tool_choice": "required"}, "tool_choice"),
        ({"metadata": "text"}, "metadata"),
    ],
)
def test_what_cannot_be_honoured_is_named(params: dict[str, Any], param: str) -> None:
    with pytest.raises(InputError) as raised:
        build_responses_request({"input": "x", **params})
    assert raised.value.failure.param == param


def test_words_about_tools_are_left_out_without_tools() -> None:
    params = {"input": "x", "tools": [], "tool_choice": "auto", "parallel_tool_calls": True}
    assert build_responses_request(params).body == {"input": "x"}


def test_items_without_our_fields_are_given_back_as_they_are() -> None:
    plain = [CALL, "text"]
    assert drop_our_fields(plain) is plain
    assert drop_our_fields([{**CALL, **TOKENS}, "text"]) == plain


# --- Answers ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("answer", "code"),
    [
        ({"status": "failed", "error": {"code": "server_error", "message": "it broke"}}, "engine_error"),
        ({"status": "failed", "error": None}, "engine_error"),
        ({"status": "queued", "output": []}, "malformed_answer"),
        ({"status": "completed"}, "malformed_answer"),
        ({"status": "completed", "output": None}, "malformed_answer"),
    ],
)
def test_an_answer_that_is_none_is_a_failure(answer: dict[str, Any], code: str) -> None:
    with pytest.raises(EngineError) as raised:
        check_finished_response(answer)
    assert raised.value.failure.code == code


def test_a_finished_answer_is_given_back() -> None:
    answer = {"status": "incomplete", "output": []}
    assert check_finished_response(answer) is answer
