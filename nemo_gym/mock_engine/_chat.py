"""`/v1/chat/completions`: a generation in chat's words.

The prompt's ids are at the top of the answer, the generated ones on the choice. A stream has the prompt's ids in
its first chunk only, and the generated ones chunk by chunk, to be joined.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from nemo_gym.mock_engine._wire import (
    Dialect,
    Event,
    chat_usage,
    reasoning_fields,
    share,
    token_logprobs,
    windows,
)
from nemo_gym.mock_engine.engine import Choice, Generation
from nemo_gym.mock_engine.request import Asked


class ChatSurface:
    """`/v1/chat/completions`."""

    def render(self, asked: Asked, generation: Generation, dialect: Dialect) -> dict[str, Any]:
        answer = {
            "id": f"chatcmpl-{generation.id}",
            "object": "chat.completion",
            "created": generation.created,
            "model": generation.model,
            "choices": [
                _choice(asked, generation, index, dialect) for index in range(len(generation.choices))
            ],
            "usage": chat_usage(generation, dialect.tokenizer),
            "prompt_logprobs": None,
            "kv_transfer_params": None,
        }
        if generation.prompt_ids is not None:
            answer["prompt_token_ids"] = generation.prompt_ids
        return answer

    def stream(self, asked: Asked, generation: Generation, dialect: Dialect) -> Iterator[Event]:
        head = {
            "id": f"chatcmpl-{generation.id}",
            "object": "chat.completion.chunk",
            "created": generation.created,
            "model": generation.model,
        }
        opening = {
            "choices": [
                _chunk(index, {"role": "assistant", "content": ""})
                for index in range(len(generation.choices))
            ]
        }
        if generation.prompt_ids is not None:
            opening["prompt_token_ids"] = generation.prompt_ids  # type: ignore[assignment]
        yield Event(head | opening)
        for index, choice in enumerate(generation.choices):
            for chunk, tokens in _chunks(asked, generation, index, choice, dialect):
                yield Event(head | {"choices": [chunk]}, tokens)
        if asked.streams_usage:
            yield Event(head | {"choices": [], "usage": chat_usage(generation, dialect.tokenizer)})
        yield Event(None)


def _choice(asked: Asked, generation: Generation, index: int, dialect: Dialect) -> dict[str, Any]:
    choice = generation.choices[index]
    reply = choice.reply
    is_bare = not reply.text and bool(reply.tool_calls or reply.reasoning)
    message: dict[str, Any] = {"role": "assistant", "content": None if is_bare else reply.text}
    shown = reply.reasoning if reply.reasoning and asked.shows_reasoning else None
    message |= reasoning_fields(shown, dialect.reasoning_field)
    if reply.tool_calls:
        message["tool_calls"] = [
            {
                "id": call_id(generation, index, place),
                "type": "function",
                "function": {"name": call.name, "arguments": call.arguments},
            }
            for place, call in enumerate(reply.tool_calls)
        ]
    answer = {
        "index": index,
        "message": message,
        "logprobs": None,
        "finish_reason": choice.finish_reason,
        "stop_reason": choice.stop_reason,
    }
    if choice.logprobs is not None:
        answer["logprobs"] = {"content": token_logprobs(choice, asked, dialect.tokenizer)}
    if asked.wants_ids and choice.ids is not None:
        answer["token_ids"] = choice.ids
    return answer


def call_id(generation: Generation, index: int, place: int) -> str:
    """The id of a tool call: unique among all calls of all engines."""
    return f"chatcmpl-tool-{generation.id}{index:02x}{place:02x}"


def _chunk(index: int, delta: dict[str, Any], finish_reason: str | None = None) -> dict[str, Any]:
    return {"index": index, "delta": delta, "logprobs": None, "finish_reason": finish_reason}


def _chunks(
    asked: Asked, generation: Generation, index: int, choice: Choice, dialect: Dialect
) -> Iterator[tuple[dict[str, Any], int]]:
    """The chunks of one choice, the last with its finish reason, each with its share of the tokens."""
    deltas = [*_deltas(asked, generation, index, choice, dialect), {}]
    for number, delta in enumerate(deltas):
        is_last = number == len(deltas) - 1
        chunk = _chunk(index, delta, choice.finish_reason if is_last else None)
        if is_last:
            chunk["stop_reason"] = choice.stop_reason
        if choice.ids is not None:
            part = share(len(choice.ids), len(deltas), number)
            if asked.wants_ids:
                chunk["token_ids"] = choice.ids[part]
            if choice.logprobs is not None:
                chunk["logprobs"] = {"content": token_logprobs(choice, asked, dialect.tokenizer, part)}
        tokens = share(choice.token_count, len(deltas), number)
        yield chunk, tokens.stop - tokens.start


def _deltas(
    asked: Asked, generation: Generation, index: int, choice: Choice, dialect: Dialect
) -> Iterator[dict[str, Any]]:
    reply = choice.reply
    if asked.shows_reasoning:
        for piece in windows(reply.reasoning, dialect.chunk_tokens):
            yield reasoning_fields(piece, dialect.reasoning_field)
    for piece in windows(reply.text, dialect.chunk_tokens):
        yield {"content": piece}
    for place, call in enumerate(reply.tool_calls):
        opening = {
            "index": place,
            "id": call_id(generation, index, place),
            "type": "function",
            "function": {"name": call.name, "arguments": ""},
        }
        yield {"tool_calls": [opening]}
        for piece in windows(call.arguments, dialect.chunk_tokens):
            yield {"tool_calls": [{"index": place, "function": {"arguments": piece}}]}
