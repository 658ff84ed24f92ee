from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, TypeAdapter, ValidationError

from nemo_gym.responses import hosted_items as hosted
from nemo_gym.responses.items import (
    RESPONSES_TO_TRAIN,
    EasyInputMessage,
    EasyInputMessageForTraining,
    FunctionCallOutput,
    FunctionToolCall,
    FunctionToolCallForTraining,
    InputMessage,
    OutputMessage,
    OutputMessageForTraining,
    OutputRefusal,
    OutputText,
    ReasoningItem,
    ReasoningItemForTraining,
    ResponseInputItem,
    TokenIDLogProbMixin,
    find_training_variant,
)

TOKENS = {"prompt_token_ids": [1, 2], "generation_token_ids": [3], "generation_log_probs": [-0.5]}

_adapter: TypeAdapter[Any] = TypeAdapter(ResponseInputItem)


def read(item: object) -> Any:
    return _adapter.validate_python(item)


@pytest.mark.parametrize(
    ("item", "expected"),
    [
        ({"role": "user", "content": "hi"}, EasyInputMessage),
        ({"role": "user", "content": "hi", "type": None}, EasyInputMessage),
        ({"role": "assistant", "content": "hi", "type": "message"}, EasyInputMessage),
        ({"role": "user", "content": [{"type": "input_text", "text": "hi"}]}, EasyInputMessage),
        ({"role": "user", "content": "hi", **TOKENS}, EasyInputMessageForTraining),
        ({"role": "system", "content": [], "status": "completed", "type": "message"}, InputMessage),
        (
            {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "a"}]},
            OutputMessage,
        ),
        ({"role": "assistant", "content": [{"type": "refusal", "refusal": "no"}]}, OutputMessage),
        ({"type": "message", "id": "m", "role": "assistant", "content": None, "status": None}, OutputMessage),
        ({"type": "message", "role": "assistant", "content": [], **TOKENS}, OutputMessageForTraining),
        ({"type": "function_call", "call_id": "c", "name": "f", "arguments": "{}"}, FunctionToolCall),
        ({"call_id": "c", "name": "f", "arguments": "{}"}, FunctionToolCall),
        (
            {"type": "function_call", "call_id": "c", "name": "f", "arguments": "{}", **TOKENS},
            FunctionToolCallForTraining,
        ),
        ({"type": "function_call_output", "call_id": "c", "output": "3"}, FunctionCallOutput),
        ({"call_id": "c", "output": [{"type": "input_text", "text": "3"}]}, FunctionCallOutput),
        ({"type": "reasoning", "id": "r", "summary": None, "status": None}, ReasoningItem),
        ({"type": "reasoning", "summary": [], **TOKENS}, ReasoningItemForTraining),
        ({"type": "web_search_call", "id": "w", "action": {"query": "q"}}, hosted.WebSearchCall),
        ({"type": "compaction", "id": "x", "encrypted_content": "…"}, hosted.OtherItem),
    ],
)
def test_an_item_becomes_the_model_that_fits(item: dict[str, Any], expected: type[BaseModel]) -> None:
    assert type(read(item)) is expected


def test_null_token_fields_are_no_token_fields() -> None:
    item: dict[str, Any] = {
        "type": "reasoning",
        "summary": [],
        "prompt_token_ids": None,
        "generation_token_ids": None,
    }
    assert type(read(item)) is ReasoningItem


@pytest.mark.parametrize("missing", sorted(TOKENS))
def test_an_item_with_some_token_fields_must_have_all(missing: str) -> None:
    tokens = {name: value for name, value in TOKENS.items() if name != missing}
    with pytest.raises(ValidationError, match=missing):
        read({"type": "reasoning", "summary": [], **tokens})


@pytest.mark.parametrize("item", [{"a": 1}, "hi", 3, None, ["role"]])
def test_what_is_no_item_is_refused_in_one_error(item: object) -> None:
    with pytest.raises(ValidationError, match="An item is an object with a `type`") as raised:
        read(item)
    assert raised.value.error_count() == 1


def test_an_error_is_about_the_one_model_that_fits() -> None:
    with pytest.raises(ValidationError) as raised:
        read({"type": "function_call", "call_id": "c", "name": "f"})
    assert [error["loc"] for error in raised.value.errors()] == [("FunctionToolCall", "arguments")]


def test_an_unknown_role_is_named() -> None:
    with pytest.raises(ValidationError, match=r"role(.|\n)*input_value='tool'"):
        read({"role": "tool", "content": "x"})


