"""Goes on with a generation that the engine has aborted, such as in a pause for new weights.

The next part is sampled from the ids of the prompt and of all earlier parts, so no token is sampled twice. Ids and
log-probabilities of earlier parts are those of the engine's answers: they belong to the policy that sampled them. The
joined answer is read as one, so that calls of tools and reasoning may span parts.

Some requests cannot go on as if nothing had happened: an engine begins a grammar, a penalty by frequency or presence
and a search for stop strings anew with each request. They are asked again from their beginning, as are calls without
token ids, and calls with tools of engines that cannot parse ids (`/v1/chat/completions/derender`).
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from nemo_gym.engines.engine import EngineAnswer, UpstreamEngine
from nemo_gym.engines.policy import ServedPolicy
from nemo_gym.engines.tokens.completions import ABORTED, is_aborted
from nemo_gym.engines.tokens.exact_prompts import TokenFeeder, TokenInput, build_chat, fit_sampling
from nemo_gym.engines.tokens.training_requests import read_sampling
from nemo_gym.failures import EngineError
from nemo_gym.tokens.capture import capture_chat
from nemo_gym.tokens.records import PolicyVersion

MOST_PARTS = 256
MOST_EMPTY_PARTS = 3
"""Aborts in a row without a new token, after which the call fails."""
_EMPTY_WAIT_S = 0.25

_ANEW = ("presence_penalty", "frequency_penalty", "bad_words", "stop", "grammar")
"""Sampling fields with which an engine cannot go on."""
_UNKNOWN_TO_RECORDS = ("thinking_token_budget", "logits_processors", "prompt_logprobs")


@dataclass(slots=True)
class Parts:
    """The parts of an answer so far."""

    prompt: list[int]
    ids: list[int] = field(default_factory=list)
    logprobs: list[float | None] = field(default_factory=list)
    versions: list[tuple[int, PolicyVersion | None]] = field(default_factory=list)
    """The first token and the version of each part that another version has sampled."""

    def add(
        self, ids: Sequence[int], logprobs: Sequence[float | None], version: PolicyVersion | None
    ) -> None:
        if ids and (not self.versions or self.versions[-1][1] != version):
            self.versions.append((len(self.ids), version))
        self.ids += ids
        self.logprobs += logprobs


class Finished(NamedTuple):
    """An answer that was not aborted."""

    answer: EngineAnswer
    began_with: PolicyVersion | None
    versions: Sequence[tuple[int, PolicyVersion | None]] = ()
    """Those of its parts, if there are several."""


def can_continue(body: Mapping[str, Any]) -> bool:
    """Return whether a generation that goes on is distributed as one that was never aborted."""
    sampling = read_sampling(body)
    return not any(sampling.get(name) for name in _ANEW) and not any(
        body.get(name) for name in _UNKNOWN_TO_RECORDS
    )


class Continuation:
    """Finishes the calls of a model server whose generations were aborted."""

    def __init__(
        self,
        engine: UpstreamEngine,
        policy: ServedPolicy,
        feeder: TokenFeeder | None,
        *,
        limit_field: str,
        take_notes: Callable[[Iterable[str]], None],
    ) -> None:
        """Without a `feeder`, which knows how an engine accepts ids, calls are asked again."""
        self._engine = engine
        self._policy = policy
        self._feeder = feeder
        self._limit_field = limit_field
        self._take_notes = take_notes

    async def finish(
        self,
        body: Mapping[str, Any],
        answer: EngineAnswer,
        began_with: PolicyVersion | None,
        ask: Callable[[], Awaitable[EngineAnswer]],
    ) -> Finished:
        """Return the whole answer to a request. `ask` asks it from its beginning.

        Raises `EngineError` if the engine aborts it again and again, and the errors of `UpstreamEngine.post`.
        """
        parts = await self._read_first(body, answer, began_with)
        empty = 0
        for _ in range(MOST_PARTS):
            await self._policy.work(self._policy.gate.wait())  # it may be dropped meanwhile
            version, had = self._policy.version, len(parts.ids) if parts is not None else 0
            if parts is None:
                self._take_notes(["restarted_generation"])
                answer = await self._policy.work(ask())
                if not is_aborted(answer.body):
                    return Finished(answer, version)
                parts = await self._read_first(body, answer, version)
            else:
                self._take_notes(["continued_generation"])
                whole = await self._policy.work(self._go_on(body, parts, version))
                if whole is not None:
                    whole["id"] = answer.body.get("id", whole["id"])
                    return Finished(answer._replace(body=whole), parts.versions[0][1], parts.versions)
            empty = 0 if parts is not None and len(parts.ids) > had else empty + 1
            if empty >= MOST_EMPTY_PARTS:
                break
            await asyncio.sleep(_EMPTY_WAIT_S * empty)
        raise EngineError(
            "the engine aborted the generation again and again",
            code="engine_abort",
            retryable=True,
            peer=answer.url,
        )

    async def _read_first(
        self, body: Mapping[str, Any], answer: EngineAnswer, version: PolicyVersion | None
    ) -> Parts | None:
        """Return the first part of an answer; None if it cannot go on, or has no token."""
        if self._feeder is None or not can_continue(body):
            return None
        await self._feeder.detect()
        if body.get("tools") and not self._feeder.derenders:
            return None
        capture = capture_chat(answer.body)
        if capture.masked is not None or not capture.generated_ids:
            return None
        parts = Parts(capture.prompt_ids)
        parts.add(capture.generated_ids, capture.logprobs, version)
        return parts

    async def _go_on(
        self, body: Mapping[str, Any], parts: Parts, version: PolicyVersion | None
    ) -> dict[str, Any] | None:
        """Add the next part. Returns the whole chat completion; None if it was aborted, too."""
        assert self._feeder is not None
        if await self._feeder.detect() is TokenInput.GENERATE:
            choice = await self._feeder.generate_more(body, parts.prompt, parts.ids)
        else:
            choice = await self._complete_more(body, parts)
        entries = (choice.get("logprobs") or {}).get("content") or []
        parts.add(choice.get("token_ids") or [], [entry.get("logprob") for entry in entries], version)
        if choice.get("finish_reason") == ABORTED:
            return None
        content = [
            {"token_id": token, "logprob": logprob}
            for token, logprob in zip(parts.ids, parts.logprobs, strict=False)
        ]
        whole = {**choice, "token_ids": parts.ids, "logprobs": {"content": content}}
        generated = {"request_id": "continued", "choices": [whole]}
        message = await self._feeder.read_message(body, parts.prompt, generated)
        return build_chat(message, body, parts.prompt, generated)

    async def _complete_more(self, body: Mapping[str, Any], parts: Parts) -> dict[str, Any]:
        """Return the next part as a choice of `/inference/v1/generate`, from `/v1/completions`."""
        limit = body.get(self._limit_field)
        sampling = fit_sampling({**read_sampling(body), "max_tokens": limit}, len(parts.ids))
        if sampling is None:
            return {"finish_reason": "length"}
        request = {
            **{name: value for name, value in sampling.items() if name != "max_completion_tokens"},
            "model": body.get("model"),
            "prompt": [*parts.prompt, *parts.ids],
            "logprobs": 0,
            "return_token_ids": True,
        }
        choice = (await self._engine.post("/completions", request)).body["choices"][0]
        told = choice.get("logprobs") or {}
        content = [{"logprob": each} for each in told.get("token_logprobs") or []]
        return {**choice, "logprobs": {"content": content}}
