"""The Chat Completions API's request and answer.

Messages of a request are plain JSON (typed dicts), answers are models. Both keep unknown fields: engines add
`reasoning_content`, `top_k`, `chat_template_kwargs` and more, and dropping one would change the sampling.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Literal, Required, TypeAlias

from pydantic import Discriminator, Field

from nemo_gym.responses.items import TokenIDLogProbMixin, TokenIDLogProbTypedDictMixin, carries_tokens
from nemo_gym.responses.wire import (
    AnswerModel,
    JsonObject,
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

# --- Content parts of a request -------------------------------------------------------------------------------


class ContentPartTextParam(OpenTypedDict):
    type: Literal["text"]
    text: str


class ContentPartRefusalParam(OpenTypedDict):
    type: Literal["refusal"]
    refusal: str


class ContentPartImageParam(OpenTypedDict):
    type: Literal["image_url"]
    image_url: JsonObject


class ContentPartInputAudioParam(OpenTypedDict):
    type: Literal["input_audio"]
    input_audio: JsonObject


class ContentPartFileParam(OpenTypedDict):
    type: Literal["file"]
    file: JsonObject


class ContentPartOtherParam(OpenTypedDict):
    """A part that engines define in addition to OpenAI's: video, audio by URL, ..."""

    type: str


_CONTENT_PARTS: Mapping[str | None, type] = {
    "text": ContentPartTextParam,
    "refusal": ContentPartRefusalParam,
    "image_url": ContentPartImageParam,
    "input_audio": ContentPartInputAudioParam,
    "file": ContentPartFileParam,
}


ContentPartParam: TypeAlias = Annotated[
    ContentPartTextParam
    | ContentPartRefusalParam
    | ContentPartImageParam
    | ContentPartInputAudioParam
    | ContentPartFileParam
    | ContentPartOtherParam,
    Selected(lambda part: _CONTENT_PARTS.get(read_field(part, "type"), ContentPartOtherParam)),
]


# --- Tools and tool calls of a request ------------------------------------------------------------------------


class FunctionDefinition(OpenTypedDict, total=False):
    name: Required[str]
    description: str | None
    parameters: JsonObject | None
    strict: bool | None


class ToolParam(OpenTypedDict):
    type: Literal["function"]
    function: FunctionDefinition


class CustomToolParam(OpenTypedDict):
    type: Literal["custom"]
    custom: JsonObject


ToolUnionParam: TypeAlias = Annotated[ToolParam | CustomToolParam, Discriminator("type")]


class ToolCallFunctionParam(OpenTypedDict):
    name: str
    arguments: str


class ToolCallParam(OpenTypedDict):
    id: str
    type: Literal["function"]
    function: ToolCallFunctionParam


class CustomToolCallParam(OpenTypedDict):
    id: str
    type: Literal["custom"]
    custom: JsonObject


ToolCallUnionParam: TypeAlias = Annotated[ToolCallParam | CustomToolCallParam, Discriminator("type")]


# --- Messages of a request ------------------------------------------------------------------------------------


class _InputMessageParam(OpenTypedDict, total=False):
    content: Required[str | list[ContentPartTextParam]]
    name: str


class SystemMessageParam(_InputMessageParam):
    role: Literal["system"]


class DeveloperMessageParam(_InputMessageParam):
    role: Literal["developer"]


class UserMessageParam(OpenTypedDict, total=False):
    role: Required[Literal["user"]]
    content: Required[str | list[ContentPartParam]]
    name: str


class ToolMessageParam(OpenTypedDict):
    role: Literal["tool"]
    content: str | list[ContentPartParam]
    tool_call_id: str


class AssistantMessageParam(OpenTypedDict, total=False):
    role: Required[Literal["assistant"]]
    content: str | list[ContentPartParam] | None
    name: str
    refusal: str | None
    audio: JsonObject | None
    tool_calls: list[ToolCallUnionParam] | None


class AssistantMessageForTrainingParam(AssistantMessageParam, TokenIDLogProbTypedDictMixin):
    pass


_MESSAGES: Mapping[str | None, type] = {
    "system": SystemMessageParam,
    "developer": DeveloperMessageParam,
    "user": UserMessageParam,
    "assistant": AssistantMessageParam,
    "tool": ToolMessageParam,
}


def _select_message_model(message: object) -> type | None:
    role = read_field(message, "role")
    is_for_training = role == "assistant" and carries_tokens(message)
    return AssistantMessageForTrainingParam if is_for_training else _MESSAGES.get(role)


MessageParam: TypeAlias = Annotated[
    SystemMessageParam
    | DeveloperMessageParam
    | UserMessageParam
    | AssistantMessageParam
    | AssistantMessageForTrainingParam
    | ToolMessageParam,
    Selected(_select_message_model),
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


MessageToolCallUnion: TypeAlias = Annotated[
    MessageToolCall | MessageCustomToolCall,
    Selected(lambda call: MessageCustomToolCall if read_field(call, "type") == "custom" else MessageToolCall),
]


class ChatCompletionMessage(WireModel):
    """The model's message. Its reasoning is in `reasoning` or, from older engines, `reasoning_content`."""

    role: Annotated[Literal["assistant"], NullMeansDefault] = "assistant"
    content: str | None = None
    refusal: str | None = None
    tool_calls: Annotated[list[MessageToolCallUnion], Own] | None = None


class ChatCompletionMessageForTraining(ChatCompletionMessage, TokenIDLogProbMixin):
    pass


OutputMessage: TypeAlias = Annotated[
    ChatCompletionMessage | ChatCompletionMessageForTraining,
    Selected(
        lambda message: ChatCompletionMessageForTraining if carries_tokens(message) else ChatCompletionMessage
    ),
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


class ChatCompletion(AnswerModel):
    """The answer of `POST /v1/chat/completions`."""

    id: str
    choices: Annotated[list[ChatChoice], Own]
    created: int
    model: str
    object: Annotated[Literal["chat.completion"], NullMeansDefault] = "chat.completion"
    service_tier: str | None = None
    system_fingerprint: str | None = None
    usage: Annotated[ChatCompletionUsage, Own] | None = None
