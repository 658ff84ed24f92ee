"""Probes an engine for the token data that training needs, and refuses an unsuitable engine.

A probe is three requests of a few tokens. A busy engine is not refused: the probe continues in the background, and
every call is checked anyway.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from typing import Any

from nemo_gym.engines.engine import EngineRefused, UpstreamEngine
from nemo_gym.failures import EngineError, GymError
from nemo_gym.tokens.reasons import MaskReason
from nemo_gym.transport.context import current_context
from responses_api_models.vllm_model.probing import (
    Findings,
    LogprobsMode,
    candidate_requests,
    findings_of,
    plain_request,
)
from responses_api_models.vllm_model.sampling import distortions
from responses_api_models.vllm_model.training import training_request

log = logging.getLogger(__name__)

PROBE_S = 2.5
"""The whole preflight must end within the time that a collector waits for it."""

_REMEDIES: Mapping[MaskReason, str] = {
    MaskReason.MISSING_TOKEN_IDS: "Use vLLM 0.10.2 or later, which supports return_token_ids",
    MaskReason.MISSING_LOGPROBS: "Enable log-probabilities in the engine (vLLM: --max-logprobs at least 1)",
}


class EngineProbe:
    """Probes an engine once and keeps the findings."""

    def __init__(self, engine: UpstreamEngine, limit_field: str, every: Mapping[str, Any]) -> None:
        """`every`: fields of all requests, such as the model's name; `limit_field`: the field with the token limit."""
        self._engine = engine
        self._plain = training_request({**plain_request(limit_field), **every})
        self._candidates = [
            {**training_request(request), "model": every["model"]}
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
            self._findings = findings_of(answer.body, await self._listed())
        except (LookupError, TypeError, AttributeError) as error:
            raise EngineError(
                f"{answer.url} did not return a chat completion: {error!r}",
                code="malformed_answer",
                peer=answer.url,
            ) from error
        return self._findings

    async def _listed(self) -> list[Mapping[str, Any]]:
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