def test_unknown_fields_and_parts_survive() -> None:
    item = {
        "type": "message",
        "role": "user",
        "content": [
            {"type": "input_text", "text": "look", "cache_control": {"type": "ephemeral"}},
            {"type": "input_image", "image_url": "data:…", "detail": "high"},
            {"type": "input_video", "video_url": "data:…"},
        ],
        "phase": "commentary",
    }
    assert read(item).model_dump(exclude_unset=True) == item


def test_parts_of_input_messages_stay_dicts_and_parts_of_output_messages_are_models() -> None:
    asked = read({"role": "user", "content": [{"type": "input_text", "text": "hi"}]})
    said = read({"role": "assistant", "content": [{"type": "output_text", "text": "hi"}]})
    assert asked.content[0]["text"] == "hi"
    assert said.content[0].text == "hi"
    assert said.content[0].annotations == []


def test_an_input_text_without_text_is_refused() -> None:
    with pytest.raises(ValidationError, match="text\n  Field required"):
        read({"role": "user", "content": [{"type": "input_text"}]})


def test_constant_fields_are_dumped_even_when_left_to_their_defaults() -> None:
    call = FunctionToolCall(call_id="c", name="f", arguments="{}")
    message = OutputMessage(id="m", content=[OutputText(text="hi"), OutputRefusal(refusal="no")])
    assert call.model_dump(exclude_unset=True)["type"] == "function_call"
    assert message.model_dump(exclude_unset=True) == {
        "id": "m",
        "content": [{"type": "output_text", "text": "hi"}, {"type": "refusal", "refusal": "no"}],
        "role": "assistant",
        "type": "message",
    }


def test_a_message_as_people_write_it_is_dumped_as_written() -> None:
    assert read({"role": "user", "content": "hi"}).model_dump(exclude_unset=True) == {
        "role": "user",
        "content": "hi",
    }


def test_an_instance_is_kept_and_an_author_s_subclass_too() -> None:
    class Marked(OutputMessage):
        mark: str = "x"

    plain, marked = OutputMessage(content=[]), Marked(content=[])
    assert read(plain) is plain
    assert read(marked) is marked


def test_routed_experts_are_lists_or_an_opaque_string() -> None:
    experts = [[[0, 1]], [[2, 3]]]
    assert TokenIDLogProbMixin.model_validate({**TOKENS, "routed_experts": experts}).routed_experts == experts
    assert TokenIDLogProbMixin.model_validate({**TOKENS, "routed_experts": "x:1"}).routed_experts == "x:1"
    with pytest.raises(ValidationError, match="routed_experts"):
        TokenIDLogProbMixin.model_validate({**TOKENS, "routed_experts": 42})


def test_a_training_variant_is_a_subclass_that_carries_tokens() -> None:
    for plain, twin in RESPONSES_TO_TRAIN.items():
        assert find_training_variant(plain) is twin
        assert issubclass(twin, plain)
        assert issubclass(twin, TokenIDLogProbMixin)


def test_an_item_that_is_never_sampled_has_no_training_variant() -> None:
    with pytest.raises(NotImplementedError, match="WebSearchCall cannot carry token ids"):
        find_training_variant(hosted.WebSearchCall)


_text = st.text(max_size=8)
_tokens: st.SearchStrategy[dict[str, Any]] = st.one_of(st.just({}), st.just(TOKENS))
_items = st.one_of(
    st.builds(
        lambda role, text, tokens: {"role": role, "content": text, **tokens},
        st.sampled_from(["user", "assistant", "system", "developer"]),
        _text,
        _tokens,
    ),
    st.builds(
        lambda texts, tokens: {
            "type": "message",
            "role": "assistant",
            "content": [{"type": "output_text", "text": text} for text in texts],
            **tokens,
        },
        st.lists(_text, max_size=3),
        _tokens,
    ),
    st.builds(
        lambda name, arguments, tokens: {
            "type": "function_call",
            "call_id": "c",
            "name": name,
            "arguments": arguments,
            **tokens,
        },
        _text,
        _text,
        _tokens,
    ),
    st.builds(lambda text: {"type": "function_call_output", "call_id": "c", "output": text}, _text),
    st.builds(
        lambda text, tokens: {
            "type": "reasoning",
            "summary": [{"type": "summary_text", "text": text}],
            "content": [{"type": "reasoning_text", "text": text}],
            **tokens,
        },
        _text,
        _tokens,
    ),
    st.builds(lambda kind, value: {"type": f"{kind}_item", "anything": value}, _text, _text),
)


@given(_items)
def test_items_survive_validation_and_dump(item: dict[str, Any]) -> None:
    model = read(item)
    assert model.model_dump(exclude_unset=True) == item
    assert read(model.model_dump()) == model
    assert _adapter.validate_json(_adapter.dump_json(model)) == model
