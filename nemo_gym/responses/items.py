"""The items of the Responses API: messages, calls, their outputs, reasoning.

Requests and answers share one union, because the output of one turn is the input of the next. `find_item_model` selects
the model of an item by its `type` and, if that is ambiguous, by its fields. Only that model is validated, so errors
refer to it, and validating twenty items takes microseconds.

Items whose tokens the policy sampled have `prompt_token_ids`, `generation_token_ids` and `generation_log_probs`. Each
such kind has a variant `…ForTraining` with these fields. An item has all of them or none.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, ClassVar, Literal, NotRequired, TypeAlias

from pydantic import BaseModel, Field
from typing_extensions import TypedDict

from nemo_gym.responses import hosted_items as hosted
from nemo_gym.responses.wire import (
    JsonObjects,
    NullMeansDefault,
    OpenTypedDict,
    Own,
    Plain,
    Selected,
    TaggedWireModel,
    WireModel,
    read_field,
)

ItemStatus: TypeAlias = Literal["in_progress", "completed", "incomplete"]

RoutedExperts: TypeAlias = str | list[list[list[int]]]
"""The experts of each token: `[token][layer][expert]`, or an opaque string for the trainer."""


# --- Token fields ---------------------------------------------------------------------------------------------


class TokenIDLogProbMixin(WireModel):
    """The token ids that the engine read and generated in the model call that ends with this item."""

    prompt_token_ids: list[int]
    generation_token_ids: list[int]
    generation_log_probs: list[float]
    """One natural logarithm for each generated id."""
    routed_experts: RoutedExperts | None = None


class TokenIDLogProbTypedDictMixin(TypedDict):
    """`TokenIDLogProbMixin` for JSON objects that stay plain."""

    prompt_token_ids: list[int]
    generation_token_ids: list[int]
    generation_log_probs: list[float]
    routed_experts: NotRequired[RoutedExperts]


TOKEN_FIELDS = frozenset({"prompt_token_ids", "generation_token_ids", "generation_log_probs"})
TOKEN_FIELDS_WITH_EXPERTS = TOKEN_FIELDS | {"routed_experts"}
"""The token fields that go together; `routed_experts` comes only with them."""


def carries_tokens(value: object) -> bool:
    """Return whether any of the token fields is set; then all of them are required."""
    if isinstance(value, dict):
        if TOKEN_FIELDS.isdisjoint(value):
            return False
        return any(value.get(name) is not None for name in TOKEN_FIELDS)
    return isinstance(value, TokenIDLogProbMixin)


# --- Content parts --------------------------------------------------------------------------------------------
# Environments index the parts of input messages as dicts, and read the parts of output messages as attributes.


class InputTextPart(OpenTypedDict):
    type: Literal["input_text"]
    text: str


class OtherInputPart(OpenTypedDict):
    """An image, a file, audio, or a part of an answer that is quoted in a request."""

    type: str


InputPart: TypeAlias = Annotated[
    InputTextPart | OtherInputPart,
    Selected(lambda part: InputTextPart if read_field(part, "type") == "input_text" else OtherInputPart),
]
InputContent: TypeAlias = Annotated[str | list[InputPart], Plain]


class OutputText(TaggedWireModel):
    type: Literal["output_text"] = "output_text"
    text: str
    annotations: Annotated[JsonObjects, NullMeansDefault] = Field(default_factory=list)
    logprobs: JsonObjects | None = None


class OutputRefusal(TaggedWireModel):
    type: Literal["refusal"] = "refusal"
    refusal: str


_OUTPUT_PARTS: Mapping[str, type[BaseModel]] = {"output_text": OutputText, "refusal": OutputRefusal}


def _select_part_model(part: object) -> type[BaseModel] | None:
    kind = read_field(part, "type")
    if kind is None:
        return OutputText if read_field(part, "refusal") is None else OutputRefusal
    return _OUTPUT_PARTS.get(kind)


OutputPart: TypeAlias = Annotated[OutputText | OutputRefusal, Selected(_select_part_model)]


# --- Messages -------------------------------------------------------------------------------------------------


class EasyInputMessage(WireModel):
    """A message with a role and a text, as in hand-written datasets."""

    role: Literal["user", "assistant", "system", "developer"]
    content: InputContent
    type: Annotated[Literal["message"], NullMeansDefault] = "message"


class InputMessage(TaggedWireModel):
    """A message to the model in the API's stored form, with an id or a status."""

    content: InputContent
    role: Literal["user", "system", "developer"]
    status: ItemStatus | None = "completed"
    type: Annotated[Literal["message"], NullMeansDefault] = "message"


class OutputMessage(TaggedWireModel):
    """A message of the model."""

    constant_fields: ClassVar[frozenset[str]] = frozenset({"type", "role"})

    id: str | None = None
    content: Annotated[list[OutputPart], NullMeansDefault, Own] = Field(default_factory=list)
    role: Literal["assistant"] = "assistant"
    status: ItemStatus | None = "completed"
    type: Annotated[Literal["message"], NullMeansDefault] = "message"


# --- Tool calls and reasoning ---------------------------------------------------------------------------------


