"""What an engine consumed and produced in one call, read from its answer in any of its dialects.

Ids are taken from where they are most trusted; two places that disagree mask the call, and so does everything that
is missing, short or no number. A masked call has no ids at all: nobody can train on zeros by mistake.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from nemo_gym.responses.logprobs import MISSING_LOGPROB
from nemo_gym.tokens.ids import encode_ids
from nemo_gym.tokens.reasons import MaskReason

LOWEST_LOGPROB = MISSING_LOGPROB + 1.0
"""A value this low or lower is the stand-in for a missing one, however it was rounded on its way here."""
_ABOVE_CERTAIN = 1e-3
"""How far rounding can lift the logarithm of a probability above 0."""
_NAMED = "token_id:"


@dataclass(frozen=True, slots=True)
class Capture:
    """The ids of one call. `masked` says why they can't be trained on, and then there are none."""

    prompt_ids: list[int] = field(default_factory=list)
    generated_ids: list[int] = field(default_factory=list)
    logprobs: list[float] = field(default_factory=list)
    masked: MaskReason | None = None
    encoded_prompt: bytes = b""
    encoded_generated: bytes = b""
    """The ids once more, as `ids.encode_ids` writes them."""


def capture_chat(chat: Mapping[str, Any]) -> Capture:
    """The ids of a chat completion that was asked for them.

    In order of trust, those of the prompt are at the top of the answer, on the choice, or on the message (NeMo RL's
    server); the generated ones on the choice, on the message, or in the names of the log-probabilities' tokens
    (`token_id:N`, of engines too old for `return_token_ids`).
    """
    choice = chat["choices"][0]
    message = _mapping(choice.get("message"))
    entries = _mapping(choice.get("logprobs")).get("content")
    entries = (
        entries if isinstance(entries, list) and all(isinstance(entry, Mapping) for entry in entries) else []
    )
    prompt, prompts_agree = _first(source.get("prompt_token_ids") for source in (chat, choice, message))
    named = _named_ids(entries) or None
    ids, ids_agree = _first((choice.get("token_ids"), message.get("generation_token_ids"), named))
    if isinstance(ids, list) and named is not None and len(named) != len(ids):
        return Capture(masked=MaskReason.SHORT_LOGPROBS)
    if not prompts_agree or not ids_agree:
        return Capture(masked=MaskReason.CONFLICTING_TOKEN_IDS)
    if not prompt or not ids:
        return Capture(masked=MaskReason.MISSING_TOKEN_IDS)
    try:
        encoded = encode_ids(prompt), encode_ids(ids)
    except ValueError:
        return Capture(masked=MaskReason.INVALID_TOKEN_IDS)
    counted = _mapping(chat.get("usage")).get("completion_tokens")
    if type(counted) is int and counted != len(ids):
        return Capture(masked=MaskReason.SHORT_TOKEN_IDS)
    logprobs = [entry.get("logprob") for entry in entries] or message.get("generation_log_probs")
    masked = fault_of_logprobs(logprobs, len(ids))
    return Capture(masked=masked) if masked else Capture(prompt, ids, list(logprobs or ()), None, *encoded)


def fault_of_logprobs(logprobs: object, count: int) -> MaskReason | None:
    """What is wrong with the log-probabilities of `count` generated ids, if anything is."""
    if not isinstance(logprobs, Sequence) or not logprobs:
        return MaskReason.MISSING_LOGPROBS
    if len(logprobs) != count:
        return MaskReason.SHORT_LOGPROBS
    if not set(map(type, logprobs)) <= {float, int}:
        return MaskReason.INVALID_LOGPROBS
    if not math.isfinite(sum(logprobs)) or min(logprobs) <= LOWEST_LOGPROB or max(logprobs) > _ABOVE_CERTAIN:
        return MaskReason.INVALID_LOGPROBS
    return None


def _first(sources: Any) -> tuple[Any, bool]:
    """The first list that is given, and whether all that are given say the same."""
    given = [source for source in sources if source is not None]
    return (given[0], all(source == given[0] for source in given[1:])) if given else (None, True)


def _named_ids(entries: Sequence[Mapping[str, Any]]) -> list[int] | None:
    """The ids in `token_id:N` strings, or None when the engine wrote tokens as text."""
    names = [entry.get("token") for entry in entries]
    if not all(isinstance(name, str) and name.startswith(_NAMED) for name in names):
        return None
    numbers = [str(name).removeprefix(_NAMED) for name in names]
    return [int(number) for number in numbers] if all(map(str.isdecimal, numbers)) else None


def _mapping(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}
