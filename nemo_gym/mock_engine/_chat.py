"""Rendering for `/v1/chat/completions`.

Prompt ids are at the top level of the answer, generated ids on the choice. A stream has the prompt ids in its first
chunk only; its chunks' generated ids join to the whole list.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from nemo_gym.mock_engine._wire import (
    Event,
    RenderOptions,
    build_reasoning_fields,
    chat_usage,
    share,
    token_logprobs,
    windows,
)
from nemo_gym.mock_engine.engine import GeneratedChoice, Generation
from nemo_gym.mock_engine.request import GenerationRequest


class ChatSurface:
    """`/v1/chat/completions`."""

    def render(
        self, request: GenerationRequest, generation: Generation, options: RenderOptions
    ) -> dict[str, Any]:
        answer = {
            "id": f"chatcmpl-{generation.id}",
            "object": "chat.completion",
            "created": generation.created,
            "model": generation.model,
            "choices": [
                _choice(request, generation, index, options) for index in range(len(generation.choices))
            ],
            "usage": chat_usage(generation, options.tokenizer),
            "prompt_logprobs": None,
            "kv_transfer_params": None,
        }
        if generation.prompt_ids is not None:
            answer["prompt_token_ids"] = generation.prompt_ids
        return answer

    def stream(
        self, request: GenerationRequest, generation: Generation, options: RenderOptions
    ) -> Iterator[Event]:
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
            for chunk, tokens in _chunks(request, generation, index, choice, options):
                yield Event(head | {"choices": [chunk]}, tokens)
        if request.streams_usage:
            yield Event(head | {"choices": [], "usage": chat_usage(generation, options.tokenizer)})
        yield Event(None)


def _choice(
    request: GenerationRequest, generation: Generation, index: int, options: RenderOptions
) -> dict[str, Any]:
    choice = generation.choices[index]
    reply = choice.reply
    is_bare = not reply.text and bool(reply.tool_calls or reply.reasoning)
    message: dict[str, Any] = {"role": "assistant", "content": None if is_bare else reply.text}
    shown = reply.reasoning if reply.reasoning and request.shows_reasoning else None
    message |= build_reasoning_fields(shown, options.reasoning_field)
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
        answer["logprobs"] = {"content": token_logprobs(choice, request, options.tokenizer)}
    if request.wants_ids and choice.ids is not None:
        answer["token_ids"] = choice.ids
    return answer


def call_id(generation: Generation, index: int, place: int) -> str:
    """Return a tool call id that is unique among all engines."""
    return f"chatcmpl-tool-{generation.id}{index:02x}{place:02x}"


def _chunk(index: int, delta: dict[str, Any], finish_reason: str | None = None) -> dict[str, Any]:
    return {"index": index, "delta": delta, "logprobs": None, "finish_reason": finish_reason}


def _chunks(
    request: GenerationRequest,
    generation: Generation,
    index: int,
    choice: GeneratedChoice,
    options: RenderOptions,
) -> Iterator[tuple[dict[str, Any], int]]:
    """Yield the chunks of one choice with their numbers of tokens. The last chunk has the finish reason."""
    deltas = [*_deltas(request, generation, index, choice, options), {}]
    for number, delta in enumerate(deltas):
        is_last = number == len(deltas) - 1
        chunk = _chunk(index, delta, choice.finish_reason if is_last else None)
        if is_last:
            chunk["stop_reason"] = choice.stop_reason
        if choice.ids is not None:
            part = share(len(choice.ids), len(deltas), number)
            if request.wants_ids:
                chunk["token_ids"] = choice.ids[part]
            if choice.logprobs is not None:
                chunk["logprobs"] = {"content": token_logprobs(choice, request, options.tokenizer, part)}
        tokens = share(choice.token_count, len(deltas), number)
        yield chunk, tokens.stop - tokens.start


def _deltas(
    request: GenerationRequest,
    generation: Generation,
    index: int,
    choice: GeneratedChoice,
    options: RenderOptions,
) -> Iterator[dict[str, Any]]:
    reply = choice.reply
    if request.shows_reasoning:
        for piece in windows(reply.reasoning, options.chunk_tokens):
            yield build_reasoning_fields(piece, options.reasoning_field)
    for piece in windows(reply.text, options.chunk_tokens):
        yield {"content": piece}
    for place, call in enumerate(reply.tool_calls):
        opening = {
            "index": place,
            "id": call_id(generation, index, place),
            "type": "function",
            "function": {"name": call.name, "arguments": ""},
        }
        yield {"tool_calls": [opening]}
        for piece in windows(call.arguments, options.chunk_tokens):
            yield {"tool_calls": [{"index": place, "function": {"arguments": piece}}]}
