"""Planted bugs: each patches one plausible bug into the real code while a block runs."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple
from unittest.mock import patch

from nemo_gym.engines.attempts.calls import AttemptCalls
from nemo_gym.engines.record.tape import EngineTape
from nemo_gym.episodes import driver as episode
from nemo_gym.failures import GymError
from nemo_gym.launch.nodes import channel
from nemo_gym.resources.sessions import ResourcesSessions
from nemo_gym.rollouts.output import disk, journal
from nemo_gym.rollouts.output._append_file import AppendFile
from nemo_gym.rollouts.output.attempt_records import AttemptRecords
from nemo_gym.rollouts.output.finished import StoredRollouts
from nemo_gym.rollouts.output.journal import Journal
from nemo_gym.rollouts.run import collector, execution, stopping
from nemo_gym.rollouts.run._window import build_window
from nemo_gym.rollouts.run.answer import Failed
from nemo_gym.rollouts.run.collector import Collector
from nemo_gym.rows.identity import FinishedRollouts
from nemo_gym.serving import disconnects
from nemo_gym.serving.disconnects import DisconnectWatch
from nemo_gym.serving.session_access import SessionAccess
from nemo_gym.serving.session_locks import SessionLocks
from nemo_gym.serving.sessions import SessionRegistry
from nemo_gym.transport import caller, server_client
from nemo_gym.transport.caller import Caller

Bug = Callable[[], AbstractContextManager[Any]]


def retry_of_a_call_dropped() -> AbstractContextManager[Any]:
    """A refused call is not retried."""
    return patch.object(caller, "_may_be_sent_again", lambda last, repeatable: False)


def attempt_dropped() -> AbstractContextManager[Any]:
    """A rollout is given up after its first failure."""
    return patch.object(Failed, "is_retryable", property(lambda self: False))


def attempts_without_end() -> AbstractContextManager[Any]:
    """One attempt more than allowed is made."""

    class Generous(int):
        def __gt__(self, other: int) -> bool:
            return int(self) + 1 > other

    original = Collector.__init__

    def init(self: Any, *args: Any, **options: Any) -> None:
        original(self, *args, **options)
        object.__setattr__(self._limits, "max_attempts", Generous(self._limits.max_attempts))

    return patch.object(Collector, "__init__", init)


def append_without_flush() -> AbstractContextManager[Any]:
    """Rows wait in the process until there are three of them, or the file is closed."""
    append, close = AppendFile.append, AppendFile.close
    waiting: dict[AppendFile, list[bytes]] = {}

    def flush(self: AppendFile) -> None:
        for line in waiting.pop(self, []):
            append(self, line)

    def append_later(self: AppendFile, line: bytes) -> None:
        waiting.setdefault(self, []).append(line)
        if len(waiting[self]) == 3:
            flush(self)

    def flush_and_close(self: AppendFile) -> None:
        flush(self)
        close(self)

    return patch.multiple(AppendFile, append=append_later, close=flush_and_close)


def failure_row_dropped() -> AbstractContextManager[Any]:
    """Failed attempts are not written to the failures file."""
    return patch.object(Journal, "add_failure", lambda self, line: None)


def torn_tail_kept() -> AbstractContextManager[Any]:
    """The next row is written after a partial row."""
    return patch.object(AppendFile, "recover", lambda self, *args: 0)


def finished_rollouts_forgotten() -> AbstractContextManager[Any]:
    """A resumed run repeats finished rollouts."""
    return patch.object(journal, "read_finished", lambda *_: StoredRollouts(FinishedRollouts(), 0))


def manifest_written_in_place() -> AbstractContextManager[Any]:
    """A process that dies while writing the manifest leaves a partial one."""

    def write(path: Path, content: bytes) -> None:
        descriptor = disk.disk().open_to_replace(path)
        try:
            disk.write_all(descriptor, content)
        finally:
            disk.disk().close(descriptor)

    return patch("nemo_gym.rollouts.output.manifest.write_atomically", write)


def session_not_closed() -> AbstractContextManager[Any]:
    """The session stays open when the attempt fails."""
    close = episode.close_quietly

    async def close_after_success(*args: Any) -> None:
        if sys.exc_info()[0] is None:
            await close(*args)

    return patch.object(episode, "close_quietly", close_after_success)


def abandoned_sessions_kept() -> AbstractContextManager[Any]:
    """Sessions of dead agents are not swept."""
    return patch.object(SessionRegistry, "list_abandoned", lambda self: [])


def failure_scored_zero() -> AbstractContextManager[Any]:
    """A verifier failure is scored 0."""
    verify = episode._verify

    async def verify_or_zero(*args: Any) -> dict[str, Any]:
        try:
            return await verify(*args)
        except GymError:
            return {"reward": 0.0, "session": "none"}

    return patch.object(episode, "_verify", verify_or_zero)


def tool_call_replayed() -> AbstractContextManager[Any]:
    """A tool call whose answer was lost is sent again."""
    return patch.object(server_client, "_REPEATABLE_PATHS", server_client._REPEATABLE_PATHS | {"/add"})


def deadline_dropped() -> AbstractContextManager[Any]:
    """Calls have no deadline and propagate none."""
    call = Caller.call

    async def call_without(self: Caller, *args: Any, **options: Any) -> Any:
        return await call(self, *args, **{**options, "deadline": None, "propagated": None})

    return patch.object(Caller, "call", call_without)


def window_too_wide() -> AbstractContextManager[Any]:
    """One rollout more than allowed is in flight."""
    return patch.object(
        execution, "build_window", lambda wanted, planned, most: build_window(wanted + 1, planned, most)
    )


def drain_without_end() -> AbstractContextManager[Any]:
    """An interrupted run waits for rollouts in flight without a limit."""

    async def first_of(work: Any, event: asyncio.Event, timeout: float | None = None) -> None:
        await stopping.wait_for_first(work, event)

    return patch.object(collector, "wait_for_first", first_of)


def cancellation_stops_at_the_model() -> AbstractContextManager[Any]:
    """A handler continues after its caller has disconnected."""

    async def run(self: Any, handling: Any) -> None:
        await handling

    return patch.object(DisconnectWatch, "run", run)


def caller_missed_late() -> AbstractContextManager[Any]:
    """A handler checks for a disconnected caller only after five seconds."""
    return patch.object(disconnects, "WATCHED_AFTER_S", 5.0)


def restart_unnoticed() -> AbstractContextManager[Any]:
    """An attempt continues with a server that was restarted and has lost its session."""
    original = SessionAccess.admit

    def admit(self: SessionAccess, path: str, headers: Any, rollout: str | None) -> Any:
        others = {name: value for name, value in headers.items() if name != b"x-ng-boot"}
        return original(self, path, others, rollout)

    return patch.object(SessionAccess, "admit", admit)


def session_closed_under_a_tool() -> AbstractContextManager[Any]:
    """A session's state is freed while one of its tools is running."""

    return patch.object(SessionLocks, "hold_shared", lambda *_: nullcontext())


