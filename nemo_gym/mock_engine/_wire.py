"""Parts of answers that several routes share: usage, logprobs, and the split of an answer into events."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Protocol

import orjson

from nemo_gym.mock_engine.engine import GeneratedChoice, Generation
from nemo_gym.mock_engine.options import ReasoningField
from nemo_gym.mock_engine.request import GenerationRequest
from nemo_gym.mock_engine.tokenizer import Tokenizer

TOP_LOGPROB_STEP = 0.75
"""Difference between the logprobs of successive top candidates, at temperature 1."""


@dataclass(frozen=True, slots=True)
class RenderOptions:
    """The engine's options that affect rendering."""

    tokenizer: Tokenizer
    reasoning_field: ReasoningField
    chunk_tokens: int


@dataclass(slots=True)
class Event:
    """One server-sent event."""

    payload: dict[str, Any] | None
    """None stands for `[DONE]`, which ends the streams of chat and completions."""
    tokens: int = 0
    """The number of generated tokens in the event, which determines its delay."""
    name: str | None = None
    """The event's name; only the Responses API has one."""

    def encode(self) -> bytes:
        data = b"data: " + (b"[DONE]" if self.payload is None else orjson.dumps(self.payload)) + b"\n\n"
        return data if self.name is None else b"event: " + self.name.encode() + b"\n" + data


class Surface(Protocol):
    """The rendering of generations for one route."""

    def render(
        self, request: GenerationRequest, generation: Generation, options: RenderOptions
    ) -> dict[str, Any]:
        """Return the whole answer."""

    def stream(
        self, request: GenerationRequest, generation: Generation, options: RenderOptions
    ) -> Iterator[Event]:
        """Yield the answer as events."""


def chat_usage(generation: Generation, tokenizer: Tokenizer) -> dict[str, Any]:
    """Return `usage` in the form of chat and completions."""
    generated = completion_tokens(generation)
    return {
        "prompt_tokens": generation.prompt_tokens,
        "completion_tokens": generated,
        "total_tokens": generation.prompt_tokens + generated,
        "prompt_tokens_details": {"cached_tokens": 0},
        "completion_tokens_details": {"reasoning_tokens": count_reasoning_tokens(generation, tokenizer)},
    }


def completion_tokens(generation: Generation) -> int:
    """Return the number of generated tokens in `usage`."""
    reported = generation.reported_tokens
    return generation.completion_tokens if reported is None else reported


def count_reasoning_tokens(generation: Generation, tokenizer: Tokenizer) -> int:
    return sum(
        tokenizer.count(choice.reply.reasoning) for choice in generation.choices if choice.reply.reasoning
    )


def token_logprobs(
    choice: GeneratedChoice, request: GenerationRequest, tokenizer: Tokenizer, part: slice = slice(None)
) -> list[dict[str, Any]]:
    """Return `logprobs.content` for the generated tokens in `part`."""
    ids, logprobs = (choice.ids or [])[part], (choice.logprobs or [])[part]
    if request.names_tokens_by_id and not request.top_logprobs:
        # A shortcut for the usual request of training runs, whose texts repeat.
        return [*map(_write_sampled, (choice.token_names or [])[part] or ids, logprobs)]
    return [
        _write_candidate(token, logprob, request, tokenizer)
        | {"top_logprobs": _runners_up(token, logprob, request, tokenizer)}
        for token, logprob in zip(ids, logprobs, strict=False)
    ]


@lru_cache(maxsize=1 << 16)
def _write_sampled(token: int | str, logprob: float) -> dict[str, Any]:
    """Return the entry of a sampled token, an id or its name. It is shared and must not be changed."""
    name = token if isinstance(token, str) else f"token_id:{token}"
    return {"token": name, "logprob": logprob, "bytes": None, "top_logprobs": []}


def _write_candidate(
    token: int, logprob: float, request: GenerationRequest, tokenizer: Tokenizer
) -> dict[str, Any]:
    if request.names_tokens_by_id:
        return {"token": f"token_id:{token}", "logprob": logprob, "bytes": None}
    text = tokenizer.decode([token])
    return {"token": text, "logprob": logprob, "bytes": list(text.encode())}


def _runners_up(
    token: int, logprob: float, request: GenerationRequest, tokenizer: Tokenizer
) -> list[dict[str, Any]]:
    return [
        _write_candidate(
            token - rank if token >= rank else token + rank,
            logprob - rank * TOP_LOGPROB_STEP / request.temperature,
            request,
            tokenizer,
        )
        for rank in range(request.top_logprobs)
    ]


def windows(text: str, tokens: int) -> list[str]:
    """Split `text` into pieces of about `tokens` tokens."""
    width = 2 * tokens
    return [text[start : start + width] for start in range(0, len(text), width)]


def share(total: int, parts: int, part: int) -> slice:
    """Return the `part`-th of `parts` nearly equal slices of `total` elements."""
    return slice(part * total // parts, (part + 1) * total // parts)


def build_reasoning_fields(reasoning: str | None, field: ReasoningField) -> dict[str, Any]:
    """Return the reasoning under the field name or names of that engine version."""
    if field == "both":
        return {"reasoning": reasoning, "reasoning_content": reasoning}
    return {} if field == "inline" else {field: reasoning}


def spans(texts: Sequence[str]) -> Iterator[int]:
    """Yield the offset of each text in their concatenation."""
    position = 0
    for text in texts:
        yield position
        position += len(text)
