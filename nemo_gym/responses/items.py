"""The items of the Responses API: messages, calls, their outputs, reasoning.

Requests and answers share one union, because the output of one turn is the input of the next. `kind_of_item` selects
the model of an item by its `type` and, if that is ambiguous, by its fields. Only that model is validated, so errors
refer to it, and validating twenty items takes microseconds.

Items whose tokens the policy sampled have `prompt_token_ids`, `generation_token_ids` and `generation_log_probs`. Each
such kind has a variant `…ForTraining` with these fields. An item has all of them or none.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, ClassVar, Literal, NotRequired, TypeAlias

from pydantic import BaseModel, ConfigDict, Discriminator, Field, Tag, with_config
from typing_extensions import TypedDict

from nemo_gym.responses import hosted_items as hosted
from nemo_gym.responses.wire import (
    JsonObjects,
    NullMeansDefault,
    Own,
    Plain,
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


@with_config(ConfigDict(extra="allow"))
class InputTextPart(TypedDict):
    type: Literal["input_text"]
    text: str


@with_config(ConfigDict(extra="allow"))
class OtherInputPart(TypedDict):
    """An image, a file, audio, or a part of an answer that is quoted in a request."""

    type: str


def _kind_of_input_part(part: object) -> str:
    return "input_text" if read_field(part, "type") == "input_text" else "other"


InputPart: TypeAlias = Annotated[
    Annotated[InputTextPart, Tag("input_text")] | Annotated[OtherInputPart, Tag("other")],
    Discriminator(_kind_of_input_part),
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


def _kind_of_output_part(part: object) -> str:
    kind = read_field(part, "type")
    if kind is None:
        return "output_text" if read_field(part, "refusal") is None else "refusal"
    return str(kind)


OutputPart: TypeAlias = Annotated[
    Annotated[OutputText, Tag("output_text")] | Annotated[OutputRefusal, Tag("refusal")],
    Discriminator(_kind_of_output_part),
]


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


def training_variant_of(item_class: type[BaseModel]) -> type[BaseModel]:
    """Return the variant of `item_class` with token fields.

    Raises NotImplementedError for items that a policy never samples.
    """
    twin = RESPONSES_TO_TRAIN.get(item_class)
    if twin is None:
        known = ", ".join(known_class.__name__ for known_class in RESPONSES_TO_TRAIN)
        raise NotImplementedError(f"{item_class.__name__} cannot carry token ids; these can: {known}.")
    return twin


# --- The union ------------------------------------------------------------------------------------------------

_PLAIN_TYPES = {
    "function_call_output",
    *(item.model_fields["type"].default for item in hosted.OtherItem.__subclasses__()),
}
"""Item types whose models have no variant for training."""

_OUTPUT_PART_TYPES = frozenset({"output_text", "refusal"})


def _kind_of_message(item: object) -> str:
    content = read_field(item, "content")
    role = read_field(item, "role")
    if role == "assistant" or role is None:
        is_output = isinstance(content, list) and all(
            read_field(part, "type") in _OUTPUT_PART_TYPES for part in content
        )
        return "output_message" if is_output or content is None else "easy_message"
    is_stored = read_field(item, "status") is not None or read_field(item, "id") is not None
    return "input_message" if is_stored else "easy_message"


def _kind_without_type(item: object) -> str | None:
    if read_field(item, "role") is not None:
        return _kind_of_message(item)
    if read_field(item, "call_id") is not None:
        return "function_call" if read_field(item, "name") is not None else "function_call_output"
    return None


def kind_of_item(item: object) -> str | None:
    """Return the tag of the model of `item`, or None if it is not an item."""
    if isinstance(item, dict):
        item_type = item.get("type")
    elif isinstance(item, BaseModel):
        kind = _KIND_OF_CLASS.get(type(item))
        if kind is not None:
            return kind
        item_type = read_field(item, "type")
    else:
        return None
    if item_type in _PLAIN_TYPES:
        return str(item_type)
    if item_type == "message":
        kind = _kind_of_message(item)
    elif item_type == "function_call" or item_type == "reasoning":
        kind = item_type
    elif item_type is None:
        kind = _kind_without_type(item)
    else:
        return "other"
    return f"{kind}_for_training" if kind in _TRAINABLE_KINDS and carries_tokens(item) else kind


ResponseInputItem: TypeAlias = Annotated[
    Annotated[EasyInputMessage, Tag("easy_message")]
    | Annotated[InputMessage, Tag("input_message")]
    | Annotated[OutputMessage, Tag("output_message")]
    | Annotated[FunctionToolCall, Tag("function_call")]
    | Annotated[FunctionCallOutput, Tag("function_call_output")]
    | Annotated[ReasoningItem, Tag("reasoning")]
    | Annotated[EasyInputMessageForTraining, Tag("easy_message_for_training")]
    | Annotated[InputMessageForTraining, Tag("input_message_for_training")]
    | Annotated[OutputMessageForTraining, Tag("output_message_for_training")]
    | Annotated[FunctionToolCallForTraining, Tag("function_call_for_training")]
    | Annotated[ReasoningItemForTraining, Tag("reasoning_for_training")]
    | Annotated[hosted.WebSearchCall, Tag("web_search_call")]
    | Annotated[hosted.FileSearchCall, Tag("file_search_call")]
    | Annotated[hosted.CodeInterpreterCall, Tag("code_interpreter_call")]
    | Annotated[hosted.ImageGenerationCall, Tag("image_generation_call")]
    | Annotated[hosted.ComputerCall, Tag("computer_call")]
    | Annotated[hosted.ComputerCallOutput, Tag("computer_call_output")]
    | Annotated[hosted.CustomToolCall, Tag("custom_tool_call")]
    | Annotated[hosted.CustomToolCallOutput, Tag("custom_tool_call_output")]
    | Annotated[hosted.LocalShellCall, Tag("local_shell_call")]
    | Annotated[hosted.LocalShellCallOutput, Tag("local_shell_call_output")]
    | Annotated[hosted.McpCall, Tag("mcp_call")]
    | Annotated[hosted.McpListTools, Tag("mcp_list_tools")]
    | Annotated[hosted.McpApprovalRequest, Tag("mcp_approval_request")]
    | Annotated[hosted.McpApprovalResponse, Tag("mcp_approval_response")]
    | Annotated[hosted.OtherItem, Tag("other")],
    Discriminator(
        kind_of_item,
        custom_error_type="not_an_item",
        custom_error_message="An item is an object with a `type`, or a message with `role` and `content`",
    ),
]
ResponseOutputItem: TypeAlias = ResponseInputItem
ResponseInput: TypeAlias = Annotated[list[ResponseInputItem], Own]

_TRAINABLE_KINDS = frozenset(
    {"easy_message", "input_message", "output_message", "function_call", "reasoning"}
)

_KIND_OF_CLASS: Mapping[type[BaseModel], str] = {
    EasyInputMessage: "easy_message",
    InputMessage: "input_message",
    OutputMessage: "output_message",
    FunctionToolCall: "function_call",
    FunctionCallOutput: "function_call_output",
    ReasoningItem: "reasoning",
    EasyInputMessageForTraining: "easy_message_for_training",
    InputMessageForTraining: "input_message_for_training",
    OutputMessageForTraining: "output_message_for_training",
    FunctionToolCallForTraining: "function_call_for_training",
    ReasoningItemForTraining: "reasoning_for_training",
}
"""The kinds whose `type` does not determine the model."""
