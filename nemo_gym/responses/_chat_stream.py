"""Converts a finished chat completion to the chunks of a chat stream.

Fields that engines add are in the same chunks as in the stream of an engine: those of the completion
(`prompt_token_ids`, ...) in the first chunk, `logprobs` and `token_ids` of a choice in the chunk after its role,
`stop_reason` in its last chunk.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from collections.abc import Set as AbstractSet
from typing import Any, TypeAlias

from nemo_gym.responses._sse import DONE, sse_data

_Json: TypeAlias = dict[str, Any]

_COMPLETION_FIELDS = frozenset({"id", "object", "created", "model", "choices", "usage"})
_STREAMED_OF_CHOICE = frozenset({"index", "message", "finish_reason", "stop_reason"})
_STREAMED_OF_MESSAGE = frozenset({"role", "content", "tool_calls"})


def chat_chunks(chat: Mapping[str, Any], *, include_usage: bool = False) -> Iterator[dict[str, Any]]:
    """Iterate over the chunks of a finished `chat`. `include_usage` adds a last chunk with the usage."""
    head: _Json = {
        "id": chat.get("id"),
        "object": "chat.completion.chunk",
        "created": chat.get("created"),
        "model": chat.get("model"),
    }
    if include_usage:
        head["usage"] = None
    first_only = _further(chat, _COMPLETION_FIELDS)
    for choice in chat.get("choices") or ():
        for piece in _choice_pieces(choice):
            yield {**head, **first_only, "choices": [piece]}
            first_only = {}
    if include_usage:
        yield {**head, "choices": [], "usage": chat.get("usage")}


def encode_chat_events(chat: Mapping[str, Any], *, include_usage: bool = False) -> Iterator[bytes]:
    """Iterate over the chunks of a finished `chat` and `[DONE]` as bytes."""
    for chunk in chat_chunks(chat, include_usage=include_usage):
        yield sse_data(chunk)
    yield DONE


def _further(given: Mapping[str, Any], known: AbstractSet[str]) -> _Json:
    """Return the fields that are not `known` and have a value."""
    return {key: value for key, value in given.items() if key not in known and value is not None}


def _choice_pieces(choice: Mapping[str, Any]) -> Iterator[_Json]:
    index = choice.get("index") or 0
    message = choice.get("message") or {}
    extras = _further(choice, _STREAMED_OF_CHOICE)
    deltas = list(_message_deltas(message)) or [{}]
    yield {
        "index": index,
        "delta": {"role": message.get("role") or "assistant", "content": ""},
        "finish_reason": None,
    }
    for delta in deltas:
        if delta or extras:
            yield {"index": index, "delta": delta, "finish_reason": None, **extras}
        extras = {}
    last: _Json = {"index": index, "delta": {}, "finish_reason": choice.get("finish_reason")}
    if choice.get("stop_reason") is not None:
        last["stop_reason"] = choice["stop_reason"]
    yield last


def _message_deltas(message: Mapping[str, Any]) -> Iterator[_Json]:
    others = _further(message, _STREAMED_OF_MESSAGE)
    if others:  # Reasoning, refusal, annotations, token fields.
        yield others
    if message.get("content"):
        yield {"content": message["content"]}
    for index, call in enumerate(message.get("tool_calls") or ()):
        function = call.get("function") or {}
        opened = {**call, "index": index, "function": {**function, "arguments": ""}}
        yield {"tool_calls": [opened]}
        yield {"tool_calls": [{"index": index, "function": {"arguments": function.get("arguments") or ""}}]}
