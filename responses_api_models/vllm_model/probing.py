"""Three small requests that test whether an engine's tokens can be used for training.

The first requests ids and log-probabilities, as every training call does. The other two request the most likely
candidates for the first token at two temperatures. If both answers have the same log-probabilities, the engine
reports values from before sampling (`raw`) and not those of the sampled distribution (`processed`).
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
"""Log-probabilities with a smaller difference count as equal, because kernels are not bit-exact."""
_COOL, _WARM = 0.5, 1.0


class LogprobsMode(StrEnum):
    RAW = "raw"
    """From before temperature, penalties, top-k, top-p and grammars."""
    PROCESSED = "processed"
    """Those of the sampled distribution."""


@dataclass(frozen=True, slots=True)
class Findings:
    """The results of probing an engine."""

    masked: MaskReason | None = None
    """The reason why the answer to a plain training request cannot be trained on."""
    logprobs_mode: LogprobsMode | None = None
    """None if the candidates did not determine it."""
    reasoning_field: str | None = None
    """The field of reasoning in answers: `reasoning`, `reasoning_content` or `inline`; None if unknown."""

    def to_json(self) -> dict[str, Any]:
        return {
            "trainable": self.masked is None,
            "masked": self.masked,
            "logprobs_mode": self.logprobs_mode,
            "reasoning_field": self.reasoning_field,
        }


def plain_request(limit_field: str) -> dict[str, Any]:
    """Return a short request; the caller adds the fields of training requests."""
    return {"messages": _MESSAGES, limit_field: _FEW_TOKENS, "seed": 0}


def candidate_requests(limit_field: str) -> list[dict[str, Any]]:
    """Return the two requests, which differ only in temperature."""
    common = {"messages": _MESSAGES, limit_field: 1, "seed": 0, "logprobs": True, "top_logprobs": _CANDIDATES}
    return [{**common, "temperature": temperature} for temperature in (_COOL, _WARM)]


def findings_of(plain: Mapping[str, Any], candidates: list[Mapping[str, Any]]) -> Findings:
    """Return the findings from the answers. `candidates` is empty if the engine refused to list candidates."""
    mode = logprobs_mode(*map(_candidates_in, candidates)) if len(candidates) == 2 else None
    return Findings(capture_chat(plain).masked, mode, _reasoning_field(plain))


def logprobs_mode(cool: Mapping[str, float], warm: Mapping[str, float]) -> LogprobsMode | None:
    """Return the mode, from the candidates' log-probabilities at temperatures 0.5 and 1, or None.

    Temperature divides the difference between two candidates' log-probabilities, so the difference doubles from 1 to
    0.5. Equally likely candidates, or a single one, determine nothing.
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
