"""Rendering for `/v1/completions`. Prompt ids and generated ids are both on the choice."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from nemo_gym.mock_engine._wire import (
    Event,
    RenderOptions,
    chat_usage,
    share,
    spans,
    token_logprobs,
    windows,
)
from nemo_gym.mock_engine.engine import GeneratedChoice, Generation
from nemo_gym.mock_engine.request import GenerationRequest


class CompletionSurface:
    """`/v1/completions`."""

    def render(
        self, request: GenerationRequest, generation: Generation, options: RenderOptions
    ) -> dict[str, Any]:
        return _completion_head(generation) | {
            "choices": [
                self._choice(request, generation, index, options) for index in range(len(generation.choices))
            ],
            "usage": chat_usage(generation, options.tokenizer),
        }

    def stream(
        self, request: GenerationRequest, generation: Generation, options: RenderOptions
    ) -> Iterator[Event]:
        head = _completion_head(generation)
        for index, choice in enumerate(generation.choices):
            shown = generation.prompt + choice.reply.text if request.echoes else choice.reply.text
            pieces = [*windows(shown, options.chunk_tokens), ""]
            for number, piece in enumerate(pieces):
                is_last = number == len(pieces) - 1
                chunk = {"index": index, "text": piece, "logprobs": None}
                chunk["finish_reason"] = choice.finish_reason if is_last else None
                if choice.ids is not None:
                    part = share(len(choice.ids), len(pieces), number)
                    self._add_tokens(chunk, request, choice, options, part)
                    if generation.prompt_ids is not None and number == 0:
                        chunk["prompt_token_ids"] = generation.prompt_ids
                tokens = share(choice.token_count, len(pieces), number)
                yield Event(head | {"choices": [chunk]}, tokens.stop - tokens.start)
        if request.streams_usage:
            yield Event(head | {"choices": [], "usage": chat_usage(generation, options.tokenizer)})
        yield Event(None)

    def _choice(
        self, request: GenerationRequest, generation: Generation, index: int, options: RenderOptions
    ) -> dict[str, Any]:
        choice = generation.choices[index]
        answer: dict[str, Any] = {
            "index": index,
            "text": generation.prompt + choice.reply.text if request.echoes else choice.reply.text,
            "logprobs": None,
            "finish_reason": choice.finish_reason,
            "stop_reason": choice.stop_reason,
            "prompt_logprobs": None,
        }
        self._add_tokens(answer, request, choice, options, slice(None))
        if generation.prompt_ids is not None:
            answer["prompt_token_ids"] = generation.prompt_ids
        return answer

    def _add_tokens(
        self,
        answer: dict[str, Any],
        request: GenerationRequest,
        choice: GeneratedChoice,
        options: RenderOptions,
        part: slice,
    ) -> None:
        if request.wants_ids and choice.ids is not None:
            answer["token_ids"] = choice.ids[part]
        if choice.logprobs is not None:
            named = token_logprobs(choice, request, options.tokenizer, part)
            texts = [token["token"] for token in named]
            answer["logprobs"] = {
                "tokens": texts,
                "token_logprobs": [token["logprob"] for token in named],
                "top_logprobs": [
                    {rival["token"]: rival["logprob"] for rival in token["top_logprobs"]} for token in named
                ],
                "text_offset": list(spans(texts)),
            }


def _completion_head(generation: Generation) -> dict[str, Any]:
    return {
        "id": f"cmpl-{generation.id}",
        "object": "text_completion",
        "created": generation.created,
        "model": generation.model,
    }
