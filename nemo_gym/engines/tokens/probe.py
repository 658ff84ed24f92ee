"""Probes an engine for the token data that training needs, and refuses an unsuitable engine.

The first of three small requests asks for ids and log-probabilities, as every training call does. The other two ask for
the most likely candidates for the first token at two temperatures. If both answers have the same log-probabilities, the
engine reports values from before sampling (`raw`) and not those of the sampled distribution (`processed`).

A busy engine is not refused: the probe continues in the background, and every call is checked anyway.
"""

from __future__ import annotations

import asyncio
import logging
import math
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from nemo_gym.engines.engine import EngineRefused, UpstreamEngine
from nemo_gym.engines.tokens.training_requests import build_training_request, distortions
from nemo_gym.failures import EngineError, GymError
from nemo_gym.tokens.capture import LOWEST_LOGPROB, capture_chat
from nemo_gym.tokens.reasons import MaskReason
from nemo_gym.transport.context import current_context

log = logging.getLogger(__name__)

PROBE_S = 2.5
"""The whole preflight must end within the time that a collector waits for it."""

_REMEDIES: Mapping[MaskReason, str] = {
    MaskReason.MISSING_TOKEN_IDS: "Use vLLM 0.10.2 or later, which supports return_token_ids",
    MaskReason.MISSING_LOGPROBS: "Enable log-probabilities in the engine (vLLM: --max-logprobs at least 1)",
}
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


class EngineProbe:
    """Probes an engine once and keeps the findings."""

    def __init__(self, engine: UpstreamEngine, limit_field: str, every: Mapping[str, Any]) -> None:
        """`every`: fields of all requests, such as the model's name; `limit_field`: the field with the token limit."""
        self._engine = engine
        self._plain = build_training_request({**plain_request(limit_field), **every})
        self._candidates = [
            {**build_training_request(request), "model": every["model"]}
            for request in candidate_requests(limit_field)
        ]
        self._asking: asyncio.Task[Findings] | None = None
        self._findings: Findings | None = None

    @property
    def logprobs_mode(self) -> LogprobsMode | None:
        """The mode of the engine's log-probabilities, if known."""
        return self._findings.logprobs_mode if self._findings is not None else None

    async def findings(self) -> Findings | None:
        """Return the findings; None while the engine is busy. Raises `GymError` if the probe fails."""
        if self._findings is not None:
            return self._findings
        if self._asking is None or self._asking.done():
            self._asking = asyncio.create_task(self._ask())
        done, _ = await asyncio.wait({self._asking}, timeout=PROBE_S)
        if done:
            return self._asking.result()
        log.warning(
            "%s has been busy for %g s; the probe continues in the background", self._engine.urls[0], PROBE_S
        )
        self._asking.add_done_callback(_log_failure)
        return None

    def stop(self) -> None:
        if self._asking is not None:
            self._asking.cancel()

    async def _ask(self) -> Findings:
        current_context.set(None)  # without the session and the deadline of the first request
        answer = await self._engine.post("/chat/completions", self._plain)
        try:
            self._findings = build_findings(answer.body, await self._request_candidates())
        except (LookupError, TypeError, AttributeError) as error:
            raise EngineError(
                f"{answer.url} did not return a chat completion: {error!r}",
                code="malformed_answer",
                peer=answer.url,
            ) from error
        return self._findings

    async def _request_candidates(self) -> list[Mapping[str, Any]]:
        try:
            return [
                (await self._engine.post("/chat/completions", request)).body for request in self._candidates
            ]
        except EngineRefused as refused:
            log.warning(
                "%s returns no top log-probabilities, so the mode of its log-probabilities is unknown: %s",
                self._engine.urls[0],
                refused.failure.message,
            )
            return []


def _log_failure(asking: asyncio.Task[Findings]) -> None:
    error = None if asking.cancelled() else asking.exception()
    if isinstance(error, GymError):
        log.warning("probing failed: %s", error)


def check_trainable(findings: Findings, pinned: Mapping[str, Any], peer: str) -> None:
    """Raise `EngineError` for token data that is unusable for training. `pinned`: fields of every request."""
    if findings.masked is not None:
        remedy = _REMEDIES.get(
            findings.masked, "Check the engine's answer to a request with return_token_ids"
        )
        raise _untrainable(
            f"{peer} returns no usable token data: {findings.masked.replace('_', ' ')}", remedy, peer
        )
    distorting = distortions(pinned)
    if findings.logprobs_mode is LogprobsMode.RAW and distorting:
        raise _untrainable(
            f"{peer} computes log-probabilities before it applies {', '.join(distorting)}, which every request sets: "
            "importance ratios would be wrong",
            "Start vLLM with --logprobs-mode processed_logprobs, or remove these fields",
            peer,
        )


def _untrainable(message: str, remedy: str, peer: str) -> EngineError:
    return EngineError(
        message,
        code="untrainable_engine",
        peer=peer,
        remedy=f"{remedy}; or set return_token_id_information to false.",
    )


def plain_request(limit_field: str) -> dict[str, Any]:
    """Return a short request; the caller adds the fields of training requests."""
    return {"messages": _MESSAGES, limit_field: _FEW_TOKENS, "seed": 0}


def candidate_requests(limit_field: str) -> list[dict[str, Any]]:
    """Return the two requests, which differ only in temperature."""
    common = {"messages": _MESSAGES, limit_field: 1, "seed": 0, "logprobs": True, "top_logprobs": _CANDIDATES}
    return [{**common, "temperature": temperature} for temperature in (_COOL, _WARM)]


def build_findings(plain: Mapping[str, Any], candidates: list[Mapping[str, Any]]) -> Findings:
    """Return the findings from the answers. `candidates` is empty if the engine refused to list candidates."""
    mode = logprobs_mode(*map(_candidates_in, candidates)) if len(candidates) == 2 else None
    return Findings(capture_chat(plain).masked, mode, _find_reasoning_field(plain))


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


def _find_reasoning_field(chat: Mapping[str, Any]) -> str | None:
    message = chat["choices"][0].get("message") or {}
    named = next((name for name in ("reasoning", "reasoning_content") if name in message), None)
    content = message.get("content")
    return "inline" if isinstance(content, str) and content.lstrip().startswith("<think>") else named
