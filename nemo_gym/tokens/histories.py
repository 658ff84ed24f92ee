"""Digests of a conversation's messages, from which the cause of a changed token prefix is derived.

A model server keeps the digests of every open conversation, so a message takes only a few numbers.
"""

from __future__ import annotations

import operator
from collections.abc import Iterable, Mapping, Sequence
from itertools import takewhile
from typing import Any, NamedTuple, TypeAlias

import orjson

from nemo_gym.responses.arguments import canonical_arguments
from nemo_gym.responses.dialects import VLLM, Dialect
from nemo_gym.responses.reasoning import split_thinking

_PREAMBLE = frozenset({"tools", "system", "developer"})
"""Roles that unrelated conversations may share."""


class MessageDigest(NamedTuple):
    """The digest of one message."""

    role: str
    content_hash: int
    """A hash of content and tool calls, comparable within one process."""
    has_reasoning: bool
    size: int
    """The approximate number of characters."""

    def says_same(self, other: MessageDigest) -> bool:
        """Return whether role and content are equal. Reasoning is not compared."""
        return self.role == other.role and self.content_hash == other.content_hash


History: TypeAlias = tuple[MessageDigest, ...]


class KnownDigests:
    """The digests of the messages of a session's last request. A message that is the same object has the same one."""

    def __init__(self) -> None:
        self._messages: list[Mapping[str, Any]] = []
        self._digests: list[MessageDigest] = []
        self.size = 0
        """The approximate number of characters of the messages."""

    def digest(self, messages: Sequence[Mapping[str, Any]], dialect: Dialect) -> list[MessageDigest]:
        """Return the digests of messages."""
        same = sum(1 for _ in takewhile(operator.truth, map(operator.is_, messages, self._messages)))
        added = [digest_message(message, dialect) for message in messages[same:]]
        self.size += sum(each.size for each in added) - sum(each.size for each in self._digests[same:])
        self._messages[same:], self._digests[same:] = messages[same:], added
        return self._digests


def digest_history(
    body: Mapping[str, Any], dialect: Dialect = VLLM, known: KnownDigests | None = None
) -> History:
    """Return the digests of a chat request: one for its tools, which are part of the prompt, and one per message.

    `known`: those of the session, which are brought up to date.
    """
    tools = body.get("tools")
    declared = [MessageDigest("tools", hash(orjson.dumps(tools)), False, 0)] if tools else []
    digests = KnownDigests() if known is None else known
    return (*declared, *digests.digest(body["messages"], dialect))


def digest_message(message: Mapping[str, Any], dialect: Dialect = VLLM) -> MessageDigest:
    """Return the digest of a message. An answer and its copy in a later request have equal digests."""
    role = str(message.get("role"))
    content, calls = message.get("content"), message.get("tool_calls")
    thinks = bool(read_reasoning(message))
    if role == "assistant" and isinstance(content, str):
        thinking = split_thinking(content, dialect)
        thinks, content = thinks or bool(thinking.blocks), thinking.answer
    text = content if isinstance(content, str) else orjson.dumps(content).decode() if content else ""
    called = orjson.dumps([_read_call(call) for call in calls]).decode() if calls else ""
    return MessageDigest(role, hash((text, called)), thinks, len(text) + len(called))


def _read_call(call: Mapping[str, Any]) -> tuple[Any, str]:
    """Return the name and the canonical arguments of a tool call."""
    function = call.get("function") or {}
    return function.get("name"), canonical_arguments(str(function.get("arguments")))


def read_reasoning(message: Mapping[str, Any]) -> str:
    """Return the text of a message's reasoning field, or an empty string."""
    reasoning = message.get("reasoning") or message.get("reasoning_content")
    return reasoning if isinstance(reasoning, str) else ""


def list_reasoning_texts(messages: Iterable[Mapping[str, Any]], dialect: Dialect = VLLM) -> list[str]:
    """Return all reasoning texts in the assistant messages of a request."""
    thoughts: list[str] = []
    for message in messages:
        if message.get("role") != "assistant":
            continue
        thoughts.append(read_reasoning(message))
        if isinstance(message.get("content"), str):
            thoughts.extend(split_thinking(message["content"], dialect).blocks)
    return [thought.strip() for thought in thoughts if thought.strip()]


def common_prefix_length(old: Sequence[MessageDigest], new: Sequence[MessageDigest]) -> int:
    """Return the length of the common prefix of two histories."""
    pairs = zip(old, new, strict=False)
    return next(
        (place for place, (was, now) in enumerate(pairs) if not was.says_same(now)), min(len(old), len(new))
    )


def is_one_conversation(old: Sequence[MessageDigest], new: Sequence[MessageDigest]) -> bool:
    """Return whether two histories share a prefix that holds more than instructions and tools."""
    return any(said.role not in _PREAMBLE for said in old[: common_prefix_length(old, new)])
