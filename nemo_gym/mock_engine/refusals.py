"""The engine's error answers, with vLLM's exact texts.

Clients distinguish a full context from other bad requests only by these texts.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

_TYPE_OF_STATUS = {
    400: "BadRequestError",
    404: "NotFoundError",
    429: "RateLimitError",
    500: "InternalServerError",
    501: "NotImplementedError",
    503: "ServiceUnavailableError",
    504: "GatewayTimeoutError",
}


@dataclass(frozen=True, slots=True)
class ErrorAnswer:
    """An error answer of an engine."""

    message: str
    status: int = 400
    param: str | None = None

    def to_wire(self, *, is_flat: bool = False) -> dict[str, Any]:
        """Return the body: nested under `error` (vLLM since 0.11) or flat (earlier versions)."""
        error = {
            "message": self.message,
            "type": _TYPE_OF_STATUS.get(self.status, "BadRequestError"),
            "param": self.param,
            "code": self.status,
        }
        return {"object": "error", **error} if is_flat else {"error": error}


class Refusal(Exception):
    """Ends the handling of a request with `answer`. The app catches it."""

    def __init__(self, message: str, *, status: int = 400, param: str | None = None) -> None:
        super().__init__(message)
        self.answer = ErrorAnswer(message, status, param)


@dataclass(frozen=True, slots=True)
class ContextSizes:
    """The token counts in the text of a context error."""

    limit: int
    prompt: int
    requested: int


OVERFLOW_TEXTS: Mapping[int, Callable[[ContextSizes], ErrorAnswer]] = {
    1: lambda of: ErrorAnswer(
        f"This model's maximum context length is {of.limit} tokens. However, you requested "
        f"{of.prompt + of.requested} tokens ({of.prompt} in the messages, {of.requested} in the completion). "
        "Please reduce the length of the messages or completion."
    ),
    2: lambda of: ErrorAnswer(
        f"This model's maximum context length is {of.limit} tokens. However, your request has {of.prompt} input "
        "tokens. Please reduce the length of the input messages.",
        param="input_tokens",
    ),
    3: lambda of: ErrorAnswer(
        f"'max_tokens' or 'max_completion_tokens' is too large: {of.requested}. This model's maximum context "
        f"length is {of.limit} tokens and your request has {of.prompt} input tokens "
        f"({of.requested} > {of.limit} - {of.prompt}).",
        param="max_tokens",
    ),
    4: lambda of: ErrorAnswer(
        f"You passed {of.prompt} input tokens and requested {of.requested} output tokens. However, the model's "
        f"context length is only {of.limit} tokens, resulting in a maximum input length of "
        f"{max(0, of.limit - of.requested)} tokens. Please reduce the length of the input prompt.",
        param="input_tokens",
    ),
    5: lambda of: ErrorAnswer(
        # vLLM's text has no space here either.
        f"max_completion_tokens={of.requested}cannot be greater than max_model_len=max_total_tokens={of.limit}. "
        "Please request fewer output tokens."
    ),
    6: lambda of: ErrorAnswer(f"max_tokens must be at least 1, got {min(0, of.limit - of.prompt)}."),
    7: lambda of: ErrorAnswer(
        f"this model's maximum context length is {of.limit} tokens, but the prompt contains {of.prompt} input tokens"
    ),
}
"""Texts of context-length errors, which differ by engine version and by the check that fails."""

BUDGET_OVERFLOWS = frozenset({3, 5})
"""The texts by which a smaller token budget would fit."""

EMPTY_TOOLS = (
    "`tools` must not be an empty array. Either provide at least one tool or omit the field entirely."
)
TOOL_CHOICE_ALONE = "When using `tool_choice`, `tools` must be set."

LOOKALIKES: Mapping[int, ErrorAnswer] = {
    1: ErrorAnswer(EMPTY_TOOLS),
    2: ErrorAnswer(TOOL_CHOICE_ALONE),
    3: ErrorAnswer(
        "[{'type': 'json_invalid', 'loc': ('body', 17), 'msg': 'JSON decode error', 'input': {}}]"
    ),
    4: ErrorAnswer(
        "1 validation error: {'type': 'int_parsing', 'loc': ('body', 'max_tokens'), 'msg': 'Input should be a "
        "valid integer, unable to parse string as an integer', 'input': 'many'}",
        param="max_tokens",
    ),
    5: ErrorAnswer(
        "Conversation roles must alternate user/assistant/user/assistant/... after the system message."
    ),
    6: ErrorAnswer(
        "Failed to compile the structured output grammar: the JSON schema has an unsupported keyword."
    ),
}
"""Errors with the same status that are not about the context length."""
