from typing import Any

import pytest

from nemo_gym.failures import InputError
from nemo_gym.responses import OPENAI, Dialect, build_chat_request

WEATHER = {"type": "function", "name": "get_weather", "parameters": {"type": "object"}, "strict": True}


def body_of(dialect: Dialect | None = None, **params: Any) -> dict[str, Any]:
    return build_chat_request({"input": "hi", **params}, dialect or Dialect()).body


def refused_fields(**params: Any) -> list[str]:
    with pytest.raises(InputError) as caught:
        body_of(**params)
    assert caught.value.failure.param is not None
    return caught.value.failure.param.split(", ")


def test_a_string_is_one_user_message() -> None:
    assert body_of() == {"messages": [{"role": "user", "content": "hi"}]}


def test_instructions_are_the_first_message() -> None:
    given = [{"role": "system", "content": "Be kind."}, {"role": "user", "content": "hi"}]
    assert body_of(input=given, instructions="Be brief.")["messages"] == [
        {"role": "system", "content": "Be brief."},
        {"role": "system", "content": "Be kind."},
        {"role": "user", "content": "hi"},
    ]


def test_the_request_is_not_changed() -> None:
    params = {
        "input": [{"role": "assistant", "content": [{"type": "output_text", "text": "a"}]}],
        "metadata": {"extra_body": '{"top_k": 1}', "chat_template_kwargs": '{"a": 1}'},
        "chat_template_kwargs": {"b": 2},
        "tools": [WEATHER],
    }
    before = repr(params)
    build_chat_request(params)
    assert repr(params) == before


@pytest.mark.parametrize("given", [None, 3, {"role": "user"}])
def test_an_input_of_the_wrong_kind_is_named(given: object) -> None:
    assert refused_fields(input=given) == ["input"]


def test_an_empty_conversation_is_refused() -> None:
    assert refused_fields(input=[]) == ["input"]
    assert body_of(input=[], instructions="Speak.")["messages"] == [{"role": "system", "content": "Speak."}]


@pytest.mark.parametrize(
    ("dialect", "expected"),
    [(Dialect(), "max_completion_tokens"), (Dialect(max_tokens_field="max_tokens"), "max_tokens")],
)
@pytest.mark.parametrize("given", ["max_output_tokens", "max_tokens", "max_completion_tokens"])
def test_the_bound_on_the_answer_goes_by_the_engines_name(
    dialect: Dialect, expected: str, given: str
) -> None:
    body = body_of(dialect, **{given: 64})
    assert {key: value for key, value in body.items() if "tokens" in key} == {expected: 64}


def test_bounds_that_disagree_are_named() -> None:
    assert refused_fields(max_output_tokens=64, max_tokens=32) == ["max_output_tokens", "max_tokens"]


def test_fields_of_one_name_and_engine_extras_are_carried() -> None:
    fields: dict[str, Any] = {
        "model": "policy",
        "temperature": 0.0,
        "top_p": 0.9,
        "user": "u",
        "store": False,
        "service_tier": "flex",
        "prompt_cache_key": "k",
        "safety_identifier": "s",
        "seed": 7,
        "stop": ["\n"],
        "top_k": -1,
        "return_token_ids": True,
        "chat_template_kwargs": {"enable_thinking": False},
    }
    assert body_of(**fields) == {"messages": [{"role": "user", "content": "hi"}], **fields}


def test_effort_and_verbosity_are_carried() -> None:
    body = body_of(reasoning={"effort": "low", "summary": "auto"}, text={"verbosity": "high"})
    assert (body["reasoning_effort"], body["verbosity"]) == ("low", "high")


@pytest.mark.parametrize(
    ("text_format", "expected"),
    [
        ({"type": "text"}, {"type": "text"}),
        ({"type": "json_object"}, {"type": "json_object"}),
        (
            {
                "type": "json_schema",
                "name": "n",
                "schema": {"type": "object"},
                "strict": True,
                "description": "d",
            },
            {
                "type": "json_schema",
                "json_schema": {
                    "name": "n",
                    "schema": {"type": "object"},
                    "strict": True,
                    "description": "d",
                },
            },
        ),
        (
            {"type": "json_schema", "name": "n", "schema": {}, "strict": None},
            {"type": "json_schema", "json_schema": {"name": "n", "schema": {}}},
        ),
    ],
)
def test_the_text_format_is_the_response_format(text_format: Any, expected: Any) -> None:
    assert body_of(text={"format": text_format})["response_format"] == expected


