"""The sampling fields of a request, and those that make an engine's raw log-probabilities wrong.

`raw` log-probabilities are from before temperature, penalties, top-k and top-p. They equal those of the sampled
distribution only if none of these changes it. A grammar (a forced tool call, a JSON schema) is applied before either
kind. Records mention a grammar, because a trainer that recomputes log-probabilities without it gets other values.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

PINNED: Mapping[str, Any] = {
    "temperature": 1.0,
    "top_p": 1.0,
    "top_k": -1,
    "min_p": 0.0,
    "repetition_penalty": 1.0,
}
"""Defaults for training requests. Without them the engine would use the model's `generation_config.json`."""

_HARMLESS: Mapping[str, tuple[Any, ...]] = {
    "temperature": (1,),
    "top_p": (1,),
    "top_k": (-1, 0),
    "min_p": (0,),
    "presence_penalty": (0,),
    "frequency_penalty": (0,),
    "repetition_penalty": (1,),
    "logit_bias": ({},),
    "bad_words": ([],),
    "allowed_token_ids": (),
}
"""Fields that change the sampled distribution, with the values that leave it unchanged."""

_OTHERS = (
    "seed",
    "max_tokens",
    "max_completion_tokens",
    "min_tokens",
    "stop",
    "stop_token_ids",
    "ignore_eos",
)
_GRAMMARS = (
    "structured_outputs",
    "guided_json",
    "guided_regex",
    "guided_choice",
    "guided_grammar",
)
_PLAIN_TEXT = (None, {"type": "text"})


def sampling_of(body: Mapping[str, Any]) -> dict[str, Any]:
    """Return the sampling fields of a request for its record. A grammar is recorded only as `grammar: True`."""
    kept = {name: body[name] for name in (*_HARMLESS, *_OTHERS) if body.get(name) is not None}
    has_grammar = any(body.get(name) is not None for name in _GRAMMARS)
    has_format = body.get("response_format") not in _PLAIN_TEXT
    if has_grammar or has_format or body.get("tool_choice") not in (None, "auto", "none"):
        kept["grammar"] = True
    return kept


def distortions(body: Mapping[str, Any]) -> list[str]:
    """Return the fields of a request that change the sampled distribution from the policy's own."""
    return [
        name
        for name, harmless in _HARMLESS.items()
        if body.get(name) is not None and body[name] not in harmless
    ]