class FunctionToolCall(TaggedWireModel):
    """A call of one of the task's tools. `arguments` is JSON as the model wrote it, and may be malformed."""

    arguments: str
    call_id: str
    name: str
    type: Literal["function_call"] = "function_call"
    id: str | None = None
    status: ItemStatus | None = None


class FunctionCallOutput(TaggedWireModel):
    """The output of the tool for the call with the same `call_id`."""

    call_id: str
    output: InputContent
    type: Literal["function_call_output"] = "function_call_output"
    id: str | None = None
    status: ItemStatus | None = None


class Summary(TaggedWireModel):
    type: Literal["summary_text"] = "summary_text"
    text: str


class ReasoningText(TaggedWireModel):
    type: Literal["reasoning_text"] = "reasoning_text"
    text: str


class ReasoningItem(TaggedWireModel):
    """The model's reasoning: a `summary`, the verbatim `content`, or `encrypted_content` for the provider."""

    id: str | None = None
    summary: Annotated[list[Summary], NullMeansDefault, Own] = Field(default_factory=list)
    type: Literal["reasoning"] = "reasoning"
    content: Annotated[list[ReasoningText], Own] | None = None
    encrypted_content: str | None = None


# --- Twins for training ---------------------------------------------------------------------------------------


class EasyInputMessageForTraining(EasyInputMessage, TokenIDLogProbMixin):
    pass


class InputMessageForTraining(InputMessage, TokenIDLogProbMixin):
    pass


class OutputMessageForTraining(OutputMessage, TokenIDLogProbMixin):
    pass


class FunctionToolCallForTraining(FunctionToolCall, TokenIDLogProbMixin):
    pass


class ReasoningItemForTraining(ReasoningItem, TokenIDLogProbMixin):
    pass


RESPONSES_TO_TRAIN: Mapping[type[BaseModel], type[BaseModel]] = {
    EasyInputMessage: EasyInputMessageForTraining,
    InputMessage: InputMessageForTraining,
    OutputMessage: OutputMessageForTraining,
    FunctionToolCall: FunctionToolCallForTraining,
    ReasoningItem: ReasoningItemForTraining,
}


def find_training_variant(item_class: type[BaseModel]) -> type[BaseModel]:
    """Return the variant of `item_class` with token fields.

    Raises NotImplementedError for items that a policy never samples.
    """
    twin = RESPONSES_TO_TRAIN.get(item_class)
    if twin is None:
        known = ", ".join(known_class.__name__ for known_class in RESPONSES_TO_TRAIN)
        raise NotImplementedError(f"{item_class.__name__} cannot carry token ids; these can: {known}.")
    return twin


# --- The union ------------------------------------------------------------------------------------------------

_HOSTED: Mapping[str, type[BaseModel]] = {
    item.model_fields["type"].default: item for item in hosted.OtherItem.__subclasses__()
}
_MODELS = frozenset(
    {
        *RESPONSES_TO_TRAIN,
        *RESPONSES_TO_TRAIN.values(),
        FunctionCallOutput,
        hosted.OtherItem,
        *_HOSTED.values(),
    }
)


def _select_message_model(item: object) -> type[BaseModel]:
    content = read_field(item, "content")
    role = read_field(item, "role")
    if role == "assistant" or role is None:
        is_output = isinstance(content, list) and all(
            read_field(part, "type") in _OUTPUT_PARTS for part in content
        )
        return OutputMessage if is_output or content is None else EasyInputMessage
    is_stored = read_field(item, "status") is not None or read_field(item, "id") is not None
    return InputMessage if is_stored else EasyInputMessage


def _model_without_type(item: object) -> type[BaseModel] | None:
    if read_field(item, "role") is not None:
        return _select_message_model(item)
    if read_field(item, "call_id") is not None:
        return FunctionToolCall if read_field(item, "name") is not None else FunctionCallOutput
    return None


def find_item_model(item: object) -> type[BaseModel] | None:
    """Return the model of `item`, or None if it is not an item."""
    if isinstance(item, dict):
        item_type = item.get("type")
    elif isinstance(item, BaseModel):
        if type(item) in _MODELS:
            return type(item)
        item_type = read_field(item, "type")
    else:
        return None
    model: type[BaseModel] | None
    if item_type == "message":
        model = _select_message_model(item)
    elif item_type == "function_call_output":
        return FunctionCallOutput
    elif item_type == "function_call":
        model = FunctionToolCall
    elif item_type == "reasoning":
        model = ReasoningItem
    elif item_type is None:
        model = _model_without_type(item)
    else:
        return _HOSTED.get(item_type, hosted.OtherItem)
    return RESPONSES_TO_TRAIN.get(model, model) if model and carries_tokens(item) else model


ResponseInputItem: TypeAlias = Annotated[
    EasyInputMessage
    | InputMessage
    | OutputMessage
    | FunctionToolCall
    | FunctionCallOutput
    | ReasoningItem
    | hosted.OtherItem,
    Selected(
        find_item_model, _MODELS, "An item is an object with a `type`, or a message with `role` and `content`"
    ),
]
"""Any item. The models for training and those of hosted tools are subclasses of the ones named here."""
ResponseOutputItem: TypeAlias = ResponseInputItem
ResponseInput: TypeAlias = Annotated[list[ResponseInputItem], Own]
