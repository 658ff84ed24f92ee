"""Rendering for `/v1/responses`: output items, whole or as the event stream of the Responses API.

The stream is derived from the finished answer, so both forms agree.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count
from typing import Any

from nemo_gym.mock_engine._chat import call_id
from nemo_gym.mock_engine._wire import (
    Event,
    RenderOptions,
    completion_tokens,
    count_reasoning_tokens,
    share,
    token_logprobs,
    windows,
)
from nemo_gym.mock_engine.engine import Generation
from nemo_gym.mock_engine.request import GenerationRequest

_REPEATED_FIELDS = (
    *(
        "instructions",
        "max_output_tokens",
        "metadata",
        "parallel_tool_calls",
        "temperature",
        "text",
        "tool_choice",
    ),
    *("tools", "top_logprobs", "top_p", "truncation", "reasoning", "service_tier", "user"),
)
_DEFAULTS: dict[str, Any] = {"metadata": {}, "parallel_tool_calls": True, "tool_choice": "auto", "tools": []}


class ResponsesSurface:
    """`/v1/responses`."""

    def render(
        self, request: GenerationRequest, generation: Generation, options: RenderOptions
    ) -> dict[str, Any]:
        choice = generation.choices[0]
        reason = _INCOMPLETE_REASON.get(choice.finish_reason)
        answer = {
            "id": f"resp_{generation.id}",
            "object": "response",
            "created_at": generation.created,
            "model": generation.model,
            "status": _STATUS.get(choice.finish_reason, "completed"),
            "error": None,
            "incomplete_details": {"reason": reason} if reason else None,
            "output": _items(request, generation, options),
            "usage": _usage(generation, options),
        } | {name: request.payload.get(name, _DEFAULTS.get(name)) for name in _REPEATED_FIELDS}
        if request.wants_ids:
            answer["input_messages"] = [_raw(generation.prompt, generation.prompt_ids)]
            answer["output_messages"] = [_raw(choice.reply.text, choice.ids)]
        return answer

    def stream(
        self, request: GenerationRequest, generation: Generation, options: RenderOptions
    ) -> Iterator[Event]:
        numbers = count()

        def event(kind: str, tokens: int = 0, **fields: Any) -> Event:
            return Event({"type": kind, "sequence_number": next(numbers), **fields}, tokens, name=kind)

        answer = self.render(request, generation, options)
        opening = answer | {"status": "in_progress", "output": [], "usage": None, "incomplete_details": None}
        yield event("response.created", response=opening)
        yield event("response.in_progress", response=opening)
        steps = [step for place, item in enumerate(answer["output"]) for step in _steps(place, item, options)]
        pieces = sum(1 for _, fields in steps if "delta" in fields)
        given = 0
        for kind, fields in steps:
            tokens = 0
            if "delta" in fields:
                part = share(generation.choices[0].token_count, pieces, given)
                tokens, given = part.stop - part.start, given + 1
            yield event(kind, tokens, **fields)
        yield event(f"response.{answer['status']}", response=answer)


_STATUS = {"length": "incomplete", "repetition": "incomplete", "abort": "failed", "error": "failed"}
_INCOMPLETE_REASON = {"length": "max_output_tokens", "repetition": "max_output_tokens"}


def _items(
    request: GenerationRequest, generation: Generation, options: RenderOptions
) -> list[dict[str, Any]]:
    choice = generation.choices[0]
    reply = choice.reply
    items: list[dict[str, Any]] = []
    if reply.reasoning:
        thought = {"type": "reasoning_text", "text": reply.reasoning}
        items.append({"type": "reasoning", "id": f"rs_{generation.id}", "summary": [], "content": [thought]})
    if reply.text or not (items or reply.tool_calls):
        part: dict[str, Any] = {"type": "output_text", "text": reply.text, "annotations": []}
        part["logprobs"] = (
            token_logprobs(choice, request, options.tokenizer) if request.wants_logprobs else None
        )
        status = "incomplete" if choice.finish_reason == "length" else "completed"
        items.append(
            {
                "type": "message",
                "id": f"msg_{generation.id}",
                "role": "assistant",
                "status": status,
                "content": [part],
            }
        )
    for place, call in enumerate(reply.tool_calls):
        items.append(
            {
                "type": "function_call",
                "id": f"fc_{generation.id}{place:02x}",
                "call_id": call_id(generation, 0, place),
                "name": call.name,
                "arguments": call.arguments,
                "status": "completed",
            }
        )
    return items


def _usage(generation: Generation, options: RenderOptions) -> dict[str, Any]:
    generated = completion_tokens(generation)
    return {
        "input_tokens": generation.prompt_tokens,
        "input_tokens_details": {"cached_tokens": 0},
        "output_tokens": generated,
        "output_tokens_details": {"reasoning_tokens": count_reasoning_tokens(generation, options.tokenizer)},
        "total_tokens": generation.prompt_tokens + generated,
    }


def _raw(text: str, ids: list[int] | None) -> dict[str, Any]:
    return {"type": "raw_message_tokens", "message": text, "tokens": ids}


def _steps(place: int, item: dict[str, Any], options: RenderOptions) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the types and fields of one output item's events."""
    at = {"output_index": place, "item_id": item["id"]}
    match item["type"]:
        case "function_call":
            yield _build_added_event(place, item | {"arguments": "", "status": "in_progress"})
            for piece in windows(item["arguments"], options.chunk_tokens):
                yield "response.function_call_arguments.delta", at | {"delta": piece}
            told = {"name": item["name"], "arguments": item["arguments"]}
            yield "response.function_call_arguments.done", at | told
        case "reasoning":
            yield _build_added_event(place, item | {"content": []})
            text, spot = item["content"][0]["text"], at | {"content_index": 0}
            for piece in windows(text, options.chunk_tokens):
                yield "response.reasoning_text.delta", spot | {"delta": piece}
            yield "response.reasoning_text.done", spot | {"text": text}
        case _:
            yield _build_added_event(place, item | {"content": [], "status": "in_progress"})
            part, spot = item["content"][0], at | {"content_index": 0}
            blank = {"type": "output_text", "text": "", "annotations": [], "logprobs": []}
            yield "response.content_part.added", spot | {"part": blank}
            for piece in windows(part["text"], options.chunk_tokens):
                yield "response.output_text.delta", spot | {"delta": piece, "logprobs": []}
            done = {"text": part["text"], "logprobs": part["logprobs"] or []}
            yield "response.output_text.done", spot | done
            yield "response.content_part.done", spot | {"part": part}
    yield "response.output_item.done", {"output_index": place, "item": item}


def _build_added_event(place: int, item: dict[str, Any]) -> tuple[str, dict[str, Any]]:
    return "response.output_item.added", {"output_index": place, "item": item}
