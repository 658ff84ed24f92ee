"""The token record of every call of an engine.

The recorder keeps the token ids of open conversations, links each call to the earlier calls, and attaches the call's
record to the last item of its output (or to its message). `docs/tokens.md` describes the format.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

from nemo_gym.engines.record.call import current_call
from nemo_gym.engines.tokens.ledgers import Ledgers
from nemo_gym.engines.tokens.probe import LogprobsMode
from nemo_gym.engines.tokens.training_requests import distortions, read_sampling
from nemo_gym.responses import Dialect, Finish, FinishKind
from nemo_gym.responses.dialects import TRAINING_FIELDS
from nemo_gym.tokens.capture import Capture, capture_chat
from nemo_gym.tokens.histories import History, digest_history, digest_message, list_reasoning_texts
from nemo_gym.tokens.ids import IdSequence
from nemo_gym.tokens.linkage import CallLink, exact_reason
from nemo_gym.tokens.reasons import MaskReason, SegmentReason
from nemo_gym.tokens.records import CONTRACT_FIELDS, RECORD_FIELD, CallRecord, PolicyVersion, TokenForm
from nemo_gym.transport.context import current_context

TextOf: TypeAlias = Callable[[Sequence[int]], Awaitable[str | None]]
"""Converts token ids to text; None if the engine cannot."""


@dataclass(frozen=True, slots=True)
class EngineCall:
    """A completed call of the engine."""

    body: Mapping[str, Any]
    """The request that was sent to the engine."""
    chat: Mapping[str, Any]
    finish: Finish
    began_with: PolicyVersion | None = None
    ended_with: PolicyVersion | None = None

    @property
    def ends_turn(self) -> bool:
        """True if the last generated token ends the turn."""
        finish = self.finish
        return finish.kind in (FinishKind.COMPLETE, FinishKind.TOOL) and not isinstance(
            finish.stop_reason, str
        )

    @property
    def about(self) -> dict[str, Any]:
        """The fields that every record has."""
        ended_with = None if self.ended_with == self.began_with else self.ended_with
        return {
            "sampling": read_sampling(self.body),
            "finish": self.finish.kind.value,
            "stop": self.finish.stop_reason,
            "policy_version": self.began_with,
            "policy_version_end": ended_with,
        }


class CallRecorder:
    """Creates the records of calls."""

    def __init__(
        self,
        form: TokenForm,
        dialect: Dialect,
        *,
        room_mb: float,
        text_of: TextOf,
        logprobs_mode: Callable[[], LogprobsMode | None],
    ) -> None:
        """`logprobs_mode` returns None until the mode is known."""
        self._form = form
        self._dialect = dialect
        self._text_of = text_of
        self._logprobs_mode = logprobs_mode
        self.ledgers = Ledgers(room_mb=room_mb)

    async def record(self, call: EngineCall, last: dict[str, Any]) -> CallRecord:
        """Attach the record of a call to `last`, its last output item or its message."""
        session, experts, capture = _session(), _read_routed_experts(call.chat), self._capture(call)
        self.ledgers.find_turns(session).add(call.chat["choices"][0]["message"])
        for name in TRAINING_FIELDS:  # the engine's own fields of the same names
            last.pop(name, None)
        kept = current_call.get()
        if kept is not None and not kept.keeps_tokens:
            kept = None
        if capture.masked is not None:
            number = self.ledgers.add_masked(session)
            record = CallRecord(call=number, masked=capture.masked, **call.about)
            if kept is not None:
                kept.tokens = record
            else:
                last[RECORD_FIELD] = record.to_wire(self._form)
            return record
        link = self.ledgers.add(session, capture, self._history(call), ends_turn=call.ends_turn)
        link = await self._refine_reason(link, call)
        if kept is not None:
            kept.tokens = CallRecord.from_capture(capture, link.for_record, **call.about)
            return kept.tokens
        record = CallRecord.from_capture(capture, link, **call.about)
        if self._form is TokenForm.CONTRACT and link.continues_first:
            whole = (capture.prompt_ids, capture.generated_ids, capture.logprobs)
            last.update(zip(CONTRACT_FIELDS, whole, strict=True))
        last[RECORD_FIELD] = record.to_wire(self._form, in_sequence=link.continues_first)
        if experts is not None:
            last["routed_experts"] = experts
        return record

    def restore_sampled_turns(self, body: dict[str, Any]) -> dict[str, Any]:
        """Put the sampled text of earlier tool calls back into a chat request."""
        restored = self.ledgers.find_turns(_session()).restore_messages(body["messages"])
        return body if restored == body["messages"] else {**body, "messages": restored}

    def find_seen_ids(self, body: Mapping[str, Any]) -> IdSequence | None:
        """Return the token ids of the conversation that a request continues verbatim."""
        return self.ledgers.find_continued(_session(), digest_history(body, self._dialect))

    def _capture(self, call: EngineCall) -> Capture:
        capture = capture_chat(call.chat)
        if capture.masked is None and self._logprobs_mode() is LogprobsMode.RAW and distortions(call.body):
            return Capture(masked=MaskReason.RAW_LOGPROBS)
        return capture

    def _history(self, call: EngineCall) -> History:
        answer = call.chat["choices"][0]["message"]
        return (
            *digest_history(call.body, self._dialect),
            digest_message({"role": "assistant", **answer}, self._dialect),
        )

    async def _refine_reason(self, link: CallLink, call: EngineCall) -> CallLink:
        """Refine the reason of `link` by comparing texts, if the messages alone do not decide it."""
        if link.divergence is None or link.reason is not SegmentReason.TEMPLATE_REWRITE:
            return link
        seen, prompt = await self._text_of(link.divergence.seen), await self._text_of(link.divergence.prompt)
        if seen is None or prompt is None:
            return link
        thoughts = list_reasoning_texts(call.body["messages"], self._dialect)
        return replace(link, reason=exact_reason(seen, prompt, thoughts))


def notes_on(record: CallRecord) -> Iterable[str]:
    """Yield the codes that a server counts for a call."""
    if record.masked is not None:
        yield f"masked_{record.masked}"
    if record.reason is not None:
        yield f"segment_{record.reason}"


def _session() -> str | None:
    context = current_context.get()
    return context.session if context is not None else None


def _read_routed_experts(chat: Mapping[str, Any]) -> Any:
    choice = chat["choices"][0]
    return choice.get("routed_experts") or choice["message"].get("routed_experts")