def row_written_twice_after_a_death() -> AbstractContextManager[Any]:
    """The first row of a resumed run is written twice."""
    add_row = Journal.add_row
    resumed: set[int] = set()

    def add_twice(self: Journal, line: bytes) -> None:
        add_row(self, line)
        if len(self.finished) and id(self) not in resumed:
            resumed.add(id(self))
            add_row(self, line)

    return patch.object(Journal, "add_row", add_twice)


def call_retried_on_a_server_error() -> AbstractContextManager[Any]:
    """A call is sent again after an HTTP 5xx even if it is not repeatable."""
    original = caller._may_be_sent_again

    def may_be_sent_again(last: Any, repeatable: bool) -> bool:
        return original(last, repeatable or getattr(last, "status", 0) >= 500)

    return patch.object(caller, "_may_be_sent_again", may_be_sent_again)


@contextmanager
def tool_retried_on_a_server_error() -> Iterator[None]:
    """A tool call, and no other, is sent again after an HTTP 5xx although it is not repeatable."""
    send, original = Caller._try, caller._may_be_sent_again

    class OfATool(int):
        """A false `repeatable` that marks the call of a tool."""

    async def send_marked(self: Caller, server: str, url: str, call: Any) -> Any:
        if call.path == "/add":
            call = replace(call, repeatable=OfATool(False))
        return await send(self, server, url, call)

    def may_be_sent_again(last: Any, repeatable: bool) -> bool:
        is_retried = isinstance(repeatable, OfATool) and getattr(last, "status", 0) >= 500
        return original(last, repeatable or is_retried)

    with (
        patch.object(Caller, "_try", send_marked),
        patch.object(caller, "_may_be_sent_again", may_be_sent_again),
    ):
        yield


@contextmanager
def closing_asked_once() -> Iterator[None]:
    """A session is asked once to close, whatever becomes of the call."""
    others = server_client._REPEATABLE_PATHS - {"/close_session"}
    with patch.object(server_client, "_REPEATABLE_PATHS", others), patch.object(episode, "_CLOSE_TRIES", 1):
        yield


