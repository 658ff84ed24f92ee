"""The Chat Completions API's request and answer.

Messages of a request are plain JSON (typed dicts), answers are models. Both keep unknown fields: engines add
`reasoning_content`, `top_k`, `chat_template_kwargs` and more, and dropping one would change the sampling.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal, Required, TypeAlias

from pydantic import ConfigDict, Discriminator, Field, Tag, model_validator, with_config
from typing_extensions import TypedDict

from nemo_gym.responses.items import TokenIDLogProbMixin, TokenIDLogProbTypedDictMixin, carries_tokens
from nemo_gym.responses.wire import (
    JsonObject,
    JsonObjects,
    NullMeansDefault,
    Own,
    Plain,
    TaggedWireModel,
    WireModel,
    as_own,
    read_field,
)

_keep_unknown = with_config(ConfigDict(extra="allow"))


# --- Content parts of a request -------------------------------------------------------------------------------


@_keep_unknown
class ContentPartTextParam(TypedDict):
    type: Literal["text"]
    text: str


@_keep_unknown
class ContentPartRefusalParam(TypedDict):
    type: Literal["refusal"]
    refusal: str


@_keep_unknown
class ContentPartImageParam(TypedDict):
    type: Literal["image_url"]
    image_url: JsonObject


@_keep_unknown
class ContentPartInputAudioParam(TypedDict):
    type: Literal["input_audio"]
    input_audio: JsonObject


@_keep_unknown
class ContentPartFileParam(TypedDict):
    type: Literal["file"]
    file: JsonObject


@_keep_unknown
class ContentPartOtherParam(TypedDict):
    """A part that engines define in addition to OpenAI's: video, audio by URL, ..."""

    type: str


_CONTENT_PART_KINDS = frozenset({"text", "refusal", "image_url", "input_audio", "file"})


def _kind_of_content_part(part: object) -> str:
    kind = read_field(part, "type")
    return kind if kind in _CONTENT_PART_KINDS else "other"


ContentPartParam: TypeAlias = Annotated[
    Annotated[ContentPartTextParam, Tag("text")]
    | Annotated[ContentPartRefusalParam, Tag("refusal")]
    | Annotated[ContentPartImageParam, Tag("image_url")]
    | Annotated[ContentPartInputAudioParam, Tag("input_audio")]
    | Annotated[ContentPartFileParam, Tag("file")]
    | Annotated[ContentPartOtherParam, Tag("other")],
    Discriminator(_kind_of_content_part),
]


# --- Tools and tool calls of a request ------------------------------------------------------------------------


@_keep_unknown
class FunctionDefinition(TypedDict, total=False):
    name: Required[str]
    description: str | None
    parameters: JsonObject | None
    strict: bool | None


@_keep_unknown
class ToolParam(TypedDict):
    type: Literal["function"]
    function: FunctionDefinition


@_keep_unknown
class CustomToolParam(TypedDict):
    type: Literal["custom"]
    custom: JsonObject


ToolUnionParam: TypeAlias = Annotated[ToolParam | CustomToolParam, Discriminator("type")]


@_keep_unknown
class ToolCallFunctionParam(TypedDict):
    name: str
    arguments: str


@_keep_unknown
class ToolCallParam(TypedDict):
    id: str
    type: Literal["function"]
    function: ToolCallFunctionParam


@_keep_unknown
class CustomToolCallParam(TypedDict):
    id: str
    type: Literal["custom"]
    custom: JsonObject


ToolCallUnionParam: TypeAlias = Annotated[ToolCallParam | CustomToolCallParam, Discriminator("type")]


# --- Messages of a request ------------------------------------------------------------------------------------


@_keep_unknown
class SystemMessageParam(TypedDict, total=False):
    role: Required[Literal["system"]]
    content: Required[str | list[ContentPartTextParam]]
    name: str


@_keep_unknown
class DeveloperMessageParam(TypedDict, total=False):
    role: Required[Literal["developer"]]
    content: Required[str | list[ContentPartTextParam]]
    name: str


@_keep_unknown
class UserMessageParam(TypedDict, total=False):
    role: Required[Literal["user"]]
    content: Required[str | list[ContentPartParam]]
    name: str


@_keep_unknown
class ToolMessageParam(TypedDict, total=False):
    role: Required[Literal["tool"]]
    content: Required[str | list[ContentPartParam]]
    tool_call_id: Required[str]


@_keep_unknown
class AssistantMessageParam(TypedDict, total=False):
    role: Required[Literal["assistant"]]
    content: str | list[ContentPartParam] | None
    name: str
    refusal: str | None
    audio: JsonObject | None
    tool_calls: list[ToolCallUnionParam] | None


@_keep_unknown
class AssistantMessageForTrainingParam(AssistantMessageParam, TokenIDLogProbTypedDictMixin):
    pass


def _kind_of_message(message: object) -> str | None:
    role = read_field(message, "role")
    if role == "assistant" and carries_tokens(message):
        return "assistant_for_training"
    return role if isinstance(role, str) else None


