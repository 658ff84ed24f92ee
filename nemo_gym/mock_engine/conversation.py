"""The conversation as policies see it: chat messages and chat tools as plain JSON.

A message has `role` and `content` (a string, a list of parts, or null); an assistant's message may have
`tool_calls` and `reasoning` (or `reasoning_content`, its older name); a tool's has `tool_call_id`.
A tool is `{"type": "function", "function": {"name", "description", "parameters"}}`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

__all__ = ["Message", "ModelReply", "Tool", "ToolCall", "read_text"]

Message: TypeAlias = Mapping[str, Any]
Tool: TypeAlias = Mapping[str, Any]


def read_text(content: object) -> str:
    """Return the text of a message's `content`. A part without text (an image, a file) becomes `[<its type>]`."""
    if isinstance(content, str):
        return content
    if not isinstance(content, list):
        return ""
    return "".join(_read_part_text(part) for part in content)


def _read_part_text(part: object) -> str:
    if isinstance(part, str):
        return part
    if not isinstance(part, Mapping):
        return ""
    text = part.get("text")
    return text if isinstance(text, str) else f"[{part.get('type', 'part')}]"


def read_reasoning(message: Message) -> str:
    """Return the reasoning of an assistant message, under either of its names."""
    return message.get("reasoning") or message.get("reasoning_content") or ""


def last_user_text(conversation: Sequence[Message]) -> str:
    """Return the text of the last user message, or an empty string."""
    for message in reversed(conversation):
        if message.get("role") == "user":
            return read_text(message.get("content"))
    return ""


def drop_until_last_user(conversation: Sequence[Message]) -> Sequence[Message]:
    """Return the messages after the last user message: the turns on the current question."""
    for position in range(len(conversation) - 1, -1, -1):
        if conversation[position].get("role") == "user":
            return conversation[position + 1 :]
    return conversation


def list_called_tools(messages: Sequence[Message]) -> list[str]:
    """Return the names of the called tools, in order."""
    return [
        str(call["function"]["name"])
        for message in messages
        if message.get("role") == "assistant"
        for call in message.get("tool_calls") or ()
    ]


def last_tool_output(messages: Sequence[Message]) -> str | None:
    """Return the text of the last tool message, or None."""
    for message in reversed(messages):
        if message.get("role") == "tool":
            return read_text(message.get("content"))
    return None


def turns_taken(conversation: Sequence[Message]) -> int:
    """Return the number of assistant messages."""
    return sum(1 for message in conversation if message.get("role") == "assistant")


def read_name(tool: Tool) -> str:
    return str(tool["function"]["name"])


def read_parameters(tool: Tool) -> Mapping[str, Any]:
    """Return the JSON schema of a tool's arguments."""
    return tool["function"].get("parameters") or {}


@dataclass(frozen=True, slots=True)
class ToolCall:
    """A tool call by the model. `arguments` is JSON text and may be invalid."""

    name: str
    arguments: str


@dataclass(frozen=True, slots=True)
class ModelReply:
    """One assistant turn."""

    text: str = ""
    reasoning: str = ""
    tool_calls: tuple[ToolCall, ...] = ()
