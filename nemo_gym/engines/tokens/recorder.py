"""The token record of every call of an engine.

The recorder keeps the token ids of open conversations, links each call to the earlier calls, and attaches the call's
record to the last item of its output (or to its message). `docs/tokens.md` describes the format.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

from nemo_gym import clock
from nemo_gym.engines.record.call import current_call
from nemo_gym.engines.tokens.probe import LogprobsMode
from nemo_gym.engines.tokens.training_requests import distortions, read_sampling
from nemo_gym.responses import Dialect, Finish, FinishKind
from nemo_gym.responses.dialects import TRAINING_FIELDS
from nemo_gym.responses.known_beginning import KnownBeginning
from nemo_gym.tokens.capture import Capture, capture_chat
from nemo_gym.tokens.histories import History, digest_history, digest_message, list_reasoning_texts
from nemo_gym.tokens.ids import ID_BYTES, IdSequence
from nemo_gym.tokens.linkage import CallLink, Ledger, exact_reason
from nemo_gym.tokens.reasons import MaskReason, SegmentReason
from nemo_gym.tokens.records import (
    CONTRACT_FIELDS,
    FOR_CONTRACT,
    RECORD_FIELD,
    CallRecord,
    PolicyVersion,
    TokenForm,
)
from nemo_gym.transport.context import current_context
from nemo_gym.transport.ended_sessions import read_ended

__all__ = ["CallRecorder"]

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
    versions: Sequence[tuple[int, PolicyVersion | None]] = ()
    """The first token and the version of each part that another version sampled."""

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
            "versions": self.versions if len(self.versions) > 1 else (),
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
        ledger = self.ledgers.find(session)
        if ledger is not None:
            ledger.turns.add(call.chat["choices"][0]["message"])
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
        if self._form is not TokenForm.CONTRACT or not link.continues_first:
            last[RECORD_FIELD] = record.to_wire(self._form, in_sequence=link.continues_first)
        elif _takes_lists():
            last[RECORD_FIELD] = {**record.to_wire(TokenForm.LISTS), FOR_CONTRACT: True}
        else:
            whole = (capture.prompt_ids, capture.generated_ids, capture.logprobs)
            last.update(zip(CONTRACT_FIELDS, whole, strict=True))
            last[RECORD_FIELD] = record.to_wire(self._form)
        if experts is not None:
            last["routed_experts"] = experts
        return record

    def drop_ended(self) -> None:
        """Drop the sessions that are over by the word of the current request."""
        context = current_context.get()
        if context is not None and context.ended:
            for session in read_ended(context.ended):
                self.ledgers.drop(session)

    def restore_sampled_turns(self, body: dict[str, Any]) -> dict[str, Any]:
        """Put the sampled text of earlier tool calls back into a chat request."""
        ledger = self.ledgers.find(_session())
        if ledger is None:
            return body
        restored = ledger.turns.restore_messages(body["messages"])
        return body if restored == body["messages"] else {**body, "messages": restored}

    def restore_reasoning(self, body: dict[str, Any]) -> dict[str, Any]:
        """Put the reasoning of earlier answers back into a chat request of a client that sends none."""
        ledger = self.ledgers.find(_session())
        if ledger is None:
            return body
        restored = ledger.thoughts.restore_messages(body["messages"], self._dialect)
        return body if restored is body["messages"] else {**body, "messages": restored}

    def remember_reasoning(self, body: Mapping[str, Any], answer: Mapping[str, Any]) -> None:
        """Remember the reasoning of the answer, a chat message, to a chat request for `restore_reasoning`."""
        ledger = self.ledgers.find(_session())
        if ledger is not None:
            ledger.thoughts.add(body["messages"], answer, self._dialect)

    def find_seen_ids(self, body: Mapping[str, Any]) -> IdSequence | None:
        """Return the token ids of the conversation that a request continues verbatim."""
        return self.ledgers.find_continued(_session(), self._digest(body))

    def find_beginning(self) -> KnownBeginning | None:
        """Return the beginning of the session's conversation that needs no conversion."""
        ledger = self.ledgers.find(_session())
        return ledger.beginning if ledger is not None else None

    def _digest(self, body: Mapping[str, Any]) -> History:
        ledger = self.ledgers.find(_session())
        return digest_history(body, self._dialect, ledger.digests if ledger is not None else None)

    def _capture(self, call: EngineCall) -> Capture:
        ledger = self.ledgers.find(_session())
        capture = capture_chat(call.chat) if ledger is None else capture_chat(call.chat, ledger.find_known)
        if capture.masked is None and self._logprobs_mode() is LogprobsMode.RAW and distortions(call.body):
            return Capture(masked=MaskReason.RAW_LOGPROBS)
        return capture

    def _history(self, call: EngineCall) -> History:
        answer = call.chat["choices"][0]["message"]
        return (
            *self._digest(call.body),
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


def _takes_lists() -> bool:
    context = current_context.get()
    return context is not None and context.takes_lists


def _read_routed_experts(chat: Mapping[str, Any]) -> Any:
    choice = chat["choices"][0]
    return choice.get("routed_experts") or choice["message"].get("routed_experts")


# --- Ledgers of sessions ----------------------------------------------------------------------------------------------
# The ledgers of all sessions of a model server, within a memory limit.
# An agent of the gym tells a model server, with a later call, which of its sessions are over. Of other clients, idle
# sessions are dropped after `idle_s`, and above the memory limit the least recently used sessions lose their ids first.


MOST_SESSIONS = 65_536
IDLE_S = 3600.0


@dataclass(slots=True)
class _HeldLedger:
    ledger: Ledger
    touched: float
    counted: int = 0
    """The ids that the ledger held when it was counted last."""


class Ledgers:
    """Ledgers by session. `room_mb` limits the stored ids in megabytes; `idle_s` is in seconds."""

    def __init__(
        self, *, room_mb: float = 1024, idle_s: float = IDLE_S, clock: Callable[[], float] = clock.monotonic
    ) -> None:
        self._most_ids = int(room_mb * 1e6) // ID_BYTES
        self._idle_s = idle_s
        self._clock = clock
        self._sessions: OrderedDict[str, _HeldLedger] = OrderedDict()
        self._ids = 0

    def __len__(self) -> int:
        """Return the number of sessions."""
        return len(self._sessions)

    @property
    def held_ids(self) -> int:
        return self._ids

    def names(self) -> list[str]:
        """Return the sessions, the least recently used first."""
        return [*self._sessions]

    def add(
        self,
        session: str | None,
        capture: Capture,
        history: History | None = None,
        *,
        ends_turn: bool = True,
    ) -> CallLink:
        """Link a call to the earlier calls of its session. A call without a session has no earlier calls."""
        if session is None:
            return Ledger().add(capture, history, ends_turn=ends_turn)
        link = self._touch(session).add(capture, history, ends_turn=ends_turn)
        self._count(self._sessions[session])
        self._make_room(session)
        return link

    def add_masked(self, session: str | None) -> int:
        """Count a call without ids, and return its number in the session."""
        return 0 if session is None else self._touch(session).add_masked()

    def find_continued(self, session: str | None, history: History) -> IdSequence | None:
        """Return the ids of the conversation that a request continues verbatim, or None."""
        return None if session is None else self._touch(session).find_continued(history)

    def find(self, session: str | None) -> Ledger | None:
        """Return the ledger of a session; None without a session."""
        return None if session is None else self._touch(session)

    def drop(self, session: str) -> None:
        """Remove a session."""
        held = self._sessions.pop(session, None)
        if held is not None:
            self._ids -= held.counted

    def _touch(self, session: str) -> Ledger:
        held = self._sessions.get(session)
        if held is None:
            held = self._sessions[session] = _HeldLedger(Ledger(), 0.0)
        held.touched = self._clock()
        self._sessions.move_to_end(session)
        return held.ledger

    def _count(self, held: _HeldLedger) -> None:
        before, held.counted = held.counted, len(held.ledger)
        self._ids += held.counted - before

    def _make_room(self, current: str) -> None:
        limit = self._clock() - self._idle_s
        while (oldest := next(iter(self._sessions))) != current and (
            self._sessions[oldest].touched < limit or len(self._sessions) > MOST_SESSIONS
        ):
            self.drop(oldest)
        while self._ids > self._most_ids and (oldest := next(iter(self._sessions))) != current:
            held = self._sessions[oldest]
            held.ledger.forget()
            self._count(held)
            self._sessions.move_to_end(oldest)  # the next oldest ledger that holds ids comes first
