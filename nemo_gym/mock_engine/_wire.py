"""Pieces of answers that several routes share: usage, logprobs, and the splitting of an answer into events."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import orjson

from nemo_gym.mock_engine.engine import Choice, Generation
from nemo_gym.mock_engine.options import ReasoningField
from nemo_gym.mock_engine.request import Asked
from nemo_gym.mock_engine.tokenizer import Tokenizer

TOP_LOGPROB_STEP = 0.75
"""How much less likely each runner-up of a token is made to look, at temperature 1."""


@dataclass(frozen=True, slots=True)
class Dialect:
    """What an answer's wording depends on beside the request."""

    tokenizer: Tokenizer
    reasoning_field: ReasoningField
    chunk_tokens: int


@dataclass(slots=True)
class Event:
    """One server-sent event."""

    payload: dict[str, Any] | None
    """None is the `[DONE]` that ends the streams of chat and completions."""
    tokens: int = 0
    """How many generated tokens it brings, which is what it takes time for."""
    name: str | None = None
    """The Responses API names its events."""

    def encode(self) -> bytes:
        data = b"data: " + (b"[DONE]" if self.payload is None else orjson.dumps(self.payload)) + b"\n\n"
        return data if self.name is None else b"event: " + self.name.encode() + b"\n" + data


class Surface(Protocol):
    """How one route words a generation."""

    def render(self, asked: Asked, generation: Generation, dialect: Dialect) -> dict[str, Any]:
        """The whole answer."""

    def stream(self, asked: Asked, generation: Generation, dialect: Dialect) -> Iterator[Event]:
        """The answer as events."""


def chat_usage(generation: Generation, tokenizer: Tokenizer) -> dict[str, Any]:
    """`usage` as chat and completions word it."""
    generated = completion_tokens(generation)
    return {
        "prompt_tokens": generation.prompt_tokens,
        "completion_tokens": generated,
        "total_tokens": generation.prompt_tokens + generated,
        "prompt_tokens_details": {"cached_tokens": 0},
        "completion_tokens_details": {"reasoning_tokens": reasoning_tokens(generation, tokenizer)},
    }


def completion_tokens(generation: Generation) -> int:
    """The number of generated tokens that the answer tells."""
    told = generation.reported_tokens
    return generation.completion_tokens if told is None else told


def reasoning_tokens(generation: Generation, tokenizer: Tokenizer) -> int:
    return sum(
        tokenizer.count(choice.reply.reasoning) for choice in generation.choices if choice.reply.reasoning
    )


def token_logprobs(
    choice: Choice, asked: Asked, tokenizer: Tokenizer, part: slice = slice(None)
) -> list[dict[str, Any]]:
    """`logprobs.content` of the generated tokens in `part`."""
    ids, logprobs = (choice.ids or [])[part], (choice.logprobs or [])[part]
    if asked.names_tokens_by_id and not asked.top_logprobs:
        # What training asks for, on every call: the short way.
        names = (choice.token_names or [])[part] or [f"token_id:{token}" for token in ids]
        return [
            {"token": name, "logprob": logprob, "bytes": None, "top_logprobs": []}
            for name, logprob in zip(names, logprobs, strict=False)
        ]
    return [
        _named(token, logprob, asked, tokenizer)
        | {"top_logprobs": _runners_up(token, logprob, asked, tokenizer)}
        for token, logprob in zip(ids, logprobs, strict=False)
    ]


def _named(token: int, logprob: float, asked: Asked, tokenizer: Tokenizer) -> dict[str, Any]:
    if asked.names_tokens_by_id:
        return {"token": f"token_id:{token}", "logprob": logprob, "bytes": None}
    text = tokenizer.decode([token])
    return {"token": text, "logprob": logprob, "bytes": list(text.encode())}


def _runners_up(token: int, logprob: float, asked: Asked, tokenizer: Tokenizer) -> list[dict[str, Any]]:
    return [
        _named(
            token - rank if token >= rank else token + rank,
            logprob - rank * TOP_LOGPROB_STEP / asked.temperature,
            asked,
            tokenizer,
        )
        for rank in range(asked.top_logprobs)
    ]


def windows(text: str, tokens: int) -> list[str]:
    """`text` in pieces of about `tokens` tokens. Joined they are the text."""
    width = 2 * tokens
    return [text[start : start + width] for start in range(0, len(text), width)]


def share(total: int, parts: int, part: int) -> slice:
    """The `part`-th of `parts` nearly equal slices of `total` things. Joined they are all of them."""
    return slice(part * total // parts, (part + 1) * total // parts)


def reasoning_fields(reasoning: str | None, field: ReasoningField) -> dict[str, Any]:
    """The reasoning under the name, or names, that clients of that engine version look for."""
    if field == "both":
        return {"reasoning": reasoning, "reasoning_content": reasoning}
    return {} if field == "inline" else {field: reasoning}


def spans(texts: Sequence[str]) -> Iterator[int]:
    """Where each of the texts starts once they are joined."""
    position = 0
    for text in texts:
        yield position
        position += len(text)
