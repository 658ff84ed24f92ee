"""What an engine must show before anybody trains on its tokens: three small requests, and what their answers prove.

The first asks for ids and log-probabilities as every training call does. The other two ask for the first token's
most likely candidates at two temperatures: an engine that tells the same log-probabilities for both tells those from
before sampling (`raw`), not those of the distribution that it sampled from (`processed`).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from nemo_gym.tokens.capture import LOWEST_LOGPROB, capture_chat
from nemo_gym.tokens.reasons import MaskReason

_MESSAGES = [{"role": "user", "content": "Say something."}]
_FEW_TOKENS = 4
_CANDIDATES = 5
_EQUAL = 1e-4
"""Log-probabilities that differ by less were computed from the same numbers: kernels aren't exact to the bit."""
_COOL, _WARM = 0.5, 1.0


class LogprobsMode(StrEnum):
    RAW = "raw"
    """From before temperature, penalties, top-k, top-p and grammars."""
    PROCESSED = "processed"
    """Of the distribution that was sampled from."""


@dataclass(frozen=True, slots=True)
class Findings:
    """What probing showed."""

    masked: MaskReason | None = None
    """Why an answer to a plain training request can't be trained on."""
    logprobs_mode: LogprobsMode | None = None
    """None where the engine didn't show candidates that tell."""
    reasoning_field: str | None = None
    """Where answers hold their reasoning: `reasoning`, `reasoning_content` or `inline`; None where nothing told."""

    def to_json(self) -> dict[str, Any]:
        return {
            "trainable": self.masked is None,
            "masked": self.masked,
            "logprobs_mode": self.logprobs_mode,
            "reasoning_field": self.reasoning_field,
        }


def plain_request(limit_field: str) -> dict[str, Any]:
    """A short request, to which the caller adds what every training request has."""
    return {"messages": _MESSAGES, limit_field: _FEW_TOKENS, "seed": 0}


def candidate_requests(limit_field: str) -> list[dict[str, Any]]:
    """The two requests that differ in their temperature only."""
    common = {"messages": _MESSAGES, limit_field: 1, "seed": 0, "logprobs": True, "top_logprobs": _CANDIDATES}
    return [{**common, "temperature": temperature} for temperature in (_COOL, _WARM)]


def findings_of(plain: Mapping[str, Any], candidates: list[Mapping[str, Any]]) -> Findings:
    """What the answers show; `candidates` is empty where the engine refused to list any."""
    mode = logprobs_mode(*map(_candidates_in, candidates)) if len(candidates) == 2 else None
    return Findings(capture_chat(plain).masked, mode, _reasoning_field(plain))


def logprobs_mode(cool: Mapping[str, float], warm: Mapping[str, float]) -> LogprobsMode | None:
    """The mode that candidates with their log-probabilities at two temperatures prove.

    Between two candidates the difference of log-probabilities is divided by the temperature, so that it doubles from
    1 to 0.5. Where all candidates are equally likely, or there is only one, nothing is proved.
    """
    shared = [token for token in cool if token in warm and _is_told(cool[token]) and _is_told(warm[token])]
    if len(shared) < 2:
        return None
    first, last = max(shared, key=warm.__getitem__), min(shared, key=warm.__getitem__)
    warm_spread, cool_spread = warm[first] - warm[last], cool[first] - cool[last]
    if warm_spread < _EQUAL:
        return None
    return (
        LogprobsMode.RAW
        if abs(cool_spread - warm_spread) < _EQUAL + 0.1 * warm_spread
        else LogprobsMode.PROCESSED
    )


def _candidates_in(chat: Mapping[str, Any]) -> dict[str, float]:
    content = (chat["choices"][0].get("logprobs") or {}).get("content") or [{}]
    listed = content[0].get("top_logprobs") or []
    return {str(entry["token"]): entry["logprob"] for entry in listed if entry.get("logprob") is not None}


def _is_told(logprob: float) -> bool:
    return math.isfinite(logprob) and logprob > LOWEST_LOGPROB


def _reasoning_field(chat: Mapping[str, Any]) -> str | None:
    message = chat["choices"][0].get("message") or {}
    named = next((name for name in ("reasoning", "reasoning_content") if name in message), None)
    content = message.get("content")
    return "inline" if isinstance(content, str) and content.lstrip().startswith("<think>") else named
