"""Converts the items of a Responses conversation to chat messages.

An assistant turn is several items in the Responses API (reasoning, message, calls) and one message in chat, with the
fixed order reasoning, text, calls. Items are added to the open assistant message while they follow that order; any
other item starts a new message. Every item is therefore sent exactly once and in order.

Fields that chat lacks and models do not read are removed: ids, `status`, annotations and logprobs of texts, and the
token fields of trained items (unless the dialect keeps them).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from nemo_gym.responses._content_parts import (
    convert_content_to_chat,
    convert_parts_to_chat,
    present,
    require_text,
)
from nemo_gym.responses.arguments import check_arguments
from nemo_gym.responses.dialects import TRAINING_FIELDS, Dialect
from nemo_gym.responses.history_items import INPUT_ROLES, convert_message_to_items, is_chat_shaped
from nemo_gym.responses.problems import ConversionProblems
from nemo_gym.responses.reasoning import put_reasoning

_COMMON_FIELDS = ("type", "id", "status", *TRAINING_FIELDS)
ITEM_FIELDS: Mapping[str, frozenset[str]] = {
    "message": frozenset({*_COMMON_FIELDS, "role", "content", "name"}),
    "function_call": frozenset({*_COMMON_FIELDS, "call_id", "name", "arguments"}),
    "function_call_output": frozenset({*_COMMON_FIELDS, "call_id", "output", "name"}),
    "reasoning": frozenset({*_COMMON_FIELDS, "summary", "content", "encrypted_content"}),
}
"""The fields that each type of item may have."""


class _Turn:
    """An assistant message under construction."""

    __slots__ = ("calls", "content", "name", "reasoning", "training")

    def __init__(self) -> None:
        self.reasoning: list[str] = []
        self.content: str | list[dict[str, Any]] | None = None
        self.calls: list[dict[str, Any]] = []
        self.name: str | None = None
        self.training: dict[str, Any] = {}


class Transcript:
    """Builds chat messages from items, which are added in order."""

    def __init__(self, dialect: Dialect, problems: ConversionProblems) -> None:
        self.messages: list[dict[str, Any]] = []
        self.dialect = dialect
        self.problems = problems
        self._turn: _Turn | None = None

    def add(self, item: object, field: str) -> None:
        """Add one item; `field` is its path in the request."""
        if not isinstance(item, dict):
            self.problems.add(field, "must be an object")
            return
        kind = item.get("type") or guess_kind(item)
        if not isinstance(kind, str) or kind not in _ADDERS:
            self.problems.add(f"{field}.type", f"{kind!r} has no counterpart in Chat Completions")
            return
        if kind == "message" and is_chat_shaped(item):
            for part in convert_message_to_items(item, field, self.problems, self.dialect):
                self.add(part, field)
            return
        if not item.keys() <= ITEM_FIELDS[kind]:
            self.problems.add_unknown(item, ITEM_FIELDS[kind], f"{field}.")
        _ADDERS[kind](self, item, field)
        if self.dialect.keep_token_ids and self._turn is not None and item.get("generation_token_ids"):
            self._turn.training = present(item, *TRAINING_FIELDS)

    @property
    def is_closed(self) -> bool:
        """Whether no later item belongs to the last message."""
        return self._turn is None

    def finish(self) -> list[dict[str, Any]]:
        """Close the last turn and return the messages."""
        self._close_turn()
        return self.messages

    # --- One method for each kind of item -----------------------------------------------------------------------

    def _add_message(self, item: Mapping[str, Any], field: str) -> None:
        role = item.get("role")
        if role == "assistant":
            self._add_assistant_message(item, field)
        elif role in INPUT_ROLES:
            self._add_input_message(role, item, field)
        else:
            self.problems.add(f"{field}.role", f"{role!r} is no role of a message")

    def _add_input_message(self, role: str, item: Mapping[str, Any], field: str) -> None:
        self._close_turn()
        if role == "developer" and self.dialect.replace_developer_role_with_system:
            role = "system"
        content = convert_content_to_chat(item.get("content"), f"{field}.content", self.problems)
        self.messages.append({"role": role, "content": content, **present(item, "name")})

    def _add_assistant_message(self, item: Mapping[str, Any], field: str) -> None:
        turn = self._turn
        if turn is None or turn.content is not None or turn.calls:
            turn = self._open_turn()
        turn.content = self._assistant_content(item.get("content"), field)
        turn.name = item.get("name")

    def _assistant_content(self, content: object, field: str) -> str | list[dict[str, Any]] | None:
        if content is None or isinstance(content, str):
            return content
        parts = convert_parts_to_chat(content, f"{field}.content", self.problems)
        if all(part.get("type") == "text" for part in parts):
            return "".join(part["text"] for part in parts) if parts else None
        return parts

    def _add_reasoning(self, item: Mapping[str, Any], field: str) -> None:
        if self.dialect.drop_input_reasoning_items:
            self.problems.note("dropped_reasoning", field, "left out, as the configuration says")
            return
        texts = self._read_reasoning_texts(item, field)
        if item.get("encrypted_content") is not None:
            where = f"{field}.encrypted_content"
            if not texts:
                self.problems.add(where, "only the engine that wrote it can read it")
                return
            self.problems.note("unused_encrypted_reasoning", where, "the plain text was sent")
        if not any(texts):
            return
        turn = self._turn
        if turn is None or turn.content is not None or turn.calls:
            turn = self._open_turn()
        turn.reasoning.extend(texts)

    def _read_reasoning_texts(self, item: Mapping[str, Any], field: str) -> list[str]:
        # `content` is the verbatim reasoning; `summary` is used only without it.
        key = "content" if item.get("content") else "summary"
        parts = item.get(key) or []
        if not isinstance(parts, list) or not all(isinstance(part, dict) for part in parts):
            self.problems.add(f"{field}.{key}", "must be a list of objects with `text`")
            return []
        return [
            require_text(part, "text", f"{field}.{key}[{i}]", self.problems) for i, part in enumerate(parts)
        ]

    def _add_call(self, item: Mapping[str, Any], field: str) -> None:
        turn = self._turn or self._open_turn()
        name = require_text(item, "name", field, self.problems)
        call_id = require_text(item, "call_id", field, self.problems)
        arguments = require_text(item, "arguments", field, self.problems)
        policy, where = self.dialect.bad_arguments, f"{field}.arguments"
        arguments = check_arguments(arguments, policy, where, self.problems)
        function = {"name": name, "arguments": arguments}
        turn.calls.append({"id": call_id, "type": "function", "function": function})

    def _add_output(self, item: Mapping[str, Any], field: str) -> None:
        self._close_turn()
        output = convert_content_to_chat(item.get("output"), f"{field}.output", self.problems)
        call_id = require_text(item, "call_id", field, self.problems)
        message = {"role": "tool", "tool_call_id": call_id, "content": output, **present(item, "name")}
        self.messages.append(message)

    # --- Turns --------------------------------------------------------------------------------------------------

    def _open_turn(self) -> _Turn:
        self._close_turn()
        self._turn = _Turn()
        return self._turn

    def _close_turn(self) -> None:
        turn, self._turn = self._turn, None
        if turn is not None:
            self.messages.append(_build_message(turn, self.dialect))


def guess_kind(item: Mapping[str, Any]) -> str | None:
    """Return the type of an item without one; None if it is no item."""
    if item.get("role") is not None:
        return "message"
    if item.get("call_id") is not None:
        return "function_call_output" if "output" in item else "function_call"
    return None


def _build_message(turn: _Turn, dialect: Dialect) -> dict[str, Any]:
    message: dict[str, Any] = {"role": "assistant", "content": turn.content}
    if turn.reasoning:
        put_reasoning(message, turn.reasoning, dialect)
    if turn.calls:
        message["tool_calls"] = turn.calls
    if message["content"] is None:
        message["content"] = dialect.empty_content if turn.calls or turn.reasoning else ""
    if turn.name is not None:
        message["name"] = turn.name
    message.update(turn.training)
    return message


_ADDERS: Mapping[str, Callable[[Transcript, Mapping[str, Any], str], None]] = {
    "message": Transcript._add_message,
    "function_call": Transcript._add_call,
    "function_call_output": Transcript._add_output,
    "reasoning": Transcript._add_reasoning,
}
"""The method for each type of item."""