MessageParam: TypeAlias = Annotated[
    Annotated[SystemMessageParam, Tag("system")]
    | Annotated[DeveloperMessageParam, Tag("developer")]
    | Annotated[UserMessageParam, Tag("user")]
    | Annotated[AssistantMessageParam, Tag("assistant")]
    | Annotated[AssistantMessageForTrainingParam, Tag("assistant_for_training")]
    | Annotated[ToolMessageParam, Tag("tool")],
    Discriminator(_kind_of_message),
]


# --- Request --------------------------------------------------------------------------------------------------


class ChatCompletionCreateParams(WireModel):
    """The body of `POST /v1/chat/completions` for an answer in one piece.

    Unknown fields are kept: they are the engine's own sampling parameters.
    """

    messages: Annotated[list[MessageParam], Plain]
    model: str | None = None
    audio: JsonObject | None = None
    frequency_penalty: float | None = None
    logit_bias: dict[str, int] | None = None
    logprobs: bool | None = None
    max_completion_tokens: int | None = None
    max_tokens: int | None = None
    metadata: dict[str, str] | None = None
    modalities: list[Literal["text", "audio"]] | None = None
    n: int | None = None
    parallel_tool_calls: Annotated[bool, NullMeansDefault] = True
    prediction: JsonObject | None = None
    presence_penalty: float | None = None
    reasoning_effort: str | None = None
    response_format: JsonObject | None = None
    seed: int | None = None
    service_tier: str | None = None
    stop: str | list[str] | None = None
    store: bool | None = None
    stream: Literal[False] | None = None
    stream_options: JsonObject | None = None
    temperature: float | None = None
    tool_choice: Literal["none", "auto", "required"] | JsonObject | None = None
    tools: list[ToolUnionParam] | None = None
    top_logprobs: int | None = None
    top_p: float | None = None
    user: str | None = None
    web_search_options: JsonObject | None = None


# --- Answer ---------------------------------------------------------------------------------------------------


class Function(WireModel):
    """`arguments` is JSON as the model wrote it, and may be malformed."""

    arguments: str
    name: str


class MessageToolCall(TaggedWireModel):
    id: str
    function: Annotated[Function, Own]
    type: Annotated[Literal["function"], NullMeansDefault] = "function"


class MessageCustomToolCall(TaggedWireModel):
    id: str
    custom: JsonObject
    type: Literal["custom"] = "custom"


def _kind_of_tool_call(call: object) -> str:
    return "custom" if read_field(call, "type") == "custom" else "function"


MessageToolCallUnion: TypeAlias = Annotated[
    Annotated[MessageToolCall, Tag("function")] | Annotated[MessageCustomToolCall, Tag("custom")],
    Discriminator(_kind_of_tool_call),
]


class ChatCompletionMessage(WireModel):
    """The model's message. Its reasoning is in `reasoning` or, from older engines, `reasoning_content`."""

    role: Annotated[Literal["assistant"], NullMeansDefault] = "assistant"
    content: str | None = None
    refusal: str | None = None
    tool_calls: Annotated[list[MessageToolCallUnion], Own] | None = None


class ChatCompletionMessageForTraining(ChatCompletionMessage, TokenIDLogProbMixin):
    pass


def _kind_of_answer(message: object) -> str:
    return "for_training" if carries_tokens(message) else "plain"


OutputMessage: TypeAlias = Annotated[
    Annotated[ChatCompletionMessage, Tag("plain")]
    | Annotated[ChatCompletionMessageForTraining, Tag("for_training")],
    Discriminator(_kind_of_answer),
]


class TokenLogprob(WireModel):
    token: str
    logprob: float
    bytes: list[int] | None = None
    top_logprobs: Annotated[JsonObjects, NullMeansDefault] = Field(default_factory=list)


class ChoiceLogprobs(WireModel):
    content: list[TokenLogprob] | None = None
    refusal: list[TokenLogprob] | None = None


class ChatChoice(WireModel):
    index: Annotated[int, NullMeansDefault] = 0
    message: Annotated[OutputMessage, Own]
    finish_reason: str | None = None
    """`stop`, `length`, `tool_calls`, `content_filter`; engines add their own (`abort`)."""
    logprobs: Annotated[ChoiceLogprobs, Own] | None = None


class ChatCompletionUsage(WireModel):
    prompt_tokens: Annotated[int, NullMeansDefault] = 0
    completion_tokens: Annotated[int, NullMeansDefault] = 0
    total_tokens: Annotated[int, NullMeansDefault] = 0
    prompt_tokens_details: JsonObject | None = None
    completion_tokens_details: JsonObject | None = None


class ChatCompletion(WireModel):
    """The answer of `POST /v1/chat/completions`."""

    id: str
    choices: Annotated[list[ChatChoice], Own]
    created: int
    model: str
    object: Annotated[Literal["chat.completion"], NullMeansDefault] = "chat.completion"
    service_tier: str | None = None
    system_fingerprint: str | None = None
    usage: Annotated[ChatCompletionUsage, Own] | None = None

    @model_validator(mode="before")
    @classmethod
    def _read_models_of_other_packages(cls, value: Any) -> Any:
        return as_own(value)
