"""The layer of a model server that records the calls of durable attempts, and replays recorded ones.

It is the innermost layer: streams and the gateway are around it, so every API, every agent and every stream passes here
in one form. A record that cannot be written ends the durability of its attempt, and the answer goes out all the same.
"""

from __future__ import annotations

import asyncio
import logging
from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import orjson
from starlette.types import ASGIApp, Receive, Scope, Send

from nemo_gym import clock
from nemo_gym.engines.attempts.matching import Mismatch
from nemo_gym.engines.attempts.record import AttemptWriter, RecordedCall, is_afresh, read_attempt
from nemo_gym.engines.attempts.replay import STALE, Replay, ReplayedCall, build_mismatch_failure
from nemo_gym.engines.gateway.requests import MARKER, drop_markers
from nemo_gym.engines.record.call import DIALECTS, REPLAYED_MARK
from nemo_gym.engines.record.deltas import RequestIndex, RequestParts
from nemo_gym.engines.record.tape import MISMATCH, EngineTape, current_tape
from nemo_gym.failures import GymError
from nemo_gym.serving.durable.plans import read_plan
from nemo_gym.serving.durable.runs import Durability, DurableAttempt, DurableRun, find_attempt
from nemo_gym.serving.routes import parse_object
from nemo_gym.transport.calls import Reply
from nemo_gym.transport.context import CALL_HEADER, VERIFYING, current_context
from nemo_gym.transport.memory import ReplyCollector
from nemo_gym.transport.request_body import WholeBody
from nemo_gym.transport.whole_response import RawHeaders, send_reply

log = logging.getLogger(__name__)

_MOST_OPEN = 1024
"""Attempts whose state is in memory; that of an older one is read again with its next call."""
_CALL = CALL_HEADER.encode()
_JSON: RawHeaders = [(b"content-type", b"application/json")]
_MARKED: Final = MARKER.encode()
_RETRIED = frozenset({408, 409, 425, 429})


@dataclass(slots=True)
class OpenAttempt:
    """An attempt that makes calls."""

    found: DurableAttempt
    writer: AttemptWriter
    replay: Replay | None = None
    index: RequestIndex = field(default_factory=RequestIndex)
    answered: set[str] = field(default_factory=set)
    """The ids that clients gave to answered calls."""
    refusal: GymError | None = None
    """The mismatch after which no call is answered."""
    is_recorded: bool = True
    """False after a line could not be written."""


