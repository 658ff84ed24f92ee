"""Requests for exact tokens: the fields that ask for them, and the sampling fields that change them.

`raw` log-probabilities are from before temperature, penalties, top-k and top-p. They equal those of the sampled
distribution only if none of these changes it. A grammar (a forced tool call, a JSON schema) is applied before either
kind. Records mention a grammar, because a trainer that recomputes log-probabilities without it gets other values.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from nemo_gym.failures import InputError

TRAINING_REQUEST: Mapping[str, Any] = {
    "logprobs": True,
    "top_logprobs": 0,  # null disables log-probabilities completely
    "return_token_ids": True,
    "return_tokens_as_token_ids": True,  # for engines too old for `return_token_ids`
}
"""Request fields that enable token ids."""

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


def build_training_request(body: Mapping[str, Any]) -> dict[str, Any]:
    """Add the fields for token ids to `body`, and defaults for all sampling fields.

    Raises `InputError` for fields that would make the ids wrong or missing.
    """
    if body.get("include_reasoning") is False:
        raise _untrainable("include_reasoning", "hides generated tokens")
    if body.get("truncate_prompt_tokens") is not None:
        raise _untrainable("truncate_prompt_tokens", "changes the prompt in the engine")
    wanted = {**PINNED, **body, **TRAINING_REQUEST}
    if body.get("logprobs"):
        # The caller also reads the log-probabilities and needs the texts of the tokens.
        wanted["top_logprobs"] = body.get("top_logprobs") or 0
        del wanted["return_tokens_as_token_ids"]
    return wanted


def _untrainable(field: str, reason: str) -> InputError:
    return InputError(
        f"`{field}` {reason}, but return_token_id_information requires exact token ids",
        code="untrainable_request",
        param=field,
        remedy=f"Remove {field}, or set return_token_id_information to false.",
    )


def strip_token_data(answer: dict[str, Any], asked: Mapping[str, Any]) -> None:
    """Remove the engine's token ids, which the message's record contains, and logprobs that were not requested."""
    choice = answer["choices"][0]
    for holder in (answer, choice):
        for name in ("prompt_token_ids", "token_ids"):
            holder.pop(name, None)
    if not asked.get("logprobs"):
        choice["logprobs"] = None


def read_sampling(body: Mapping[str, Any]) -> dict[str, Any]:
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
