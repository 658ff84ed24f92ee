"""Durable runs: crashes in the middle of attempts, and the invariant that no answer of the engine is paid twice.

In a durable scenario every record is kept until the end, so that the invariant can compare what the records have with
what the engine was asked.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import NamedTuple

import orjson

from nemo_gym.engines.attempts.record import AttemptRecord, read_attempt
from nemo_gym.rows.keys import ATTEMPT_INDEX_KEY, FAILURE_KEY
from nemo_gym.serving.durable.names import parse_name
from nemo_gym.serving.durable.plans import read_plan
from simulation.events import AttemptId, Event, Kind, Sent
from simulation.faults import ENGINE, CrashAtCall, Fault
from simulation.invariants import identity_of_line

_ENGINE_PLACE = f"{ENGINE} /v1/chat/completions"
_RUN_PLACE = "agent /run"
_FRESH = frozenset({"replay_mismatch", "replay_stale"})
"""Failures after which an attempt begins afresh."""


class CrashesAtCalls:
    """Crashes processes when the engine has answered so many calls. It observes like an invariant, and holds always."""

    name = "crashes"

    def __init__(self, faults: Iterable[Fault], crash: Callable[[CrashAtCall], None]) -> None:
        self._faults = {fault.nth: fault for fault in faults if isinstance(fault, CrashAtCall)}
        self._crash = crash
        self._answers = 0

    def disarm(self) -> None:
        """Cancel all remaining crashes."""
        self._faults.clear()

    def observe(self, event: Event) -> str | None:
        if event.kind is Kind.ANSWERED and event.place == _ENGINE_PLACE:
            self._answers += 1
            fault = self._faults.pop(self._answers, None)
            if fault is not None:
                self._crash(fault)
        return None


class _Asked(NamedTuple):
    """What one attempt asked the engine and got whole, by the checksum of the request."""

    attempt: AttemptId
    answers: Counter[int]


class EngineAnswersOnce:
    """The engine answers each call of a session once, and no call that the record of a continued attempt has.

    An attempt that was interrupted after an answered call is continued, unless a failure forbids it.
    """

    name = "the engine answers once"

    def __init__(self, records: Path) -> None:
        self._records = records.resolve()
        self._sessions: dict[str, _Asked] = {}
        self._session_of: dict[AttemptId, str] = {}
        self._sent: dict[int, tuple[str, int]] = {}
        """Call → its session and checksum."""
        self._failures: dict[AttemptId, tuple[str, bool]] = {}
        """The code of a failed attempt, and whether it is one of the machinery."""
        self._is_answered: set[AttemptId] = set()
        self._recorded: dict[Path, str] = {}
        """Record → its session."""

    def observe(self, event: Event) -> str | None:
        attempt = event.attempt
        match event.kind:
            case Kind.SENT if event.place == _RUN_PLACE and attempt is not None:
                self._begin(attempt, event.detail)
            case Kind.ANSWERED if event.place == _RUN_PLACE and attempt is not None and event.detail == 200:
                self._is_answered.add(attempt)
            case Kind.SENT if event.place == _ENGINE_PLACE and attempt in self._session_of:
                self._sent[event.call] = (self._session_of[attempt], event.detail.checksum)
            case Kind.FAULT:
                self._sent.pop(event.call, None)  # its answer may be spoiled or lost
            case Kind.ANSWERED if event.call in self._sent and event.detail == 200:
                return self._note_answer(*self._sent.pop(event.call))
            case Kind.ENDED:
                self._note_failures(event)
            case Kind.OVER:
                return self._check_records()
        return None

    def _begin(self, attempt: AttemptId, sent: Sent) -> None:
        if sent.session is not None:
            self._session_of[attempt] = sent.session
            self._sessions.setdefault(sent.session, _Asked(attempt, Counter()))

    def _note_answer(self, session: str, checksum: int) -> str | None:
        answers = self._sessions[session].answers
        answers[checksum] += 1
        if answers[checksum] > 1:
            return f"the engine answered a call of {self._sessions[session].attempt} twice"
        return None

    def _note_failures(self, event: Event) -> None:
        for line in event.detail.failures:
            row, identity = orjson.loads(line), identity_of_line(line)
            attempt = AttemptId(event.detail.start, *identity, row[ATTEMPT_INDEX_KEY])
            failure = row[FAILURE_KEY]
            is_machinery = failure["retryable"] and failure["type"] not in ("deadline", "cancelled", "config")
            self._failures[attempt] = failure["code"], is_machinery and failure["code"] not in _FRESH

    def _check_records(self) -> str | None:
        by_rollout: dict[tuple[int, int], list[str]] = {}
        # An attempt that made no call has no record, and a later start uses its folder.
        self._recorded = {self._find(session): session for session in self._sessions}
        for session in self._recorded.values():
            name = parse_name(session)
            assert name is not None
            by_rollout.setdefault((name.task, name.repeat), []).append(session)
        for sessions in by_rollout.values():
            for before, after in zip([None, *sessions], sessions, strict=False):
                problem = self._check(before, after)
                if problem is not None:
                    return problem
        return None

    def _check(self, before: str | None, after: str) -> str | None:
        plan, asked = read_plan(self._find(after)), self._sessions[after]
        if plan is None:
            return self._check_fresh(before, asked.attempt) if before is not None else None
        source = self._recorded[plan.source]
        # A mismatch may have kept a part from being replayed; no part is asked again all the same.
        if again := asked.answers.keys() & self._sessions[source].answers.keys():
            return (
                f"{asked.attempt} asked the engine for {len(again)} calls that are in the record it continues"
            )
        return None

    def _check_fresh(self, before: str, attempt: AttemptId) -> str | None:
        """Check that an attempt was right to begin afresh."""
        earlier, record = self._sessions[before].attempt, self._read(before)
        failure = self._failures.get(earlier)
        is_interrupted = failure[1] if failure is not None else earlier not in self._is_answered
        has_changed = record.mismatches or read_plan(self._find(before)) is not None
        if is_interrupted and self._sessions[before].answers and not has_changed:
            return f"{attempt} began afresh after {earlier}, which has an answered call"
        return None

    def _read(self, session: str) -> AttemptRecord:
        return read_attempt(self._find(session))

    def _find(self, session: str) -> Path:
        name = parse_name(session)
        assert name is not None
        return self._records / name.folder