def sweeper_closes_early() -> AbstractContextManager[Any]:
    """Sessions are swept five seconds after their last call, although their rollouts may act for longer."""

    def is_over(self: SessionRegistry, session: str, touched: float, now: float) -> bool:
        return now > touched + 5.0

    return patch.object(SessionRegistry, "_is_over", is_over)


def close_by_name_forgotten() -> AbstractContextManager[Any]:
    """A session that was closed by its name is closed by it again when the session itself ends."""

    async def close_named(self: ResourcesSessions, body: Any, close: Any) -> Any:
        return await close(body)

    return patch.object(ResourcesSessions, "close_named", close_named)


def name_of_a_session_forgotten() -> AbstractContextManager[Any]:
    """A session that is swept, because its opener died, is not closed by its name."""

    async def close_of(self: ResourcesSessions, session: str, close: Any) -> None:
        return None

    return patch.object(ResourcesSessions, "close_opened", close_of)


def node_outlives_its_lease() -> AbstractContextManager[Any]:
    """A node that is cut off goes on with its work after it was taken for lost."""
    return patch.object(channel, "LEASE_S", channel.LOST_AFTER_S + 10.0)


def interrupted_attempt_forgotten() -> AbstractContextManager[Any]:
    """A durable run begins every attempt afresh."""
    return patch.object(AttemptRecords, "may_continue", lambda self, identity: False)


def replay_asks_the_engine() -> AbstractContextManager[Any]:
    """A replayed call is answered by the engine, and not from the record."""
    return patch.object(EngineTape, "take", lambda self, path: None)


def lost_answer_paid_twice() -> AbstractContextManager[Any]:
    """A call that is sent again because its answer was lost is a new call."""

    async def find_answered(self: AttemptCalls, attempt: Any, sent: str) -> None:
        return None

    return patch.object(AttemptCalls, "_find_answered", find_answered)


class Planted(NamedTuple):
    """A bug and its detection."""

    plant: Bug
    """Returns a context in which the bug exists."""
    invariants: frozenset[str]
    """The invariants that may detect it first."""
    shows_at: int
    """A seed that detects it."""


_TABLE: Sequence[tuple[Bug, set[str], int]] = (
    (retry_of_a_call_dropped, {"failures have causes"}, 0),
    (attempt_dropped, {"attempts are made"}, 6),
    (attempts_without_end, {"attempts are made"}, 4),
    (append_without_flush, {"counted rows are written"}, 0),
    (failure_row_dropped, {"counted rows are written"}, 4),
    (torn_tail_kept, {"files recover", "counted rows are written"}, 2),
    (finished_rollouts_forgotten, {"nothing twice"}, 0),
    (manifest_written_in_place, {"files recover"}, 18),
    (session_not_closed, {"sessions are closed"}, 3),
    (abandoned_sessions_kept, {"sessions are closed"}, 6),
    (failure_scored_zero, {"rewards are true"}, 14),
    (tool_call_replayed, {"nothing twice"}, 18),
    (deadline_dropped, {"deadlines are kept"}, 0),
    (window_too_wide, {"queues are bounded"}, 0),
    (drain_without_end, {"interrupted runs end"}, 33),
    (cancellation_stops_at_the_model, {"no orphaned work", "the engine answers once"}, 0),
    (caller_missed_late, {"no orphaned work", "the engine answers once"}, 6),
    (restart_unnoticed, {"sessions are closed", "rewards are true"}, 29),
    (session_closed_under_a_tool, {"sessions are closed"}, 2),
    (row_written_twice_after_a_death, {"nothing twice", "counts agree", "files recover"}, 0),
    (call_retried_on_a_server_error, {"nothing twice"}, 183),
    (tool_retried_on_a_server_error, {"nothing twice"}, 225),
    (closing_asked_once, {"sessions are closed"}, 15),
    (sweeper_closes_early, {"sessions are closed"}, 11),
    (close_by_name_forgotten, {"sessions are closed once"}, 7),
    (name_of_a_session_forgotten, {"sessions are closed once"}, 25),
    (interrupted_attempt_forgotten, {"the engine answers once"}, 0),
    (replay_asks_the_engine, {"the engine answers once"}, 0),
    (lost_answer_paid_twice, {"the engine answers once"}, 65),
    (node_outlives_its_lease, {"fenced replicas do nothing"}, 132),
)
PLANTED = {bug.__name__: Planted(bug, frozenset(invariants), seed) for bug, invariants, seed in _TABLE}
