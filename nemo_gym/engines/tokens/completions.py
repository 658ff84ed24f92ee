"""Chat completions of an engine: within its context, at a version of the policy, and for exact token ids.

Every call of a model server that can have token ids passes `ChatCompletions.answer`, whichever API its agent uses. The
record of the call is made of the same `Completion` by `ChatCompletions.record`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeAlias

import orjson

from nemo_gym.engines.engine import EngineAnswer, EngineRefused, UpstreamEngine
from nemo_gym.engines.policy import ServedPolicy
from nemo_gym.engines.record.tape import current_tape
from nemo_gym.engines.tokens.exact_prompts import TokenFeeder
from nemo_gym.engines.tokens.recorder import CallRecorder, EngineCall, notes_on
from nemo_gym.responses import Finish, OverflowKind
from nemo_gym.tokens.light_parsing import parse_lightly
from nemo_gym.tokens.reasons import DRIFT
from nemo_gym.tokens.records import RECORD_FIELD, CallRecord, PolicyVersion, TokenForm

if TYPE_CHECKING:
    from nemo_gym.engines.tokens.continuation import Continuation, Finished

__all__ = ["LIMITS", "ChatCompletions", "Completion"]

OnAbort: TypeAlias = Literal["continue", "retry", "fail"]
"""The treatment of a call whose generation was aborted."""
ABORTED = "abort"
"""The `finish_reason` of an aborted generation."""

LIMITS = ("max_completion_tokens", "max_tokens", "max_output_tokens")
"""The names of the token limit of an answer."""


class Completion(NamedTuple):
    """An engine's chat completion."""

    chat: dict[str, Any]
    url: str
    """The base URL of the replica."""
    max_tokens: int | None
    """The effective token limit of the answer, if known."""
    body: dict[str, Any]
    """The request that was sent to the engine."""
    began_with: PolicyVersion | None
    """The policy's version at the time of the request."""
    versions: Sequence[tuple[int, PolicyVersion | None]] = ()
    """The first token and the version of each part of an answer that was aborted and went on."""


def is_aborted(chat: Mapping[str, Any]) -> bool:
    """Return whether the generation of a chat completion was aborted."""
    try:
        aborted: bool = chat["choices"][0]["finish_reason"] == ABORTED
        return aborted
    except (LookupError, TypeError):  # an answer of another form
        return False


