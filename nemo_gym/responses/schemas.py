"""The Responses API's request and answer.

`ResponseCreateParams` refuses unknown fields, so that mistakes of callers are reported. `Response` keeps them, because
engines of different versions add fields.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated, Any, Literal, NotRequired, TypeAlias

from pydantic import Discriminator, Field, Tag

from nemo_gym.responses.items import OutputMessage, OutputText, ResponseInput, ResponseOutputItem
from nemo_gym.responses.wire import (
    AnswerModel,
    JsonObject,
    JsonObjects,
    NullMeansDefault,
    OpenTypedDict,
    Own,
    Plain,
    Selected,
    TextConfig,
    WireModel,
    read_field,
)

# --- Tools ----------------------------------------------------------------------------------------------------


class FunctionToolParam(OpenTypedDict):
    """A tool of the task: its name, and the JSON schema of its arguments."""

    type: Literal["function"]
    name: str
    description: NotRequired[str | None]
    parameters: NotRequired[JsonObject | None]
    strict: NotRequired[bool | None]


class HostedToolParam(OpenTypedDict):
    """A tool that the provider runs, or a custom one."""

    type: str


ToolParam: TypeAlias = Annotated[
    FunctionToolParam | HostedToolParam,
    Selected(lambda tool: FunctionToolParam if read_field(tool, "type") == "function" else HostedToolParam),
]


# --- Request --------------------------------------------------------------------------------------------------


def _name_input_form(value: object) -> str:
    return "text" if isinstance(value, str) else "items"


class ResponseCreateParams(WireModel, extra="forbid"):
    """The body of `POST /v1/responses` for an answer in one piece. Unknown fields are refused by name."""

    input: Annotated[
        Annotated[str, Tag("text")] | Annotated[ResponseInput, Tag("items")], Discriminator(_name_input_form)
    ]
    access_programs: JsonObject | None = None
    background: bool | None = None
    background_options: JsonObject | None = None
    context_management: JsonObjects | None = None
    conversation: str | JsonObject | None = None
    image: JsonObject | None = None
    include: list[str] | None = None
    instructions: str | None = None
    max_output_tokens: int | None = None
    max_tool_calls: int | None = None
    metadata: dict[str, str] | None = None
    model: str | None = None
    moderation: JsonObject | None = None
    parallel_tool_calls: Annotated[bool, NullMeansDefault] = True
    previous_response_id: str | None = None
    prompt: JsonObject | None = None
    prompt_cache_key: str | None = None
    prompt_cache_options: JsonObject | None = None
    prompt_cache_retention: str | None = None
    reasoning: JsonObject | None = None
    safety_identifier: str | None = None
    service_tier: str | None = None
    store: bool | None = None
    stream: Literal[False] | None = None
    stream_options: JsonObject | None = None
    temperature: float | None = None
    text: TextConfig | None = None
    tool_choice: Annotated[Literal["none", "auto", "required"] | JsonObject, NullMeansDefault] = "auto"
    tools: Annotated[list[ToolParam], NullMeansDefault, Plain] = Field(default_factory=list)
    top_logprobs: int | None = None
    top_p: float | None = None
    truncation: Literal["auto", "disabled"] | None = None
    user: str | None = None


# --- Answer ---------------------------------------------------------------------------------------------------

TokenCount: TypeAlias = Annotated[int, NullMeansDefault]


class InputTokensDetails(WireModel):
    cached_tokens: TokenCount = 0


class OutputTokensDetails(WireModel):
    reasoning_tokens: TokenCount = 0


class ResponseUsage(WireModel):
    """The token counts of an answer. Counts that an engine does not report are zero."""

    input_tokens: TokenCount = 0
    input_tokens_details: Annotated[InputTokensDetails, NullMeansDefault, Own] = Field(
        default_factory=InputTokensDetails
    )
    output_tokens: TokenCount = 0
    output_tokens_details: Annotated[OutputTokensDetails, NullMeansDefault, Own] = Field(
        default_factory=OutputTokensDetails
    )
    total_tokens: TokenCount = 0

    @classmethod
    def sum_from_list(cls, usages: Iterable[ResponseUsage]) -> ResponseUsage:
        """Return the sum of `usages`; all zero if there are none."""
        total = cls()
        for usage in usages:
            total = add_usage(total, usage)
        return total


def add_usage(left: ResponseUsage, right: ResponseUsage) -> ResponseUsage:
    """Return the sum of two usages, including counts that only some engines report."""
    return ResponseUsage.model_validate(add_counts(left.model_dump(), right.model_dump()))


def add_counts(left: dict[str, Any], right: dict[str, Any]) -> dict[str, Any]:
    total = dict(left)
    for name, count in right.items():
        known = left.get(name)
        if type(known) is int and type(count) is int:
            total[name] = known + count
        elif known is None:
            total[name] = count
        elif isinstance(known, dict) and isinstance(count, dict):
            total[name] = add_counts(known, count)
    return total


def accumulate_response_usage(
    total: ResponseUsage | None, additional: ResponseUsage | None
) -> ResponseUsage | None:
    """Return the sum of `total` and `additional`, or None if both are None. Changes neither."""
    if additional is None:
        return total
    return additional.model_copy(deep=True) if total is None else add_usage(total, additional)


class ResponseError(WireModel):
    code: str | None = None
    message: str


class IncompleteDetails(WireModel):
    reason: str | None = None


class Response(AnswerModel):
    """The answer of `POST /v1/responses`."""

    id: str
    created_at: float
    model: str
    object: Annotated[Literal["response"], NullMeansDefault] = "response"
    output: Annotated[list[ResponseOutputItem], Own]
    parallel_tool_calls: Annotated[bool, NullMeansDefault] = True
    tool_choice: Annotated[str | JsonObject, NullMeansDefault] = "auto"
    tools: Annotated[JsonObjects, NullMeansDefault] = Field(default_factory=list)
    background: bool | None = None
    completed_at: float | None = None
    conversation: JsonObject | None = None
    error: Annotated[ResponseError, Own] | None = None
    incomplete_details: Annotated[IncompleteDetails, Own] | None = None
    instructions: str | JsonObjects | None = None
    max_output_tokens: int | None = None
    max_tool_calls: int | None = None
    metadata: dict[str, Any] | None = None
    previous_response_id: str | None = None
    prompt: JsonObject | None = None
    prompt_cache_key: str | None = None
    reasoning: JsonObject | None = None
    safety_identifier: str | None = None
    service_tier: str | None = None
    status: Literal["completed", "failed", "in_progress", "cancelled", "queued", "incomplete"] | None = None
    temperature: float | None = None
    text: TextConfig | None = None
    top_logprobs: int | None = None
    top_p: float | None = None
    truncation: str | None = None
    usage: Annotated[ResponseUsage, Own] | None = None
    user: str | None = None

    @property
    def output_text(self) -> str:
        """The joined texts of the model's messages, without reasoning and refusals."""
        return "".join(
            part.text
            for item in self.output
            if isinstance(item, OutputMessage)
            for part in item.content
            if isinstance(part, OutputText)
        )
