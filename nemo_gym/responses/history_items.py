"""Converts chat messages to items of a Responses conversation.

Items of a history have no ids, because a provider would look them up.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from nemo_gym.responses._content_parts import (
    convert_content_to_responses,
    convert_parts_to_responses,
    present,
    require_text,
)
from nemo_gym.responses.dialects import TRAINING_FIELDS, Dialect, ReasoningHistory
from nemo_gym.responses.problems import ConversionProblems
from nemo_gym.responses.reasoning import split_thinking

INPUT_ROLES = ("user", "system", "developer")
_INPUT_FIELDS = frozenset({"type", "role", "content", "name"})
_TOOL_FIELDS = frozenset({"type", "role", "content", "tool_call_id", "name"})
_CHAT_ONLY_FIELDS = frozenset({"tool_calls", "reasoning", "reasoning_content", "refusal"})
_ASSISTANT_FIELDS = frozenset({*_INPUT_FIELDS, *_CHAT_ONLY_FIELDS, *TRAINING_FIELDS})
_CALL_FIELDS = frozenset({"id", "type", "function", "index"})
_FUNCTION_FIELDS = frozenset({"name", "arguments"})


def is_chat_shaped(item: Mapping[str, Any]) -> bool:
    """Return whether a message in a Responses `input` has the form of a chat message, as in some datasets."""
    if _CHAT_ONLY_FIELDS.isdisjoint(item):
        return bool(item.get("role") == "tool")
    return any(item.get(key) is not None for key in _CHAT_ONLY_FIELDS)


def convert_message_to_items(
    message: Mapping[str, Any], field: str, problems: ConversionProblems, dialect: Dialect
) -> list[dict[str, Any]]:
    """Return one chat message as items, in the order reasoning, message, calls."""
    role = message.get("role")
    if role in INPUT_ROLES:
        return [_input_item(message, field, problems)]
    if role == "assistant":
        return _assistant_items(message, field, problems, dialect)
    if role == "tool":
        return [_output_item(message, field, problems)]
    problems.add(f"{field}.role", f"{role!r} is no role of a message")
    return []


def read_reasoning_text(message: Mapping[str, Any], field: str, problems: ConversionProblems) -> str | None:
    """Return the reasoning of a chat message. Engines use two field names; different values are a problem."""
    reasoning, reasoning_content = message.get("reasoning"), message.get("reasoning_content")
    if reasoning and reasoning_content and reasoning != reasoning_content:
        problems.add(f"{field}.reasoning_content", "differs from `reasoning`")
    text = reasoning or reasoning_content
    if text and not isinstance(text, str):
        problems.add(f"{field}.reasoning", "must be a string")
        return None
    return text or None


def _input_item(message: Mapping[str, Any], field: str, problems: ConversionProblems) -> dict[str, Any]:
    problems.add_unknown(message, _INPUT_FIELDS, f"{field}.")
    content = convert_content_to_responses(message.get("content"), f"{field}.content", problems)
    return {"type": "message", "role": message["role"], "content": content, **present(message, "name")}


def _output_item(message: Mapping[str, Any], field: str, problems: ConversionProblems) -> dict[str, Any]:
    problems.add_unknown(message, _TOOL_FIELDS, f"{field}.")
    output = convert_content_to_responses(message.get("content"), f"{field}.content", problems)
    call_id = require_text(message, "tool_call_id", field, problems)
    return {"type": "function_call_output", "call_id": call_id, "output": output, **present(message, "name")}


def _assistant_items(
    message: Mapping[str, Any], field: str, problems: ConversionProblems, dialect: Dialect
) -> list[dict[str, Any]]:
    problems.add_unknown(message, _ASSISTANT_FIELDS, f"{field}.")
    content = message.get("content")
    reasoning = read_reasoning_text(message, field, problems)
    thoughts: tuple[str, ...] = (reasoning,) if reasoning else ()
    if not thoughts and isinstance(content, str) and dialect.reasoning_history is ReasoningHistory.INLINE:
        thoughts, content, _ = split_thinking(content, dialect)
    items: list[dict[str, Any]] = []
    if thoughts:
        items.append(
            {"type": "reasoning", "summary": [{"type": "summary_text", "text": text} for text in thoughts]}
        )
    calls = _call_items(message.get("tool_calls") or (), field, problems)
    said = _said(content, message.get("refusal"), field, problems)
    if said or not (items or calls):
        items.append({"type": "message", "role": "assistant", "content": said, **present(message, "name")})
    items += calls
    items[-1].update(present(message, *TRAINING_FIELDS))
    return items


def _said(
    content: object, refusal: object, field: str, problems: ConversionProblems
) -> str | list[dict[str, Any]]:
    """Return the content of an assistant message: a string, or parts if it contains a refusal."""
    if not refusal and (content is None or isinstance(content, str)):
        return content or ""
    if content is None or isinstance(content, str):
        parts: list[dict[str, Any]] = [{"type": "input_text", "text": content}] if content else []
    else:
        parts = convert_parts_to_responses(content, f"{field}.content", problems)
    for part in parts:
        if part.get("type") == "input_text":
            part["type"] = "output_text"
    if refusal:
        parts.append({"type": "refusal", "refusal": refusal})
    if all(part.get("type") == "output_text" for part in parts):
        return "".join(part["text"] for part in parts)
    return parts


def _call_items(calls: object, field: str, problems: ConversionProblems) -> list[dict[str, Any]]:
    items = []
    for index, call in enumerate(calls if isinstance(calls, list | tuple) else ()):
        where = f"{field}.tool_calls[{index}]"
        function = call.get("function") if isinstance(call, dict) else None
        if not isinstance(function, dict) or call.get("type", "function") != "function":
            problems.add(f"{where}.type", "only calls of functions have a counterpart")
            continue
        problems.add_unknown(call, _CALL_FIELDS, f"{where}.")
        problems.add_unknown(function, _FUNCTION_FIELDS, f"{where}.function.")
        items.append(
            {
                "type": "function_call",
                "call_id": require_text(call, "id", where, problems),
                "name": require_text(function, "name", f"{where}.function", problems),
                "arguments": require_text(function, "arguments", f"{where}.function", problems),
            }
        )
    return items