class ChatCompletions:
    """Asks an engine for chat completions."""

    def __init__(
        self,
        engine: UpstreamEngine,
        policy: ServedPolicy,
        *,
        model: str,
        limit_field: str,
        min_new_tokens: int,
        hides_overflow: bool,
        recorder: CallRecorder | None,
        feeder: TokenFeeder | None,
        take_notes: Callable[[Iterable[str]], None],
        on_abort: OnAbort,
    ) -> None:
        """`limit_field` is the engine's name of the token limit. Without a `recorder`, records have no token ids.

        The limit of a request is lowered to the rest of the context if that is at least `min_new_tokens`. With
        `hides_overflow`, the answer to a prompt that is too long is empty instead of an error.
        """
        self._engine = engine
        self._policy = policy
        self._model = model
        self._limit_field = limit_field
        self._min_new_tokens = min_new_tokens
        self._hides_overflow = hides_overflow
        self._recorder = recorder
        self._feeder = feeder
        self._take_notes = take_notes
        self._on_abort = on_abort
        self._continuation: Continuation | None = None
        self.context_length: int | None = None
        """The engine's context in tokens, if known."""

    async def answer(self, body: dict[str, Any]) -> Completion:
        """Return the engine's answer; the limit of `body` is lowered if it exceeds the context.

        Raises the errors of `UpstreamEngine.post`.
        """
        if self._policy.gate.is_closed:
            await self._policy.gate.wait()
        began_with, answer = self._policy.version, None
        versions: Sequence[tuple[int, PolicyVersion | None]] = ()
        try:
            try:
                answer = await self._policy.work(self._ask(body))
            except EngineRefused as refused:
                body = self._shorten(body, refused)
            if answer is None:
                answer = await self._policy.work(self._ask(body))
            if self._on_abort != "fail" and is_aborted(answer.body):
                answer, began_with, versions = await self._finish(body, answer, began_with)
        except EngineRefused as refused:
            if refused.overflow is None or not self._hides_overflow:
                raise
            self._take_notes(["hidden_overflow"])
            return self.build_empty(body, "length", began_with)
        limit = self._compute_limit(body, answer.body)
        return Completion(answer.body, answer.url, limit, body, began_with, versions)

    async def _finish(
        self, body: dict[str, Any], answer: EngineAnswer, began_with: PolicyVersion | None
    ) -> Finished:
        """Return the whole answer of an aborted generation."""
        if self._continuation is None:
            from nemo_gym.engines.tokens.continuation import Continuation

            has_ids = self._recorder is not None and self._on_abort == "continue"
            self._continuation = Continuation(
                self._engine,
                self._policy,
                (self._feeder or TokenFeeder(self._engine)) if has_ids else None,
                limit_field=self._limit_field,
                take_notes=self._take_notes,
            )
        return await self._continuation.finish(body, answer, began_with, partial(self._ask, body))

    def build_empty(
        self, body: dict[str, Any], finish_reason: str, began_with: PolicyVersion | None
    ) -> Completion:
        """Return a completion without text, for a request that the engine does not answer."""
        chat = _build_empty_chat(finish_reason, self._model)
        return Completion(chat, self._engine.urls[0], self._compute_limit(body, chat), body, began_with)

    async def record(self, completion: Completion, finish: Finish, last: dict[str, Any]) -> None:
        """Attach the call's record to `last`, its last output item or its message."""
        chat, _, _, body, began_with, versions = completion
        ended_with, tape = self._policy.version, current_tape.get()
        if tape is not None:
            began_with, ended_with = tape.settle_versions(began_with, ended_with)
            versions = tape.settle_parts(versions)
        call = EngineCall(body, chat, finish, began_with, ended_with, versions)
        if self._recorder is not None:
            record = await self._recorder.record(call, last)
            self._take_notes(notes_on(record))
            if self._feeder is not None and record.reason in DRIFT:
                self._feeder.note_drift()
        elif call.ended_with is not None:
            last[RECORD_FIELD] = CallRecord(**call.about).to_wire(TokenForm.PACKED)

    async def _ask(self, body: dict[str, Any]) -> EngineAnswer:
        """Return the engine's chat completion, for exact token ids if the engine accepts them."""
        if self._recorder is not None and self._feeder is not None and await self._feeder.is_possible():
            seen = self._recorder.find_seen_ids(body)
            answer = await self._feeder.answer(body, seen) if seen is not None else None
            if answer is not None:
                return answer
        parse = orjson.loads if self._recorder is None else _parse_lightly
        return await self._engine.post("/chat/completions", body, parse=parse)

    def _shorten(self, body: dict[str, Any], refused: EngineRefused) -> dict[str, Any]:
        """Lower the token limit of `body` to the rest of the context. Raises `refused` if that cannot help."""
        overflow = refused.overflow
        if overflow is None:
            raise refused
        self.context_length = overflow.limit or self.context_length
        too_little = overflow.room is not None and overflow.room < self._min_new_tokens
        if overflow.kind is not OverflowKind.BUDGET or overflow.limit is None or too_little:
            raise refused
        self._take_notes(["shortened_budget"])
        shortened = {name: value for name, value in body.items() if name not in LIMITS}
        if overflow.room is not None:
            shortened[self._limit_field] = overflow.room
        return shortened  # without a limit, the engine uses the rest of the context

    def _compute_limit(self, body: Mapping[str, Any], answer: Mapping[str, Any]) -> int | None:
        asked: int | None = body.get(self._limit_field)
        usage = answer.get("usage")
        prompt = usage.get("prompt_tokens") if isinstance(usage, Mapping) else None
        if self.context_length is None or type(prompt) is not int:
            return asked
        left = self.context_length - prompt
        return left if asked is None else min(asked, left)


def _parse_lightly(body: bytes) -> Any:
    """Parse a chat completion, with the ids of its prompt as text."""
    return parse_lightly(body, _list_holders)


def _list_holders(chat: dict[str, Any]) -> Iterable[dict[str, Any]]:
    """Return the objects of a chat completion that may have the ids of its prompt."""
    (choice,) = chat["choices"]
    return chat, choice, choice["message"]


def _build_empty_chat(finish_reason: str, model: str) -> dict[str, Any]:
    message = {"role": "assistant", "content": ""}
    choice = {"index": 0, "message": message, "finish_reason": finish_reason}
    return {
        "id": "chatcmpl-empty",
        "object": "chat.completion",
        "created": 0,
        "model": model,
        "choices": [choice],
        "usage": {"prompt_tokens": 0, "completion_tokens": 0, "total_tokens": 0},
    }