class AttemptCalls:
    """A layer of the app (`GymApp.layers`)."""

    def __init__(self, server: str, process: str) -> None:
        """`process` names this process among those of the server that write to one record."""
        self.runs: dict[str, DurableRun] = {}
        self._server = server
        self._process = process
        self._incarnation = clock.hex_id()[:12]
        self._attempts: OrderedDict[str, OpenAttempt] = OrderedDict()

    async def __call__(self, handler: ASGIApp, scope: Scope, receive: Receive, send: Send) -> None:
        context = current_context.get()
        if scope["path"] not in DIALECTS or context is None or not isinstance(receive, WholeBody):
            await handler(scope, receive, send)
            return
        attempt = self._attempts.get(context.session) or await self._open(context.session)
        sent = dict(scope["headers"]).get(_CALL, b"").decode("latin-1") if attempt is not None else ""
        if attempt is None or sent == VERIFYING:
            await handler(scope, receive, send)
            return
        self._attempts.move_to_end(context.session)
        await send_reply(send, await self._answer(attempt, handler, scope, receive, sent))

    def forget(self, run: str) -> None:
        """Forget a run that has ended."""
        self.runs.pop(run, None)
        for session in [name for name, attempt in self._attempts.items() if attempt.found.name.run == run]:
            del self._attempts[session]

    async def _open(self, session: str) -> OpenAttempt | None:
        """Return the state of a durable attempt that makes its first call here; None for another session."""
        found = find_attempt(session, self.runs)
        if found is None:
            return None
        is_new = is_afresh(found.folder)
        writer = AttemptWriter(found.folder, self._process, self._incarnation, is_new=is_new)
        attempt = OpenAttempt(found, writer)
        if not is_new:  # it replays another one, or this process began later
            await asyncio.to_thread(_restore, attempt, Path(found.folder), self._server)
        attempt = self._attempts.setdefault(session, attempt)
        while len(self._attempts) > _MOST_OPEN:
            self._attempts.popitem(last=False)
        return attempt

    async def _answer(
        self, attempt: OpenAttempt, handler: ASGIApp, scope: Scope, receive: WholeBody, sent: str
    ) -> Reply:
        api = DIALECTS[scope["path"]]
        if receive.value is None:
            receive.value = parse_object(receive.body)
        if attempt.refusal is not None:
            raise attempt.refusal
        if sent in attempt.answered and (known := await self._find_answered(attempt, sent)) is not None:
            tape = EngineTape(known.replies, known.versions, parts=known.parts)
            return await _give(handler, scope, receive, tape, known)
        plain = drop_markers(receive.value) if _MARKED in receive.body else receive.value
        planned = self._replay(attempt, api, plain) if attempt.replay is not None else None
        if planned is not None and planned.recorded is not None:
            scope[REPLAYED_MARK] = True
        if planned is not None and planned.body is not plain:
            plain = dict(planned.body)
            receive = WholeBody(orjson.dumps(plain), receive, plain)
        call = f"call_{clock.hex_id()}"
        self._begin(attempt, call, sent, RequestParts.from_body(api, plain))
        tape = planned.tape if planned is not None else EngineTape()
        try:
            reply = await _give(handler, scope, receive, tape, planned.recorded if planned else None)
        except BaseException as error:
            self._note_error(attempt, call, error, tape, planned)
            raise
        self._record(attempt, call, sent, reply, tape, planned)
        if attempt.found.run.durability is Durability.NODE and attempt.is_recorded:
            await asyncio.to_thread(self._append, attempt, attempt.writer.flush)
        return reply

    def _begin(self, attempt: OpenAttempt, call: str, sent: str, parts: RequestParts) -> None:
        """Append the request of a call."""
        line = {
            "server": self._server,
            "dialect": parts.digests.api,
            "sent": sent,
            "started_at": clock.wall_clock(),
            "request": attempt.index.build_delta(parts),
        }
        self._append(attempt, attempt.writer.begin, call, line)
        attempt.index.keep(call, parts.digests)

    def _replay(self, attempt: OpenAttempt, api: str, body: Mapping[str, Any]) -> ReplayedCall:
        """Return how a call of a replay is answered. Raises `EngineError` if it is not what was recorded."""
        assert attempt.replay is not None
        try:
            return attempt.replay.answer(api, body)
        except Mismatch as mismatch:
            attempt.refusal = build_mismatch_failure(str(mismatch))
            self._append(attempt, attempt.writer.note_mismatch, {"text": str(mismatch), **mismatch.to_json()})
            raise attempt.refusal from mismatch

    def _record(
        self,
        attempt: OpenAttempt,
        call: str,
        sent: str,
        reply: Reply,
        tape: EngineTape,
        planned: ReplayedCall | None,
    ) -> None:
        """Append the outcome of a call, which its client gets afterwards."""
        if reply.status >= 500 or reply.status in _RETRIED:
            self._append(attempt, attempt.writer.end, call, {"error": f"http_{reply.status}"})
            return
        line: dict[str, Any] = {"completed_at": clock.wall_clock(), "status": reply.status}
        if tape.versions != (None, None):
            line["versions"] = tape.versions
        if len(tape.parts) > 1:
            line["part_versions"] = tape.parts
        if not tape.replies:
            line["answer"] = orjson.Fragment(reply.body)
        if planned is not None:
            line |= _describe_replay(planned)
        self._append(attempt, attempt.writer.end, call, line, tape.replies)
        if sent:
            attempt.answered.add(sent)
        if attempt.replay is not None and planned is not None:
            attempt.replay.note_answer(planned.exchange, orjson.loads(reply.body))

    def _note_error(
        self,
        attempt: OpenAttempt,
        call: str,
        error: BaseException,
        tape: EngineTape,
        planned: ReplayedCall | None,
    ) -> None:
        """Append the outcome of a call that failed. An engine's refusal is an answer, on which agents act."""
        line: dict[str, Any] = {"error": type(error).__name__}
        if isinstance(error, GymError):
            failure = error.failure
            line = {"error": failure.code}
            if failure.code in (MISMATCH, STALE):
                attempt.refusal = error
            elif 400 <= failure.http_status < 500 and failure.http_status not in _RETRIED and tape.replies:
                line = {"completed_at": clock.wall_clock(), "status": failure.http_status}
                line |= _describe_replay(planned) if planned is not None else {}
        kept = tape.replies if "status" in line else ()
        self._append(attempt, attempt.writer.end, call, line, kept)

    def _append(self, attempt: OpenAttempt, write: Callable[..., None], *given: Any) -> None:
        """Write, unless an earlier line is missing: then the lines so far are all that a replay can have."""
        if not attempt.is_recorded:
            return
        try:
            write(*given)
        except FileNotFoundError:  # the record of a rollout that is settled was deleted
            attempt.is_recorded = False
        except OSError as error:
            attempt.is_recorded = False
            log.warning(
                "attempt %s is durable no more: %s cannot be written (%s)",
                attempt.found.name, attempt.writer.path, error.strerror or error,
            )  # fmt: skip

    async def _find_answered(self, attempt: OpenAttempt, sent: str) -> RecordedCall | None:
        """Return the call of this attempt whose answer its client did not get, by the id that the client gave it."""
        record = await asyncio.to_thread(read_attempt, Path(attempt.found.folder))
        return next((call for call in record.list_answered(self._server) if call.sent == sent), None)


async def _give(
    handler: ASGIApp, scope: Scope, receive: WholeBody, tape: EngineTape, recorded: RecordedCall | None
) -> Reply:
    """Return the answer of the handler, or a recorded one for which no engine was asked."""
    if recorded is not None and not recorded.replies:
        return Reply(recorded.status or 200, _JSON, orjson.dumps(recorded.answer))
    token = current_tape.set(tape)
    collector = ReplyCollector()
    try:
        await handler(
            scope, receive, collector
        )  # as `collect_reply` does, with a frame less in every resumption
    finally:
        current_tape.reset(token)
    assert collector.reply is not None
    return collector.reply


def _describe_replay(planned: ReplayedCall) -> dict[str, Any]:
    match, found = planned.match, dict[str, Any]()
    if planned.recorded is not None:
        found["replayed"] = planned.recorded.call
    if match is not None and match.recorded is not None:
        found["compared"] = match.compared
        if match.noise:
            found["noise"] = dict(match.noise)
        if match.changes_instructions:
            found["instructions_changed"] = True
    return found


def _restore(attempt: OpenAttempt, folder: Path, server: str) -> None:
    """Read what an attempt replays, and the calls that it has made before this process began."""
    calls = [call for call in read_attempt(folder).calls if call.server == server]
    attempt.answered = {call.sent for call in calls if call.sent and call.is_answered}
    plan = read_plan(folder)
    if plan is not None:
        attempt.replay = Replay.open(plan, server, [call for call in calls if call.is_answered])
