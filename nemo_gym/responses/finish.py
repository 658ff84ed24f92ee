"""Classifies the end of a generation from the engine's `finish_reason`.

Engines report `tool_calls` for an answer truncated inside a call, `stop` for a call forced by name, and HTTP 200 with
`abort` for an aborted generation. These must not be trained on as complete answers.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from nemo_gym.failures import EngineError
from nemo_gym.responses._answer_fields import build_malformed_error


class FinishKind(StrEnum):
    COMPLETE = "complete"
    """The model ended its answer."""
    TOOL = "tool"
    """The model called tools."""
    TRUNCATED = "truncated"
    """The token limit or the engine's repetition detector stopped the generation."""
    FILTERED = "filtered"
    """A content filter stopped the generation."""


_INCOMPLETE_REASON: Mapping[FinishKind, str] = {
    FinishKind.TRUNCATED: "max_output_tokens",
    FinishKind.FILTERED: "content_filter",
}

_KIND_OF_REASON: Mapping[str, FinishKind] = {
    "stop": FinishKind.COMPLETE,
    "length": FinishKind.TRUNCATED,
    "tool_calls": FinishKind.TOOL,
    "function_call": FinishKind.TOOL,
    "content_filter": FinishKind.FILTERED,
    "repetition": FinishKind.TRUNCATED,
}

_TOOL_CALL_TEXT = re.compile(
    r"<\|?tool_calls?\b|<\|?function_call\b|<function=|\[TOOL_CALLS\]|<\|python_tag\|>|<｜tool▁call|<\|tool_calls?_"
    r'|\A\s*(?:```(?:json)?\s*)?\{\s*"(?:name|function)"\s*:\s*"[^"]+"\s*,\s*"(?:arguments|parameters)"\s*:'
)
"""The forms of a tool call in the text of common models."""


@dataclass(frozen=True, slots=True)
class Finish:
    """The outcome of one generation."""

    kind: FinishKind
    finish_reason: str
    """The engine's value."""
    stop_reason: int | str | None = None
    """The stop token id or the stop string that ended it; None for the end-of-sequence token."""
    warnings: tuple[str, ...] = field(default=())
    """Short codes for counting: `unparsed_tool_call`, `relabelled_length`, ..."""

    @property
    def status(self) -> str:
        """`completed` or `incomplete`, as in a Responses object."""
        return "incomplete" if self.kind in _INCOMPLETE_REASON else "completed"

    @property
    def incomplete_details(self) -> dict[str, str] | None:
        """The reason as in a Responses object, which cannot express repetition: see `finish_reason`."""
        reason = _INCOMPLETE_REASON.get(self.kind)
        return {"reason": reason} if reason is not None else None


def read_finish(
    choice: Mapping[str, Any],
    *,
    completion_tokens: int | None = None,
    max_tokens: int | None = None,
    offers_tools: bool = False,
) -> Finish:
    """Return the outcome of a choice of a chat completion.

    `completion_tokens` (used) and `max_tokens` (limit) are needed to recognize a relabelled length. `offers_tools` is
    true if the request had tools; only then can a text be an unparsed tool call. Raises `EngineError`: `engine_abort`
    (retryable), `engine_error`, `malformed_answer`.
    """
    reason = choice.get("finish_reason")
    kind = _KIND_OF_REASON.get(reason) if isinstance(reason, str) else None
    if kind is None:
        raise _build_reason_error(reason)
    message = _read_message(choice)
    has_calls = bool(message.get("tool_calls") or message.get("function_call"))
    warnings: tuple[str, ...] = ()
    if kind is FinishKind.TOOL and _is_at_limit(completion_tokens, max_tokens):
        kind, warnings = FinishKind.TRUNCATED, ("relabelled_length",)
    elif kind is FinishKind.TOOL and not has_calls:
        kind, warnings = FinishKind.COMPLETE, ("tool_calls_missing",)
    elif kind is FinishKind.COMPLETE and has_calls:
        kind = FinishKind.TOOL
    if kind is FinishKind.COMPLETE and offers_tools and looks_like_tool_call(message.get("content")):
        warnings = (*warnings, "unparsed_tool_call")
    return Finish(kind, str(reason), choice.get("stop_reason"), warnings)


def check_finished(response: Mapping[str, Any]) -> None:
    """Raise `EngineError` for a Responses object that failed or is not finished."""
    error, status = response.get("error"), response.get("status")
    if error or status == "failed":
        message = error.get("message") if isinstance(error, Mapping) else error
        raise EngineError(
            str(message or "The engine's response failed without a reason."),
            code="engine_error",
            retryable=True,
        )
    if status not in (None, "completed", "incomplete"):
        raise build_malformed_error("status", f"is {status!r:.80}, so the response is not finished")


def looks_like_tool_call(content: object) -> bool:
    """Return whether a text contains a tool call that the engine's parser missed."""
    return isinstance(content, str) and _TOOL_CALL_TEXT.search(content) is not None


def _is_at_limit(completion_tokens: int | None, max_tokens: int | None) -> bool:
    return completion_tokens is not None and max_tokens is not None and completion_tokens >= max_tokens


def _read_message(choice: Mapping[str, Any]) -> Mapping[str, Any]:
    message = choice.get("message")
    return message if isinstance(message, dict) else {}


def _build_reason_error(reason: object) -> EngineError:
    if reason == "abort":
        return EngineError(
            "The engine aborted the generation (it was paused, put to sleep, scaled down or disconnected).",
            code="engine_abort",
            retryable=True,
        )
    if reason == "error":
        return EngineError("The engine failed while generating.", code="engine_error", retryable=True)
    return build_malformed_error("choices[0].finish_reason", f"is {reason!r:.80}, which is unknown")
