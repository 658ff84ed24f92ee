"""Probes an engine for what training needs of it, and refuses one that can't give it.

Probing costs three requests of a few tokens. An engine that is too busy to answer at once isn't refused: probing goes
on in the background, and what the engine gives is checked call by call in any case.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from typing import Any

from nemo_gym.engines.engine import Engine, EngineRefused
from nemo_gym.failures import EngineError, GymError
from nemo_gym.tokens.probing import Findings, LogprobsMode, candidate_requests, findings_of, plain_request
from nemo_gym.tokens.reasons import MaskReason
from nemo_gym.tokens.sampling import distortions
from nemo_gym.transport.context import current_context
from responses_api_models.vllm_model.training import training_request

log = logging.getLogger(__name__)

PROBE_S = 2.5
"""Together with the rest of a preflight, less than a collector waits for it."""

_REMEDIES: Mapping[MaskReason, str] = {
    MaskReason.MISSING_TOKEN_IDS: "Use vLLM 0.10.2 or later, which knows return_token_ids",
    MaskReason.MISSING_LOGPROBS: "Have the engine give log-probabilities (vLLM: --max-logprobs at least 1)",
}


class EngineProbe:
    """Asks an engine once, and knows what it showed."""

    def __init__(self, engine: Engine, limit_field: str, every: Mapping[str, Any]) -> None:
        """`every` is what all requests say, such as the model's name; `limit_field` bounds an answer's tokens."""
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
        """The mode of the engine's log-probabilities, where it is known."""
        return self._findings.logprobs_mode if self._findings is not None else None

    async def findings(self) -> Findings | None:
        """What the engine showed; None when it has no time at the moment. Raises `GymError` when it fails."""
        if self._findings is not None:
            return self._findings
        if self._asking is None or self._asking.done():
            self._asking = asyncio.create_task(self._ask())
        done, _ = await asyncio.wait({self._asking}, timeout=PROBE_S)
        if done:
            return self._asking.result()
        log.warning(
            "%s has been busy for %g s; it is probed as soon as it answers", self._engine.urls[0], PROBE_S
        )
        self._asking.add_done_callback(_log_failure)
        return None

    def stop(self) -> None:
        if self._asking is not None:
            self._asking.cancel()

    async def _ask(self) -> Findings:
        current_context.set(None)  # neither the session nor the deadline of whoever asked first
        answer = await self._engine.post("/chat/completions", self._plain)
        try:
            self._findings = findings_of(answer.body, await self._listed())
        except (LookupError, TypeError, AttributeError) as error:
            raise EngineError(
                f"{answer.url} gave no chat completion: {error!r}", code="malformed_answer", peer=answer.url
            ) from error
        return self._findings

    async def _listed(self) -> list[Mapping[str, Any]]:
        try:
            return [
                (await self._engine.post("/chat/completions", request)).body for request in self._candidates
            ]
        except EngineRefused as refused:
            told = refused.failure.message
            log.warning(
                "%s lists no candidates, so the mode of its logprobs is unknown: %s",
                self._engine.urls[0],
                told,
            )
            return []


def _log_failure(asking: asyncio.Task[Findings]) -> None:
    error = None if asking.cancelled() else asking.exception()
    if isinstance(error, GymError):
        log.warning("probing failed: %s", error)


def check_trainable(findings: Findings, pinned: Mapping[str, Any], peer: str) -> None:
    """Raises `EngineError` for an engine whose tokens can't be trained on; `pinned` is what every request says."""
    if findings.masked is not None:
        remedy = _REMEDIES.get(
            findings.masked, "Look at the engine's answer to a request with return_token_ids"
        )
        raise _untrainable(
            f"{peer} gives nothing to train on: {findings.masked.replace('_', ' ')}", remedy, peer
        )
    distorting = distortions(pinned)
    if findings.logprobs_mode is LogprobsMode.RAW and distorting:
        raise _untrainable(
            f"{peer} gives log-probabilities from before {', '.join(distorting)} is applied, and every request sets "
            "that: importance ratios would be wrong",
            "Start vLLM with --logprobs-mode processed_logprobs, or leave that out",
            peer,
        )


def _untrainable(message: str, remedy: str, peer: str) -> EngineError:
    return EngineError(
        message,
        code="untrainable_engine",
        peer=peer,
        remedy=f"{remedy}; or set return_token_id_information to false.",
    )
