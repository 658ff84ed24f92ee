from typing import Any

import orjson
import pytest

from nemo_gym.failures import InputError
from nemo_gym.responses import build_chat_request


def body_of(metadata: Any, **params: Any) -> dict[str, Any]:
    return build_chat_request({"input": "hi", "metadata": metadata, **params}).body


def refused_fields(metadata: Any, **params: Any) -> str | None:
    with pytest.raises(InputError) as caught:
        body_of(metadata, **params)
    return caught.value.failure.param


def test_an_extra_that_is_null_gives_nothing() -> None:
    assert body_of({"extra_body": '{"top_k": null, "n": null, "stream": null}'}) == body_of(None)


def test_extras_become_fields_and_the_rest_stays() -> None:
    body = body_of(
        {"extra_body": '{"top_k": 20, "min_p": 0.1}', "chat_template_kwargs": '{"think": false}', "run": "a"}
    )
    assert body == {
        "messages": [{"role": "user", "content": "hi"}],
        "top_k": 20,
        "min_p": 0.1,
        "chat_template_kwargs": {"think": False},
        "metadata": {"run": "a"},
    }


def test_template_arguments_are_merged_key_by_key() -> None:
    body = body_of(
        {"extra_body": '{"chat_template_kwargs": {"a": 2, "b": 2}}', "chat_template_kwargs": '{"b": 3}'},
        chat_template_kwargs={"a": 1, "c": 1},
    )
    assert body["chat_template_kwargs"] == {"a": 2, "b": 3, "c": 1}
    assert "metadata" not in body


def test_template_arguments_that_are_no_object_are_named() -> None:
    extras = {"extra_body": '{"chat_template_kwargs": [1]}'}
    assert (
        refused_fields(extras, chat_template_kwargs="x")
        == "chat_template_kwargs, metadata.extra_body.chat_template_kwargs"
    )


def test_a_limit_among_the_extras_goes_by_the_engines_name() -> None:
    body = body_of({"extra_body": '{"max_tokens": 5}'})
    assert {key: value for key, value in body.items() if "tokens" in key} == {"max_completion_tokens": 5}
    two_limits = {"extra_body": '{"max_tokens": 5, "max_completion_tokens": 6}'}
    assert refused_fields(two_limits) == "metadata.extra_body.max_completion_tokens"


@pytest.mark.parametrize("key", ["extra_body", "chat_template_kwargs"])
@pytest.mark.parametrize("text", ["{", "[1]", '"a"'])
def test_extras_that_are_no_json_object_are_named(key: str, text: str) -> None:
    assert refused_fields({key: text}) == f"metadata.{key}"


@pytest.mark.parametrize(
    "field", ["messages", "tools", "tool_choice", "metadata", "stream", "stream_options"]
)
def test_what_the_conversation_makes_is_no_extra(field: str) -> None:
    assert (
        refused_fields({"extra_body": orjson.dumps({field: []}).decode()}) == f"metadata.extra_body.{field}"
    )


def test_an_extra_that_contradicts_the_request_is_named() -> None:
    assert (
        refused_fields({"extra_body": '{"temperature": 0.5}'}, temperature=1.0)
        == "metadata.extra_body.temperature"
    )
    assert body_of({"extra_body": '{"temperature": 0.5}'}, temperature=0.5)["temperature"] == 0.5
    assert (
        refused_fields({"extra_body": '{"max_tokens": 5}'}, max_output_tokens=9)
        == "metadata.extra_body.max_tokens"
    )


def test_more_than_one_answer_is_no_extra_either() -> None:
    assert refused_fields({"extra_body": '{"n": 4}'}) == "metadata.extra_body.n"