def test_a_text_format_that_chat_lacks_is_named() -> None:
    assert refused_fields(text={"format": {"type": "grammar"}}) == ["text.format.type"]
    assert refused_fields(text={"format": {"type": "json_schema", "name": "n", "schema_": {}}}) == [
        "text.format.schema",
        "text.format.schema_",
    ]


@pytest.mark.parametrize("params", [{"include": ["message.output_text.logprobs"]}, {"logprobs": True}])
def test_logprobs_are_asked_for_with_a_number(params: Any) -> None:
    body = body_of(**params, top_logprobs=None)
    assert (body["logprobs"], body["top_logprobs"]) == (True, 0)


def test_top_logprobs_ask_for_logprobs() -> None:
    body = body_of(top_logprobs=5)
    assert (body["logprobs"], body["top_logprobs"]) == (True, 5)
    assert "logprobs" not in body_of(top_logprobs=0)


def test_tools_and_their_choice_are_carried_with_tools_only() -> None:
    body = body_of(tools=[WEATHER], tool_choice="required", parallel_tool_calls=False)
    assert (body["tool_choice"], body["parallel_tool_calls"], len(body["tools"])) == ("required", False, 1)
    nothing: list[Any] = [[], None]
    for tools in nothing:
        body = body_of(tools=tools, tool_choice="auto", parallel_tool_calls=True)
        assert body == {"messages": [{"role": "user", "content": "hi"}]}
    assert body_of(tool_choice="none") == {"messages": [{"role": "user", "content": "hi"}]}


@pytest.mark.parametrize("choice", ["required", {"type": "function", "name": "get_weather"}])
def test_a_call_demanded_without_tools_is_refused(choice: Any) -> None:
    assert refused_fields(tool_choice=choice, tools=[]) == ["tool_choice"]


NULLABLE = [
    "background",
    "background_options",
    "conversation",
    "include",
    "max_output_tokens",
    "max_tool_calls",
    "metadata",
    "previous_response_id",
    "prompt",
    "reasoning",
    "text",
    "tool_choice",
    "tools",
    "truncation",
    "temperature",
    "something_new",
]


@pytest.mark.parametrize("field", NULLABLE)
def test_null_gives_nothing(field: str) -> None:
    assert body_of(**{field: None}) == body_of()


def test_defaults_that_ask_for_nothing_pass() -> None:
    harmless: dict[str, Any] = {
        "background": False,
        "truncation": "disabled",
        "include": ["reasoning.encrypted_content"],
        "metadata": {},
        "n": 1,
        "stream": True,
        "stream_options": {"include_usage": True},
        "context_management": [],
        "instructions": "",
    }
    assert body_of(**harmless) == body_of()


def test_every_field_at_fault_is_named_at_once() -> None:
    assert refused_fields(
        previous_response_id="resp_1",
        conversation={"id": "conv_1"},
        background=True,
        background_options={"completion_window": "2h"},
        truncation="auto",
        prompt={"id": "p"},
        max_tool_calls=0,
        include=["file_search_call.results"],
        reasoning={"effort": "low", "mode": "pro"},
        text={"tone": "warm"},
        n=2,
        tools=[{"type": "web_search"}],
        unheard_of=0,
    ) == [
        "background",
        "background_options",
        "conversation",
        "include",
        "max_tool_calls",
        "n",
        "previous_response_id",
        "prompt",
        "reasoning.mode",
        "text.tone",
        "tools[0].type",
        "truncation",
        "unheard_of",
    ]


def test_zero_is_not_false() -> None:
    assert refused_fields(background=0) == ["background"]


def test_metadata_stays_for_engines_that_store_it() -> None:
    metadata = {"extra_body": '{"top_k": 1}', "run": "a"}
    assert body_of(OPENAI, metadata=metadata)["metadata"] == metadata
