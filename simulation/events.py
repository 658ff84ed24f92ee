"""Events of a simulated run. Invariants read the stream of events, and a replay must repeat it."""

from __future__ import annotations

import hashlib
from enum import StrEnum
from typing import Any, NamedTuple


class Kind(StrEnum):
    """The kind of an event."""

    # Calls, each with its number.
    SENT = "sent"
    """A process sent a request; the detail is a `Sent`."""
    BEGUN = "begun"
    """A server's handler started; the detail is the address of a replica that can move."""
    DONE = "done"
    """The handler ended; the detail is its answer's status, or None without an answer."""
    ANSWERED = "answered"
    """The caller got an answer; the detail is its status."""
    BROKEN = "broken"
    """The caller got an error; the detail is its code."""
    LEFT = "left"
    """The caller disconnected."""
    FAULT = "fault"
    """The call has a fault, which is the detail."""
    # Servers.
    CRASHED = "crashed"
    """A server crashed; the detail is the number of seconds until its restart."""
    UP = "up"
    FENCED = "fenced"
    """A replica was taken for lost with its node; the detail is its address until then."""
    # The environment, which is the ground truth.
    OPENED = "opened"
    """A session's state was set up; the detail is its id."""
    CLOSED = "closed"
    """A session's state was freed; the detail is its id."""
    NAMED = "named"
    """A session was set up by the name that its opener chose; the detail is the name."""
    UNNAMED = "unnamed"
    """A session was freed by that name; the detail is the name."""
    TOOL = "tool"
    """A tool was executed; the detail is a `ToolRun`."""
    SCORED = "scored"
    """The verifier gave a reward; the detail is a `Verdict`."""
    # The collector.
    START = "start"
    """A start of the run; the detail is its number."""
    WROTE = "wrote"
    """Bytes reached a file."""
    DIED = "died"
    """The collector died; the detail is the cause."""
    INTERRUPTED = "interrupted"
    CONTROLLED = "controlled"
    """An operator made a request; the detail is the request and its answer."""
    ENDED = "ended"
    """A start of the run ended; the detail is an `Ended`."""
    OVER = "over"
    """All activity has ended; the detail is a `Rest`."""
    SURPRISE = "surprise"
    """An event that must not happen under any fault; the detail describes it."""


class AttemptId(NamedTuple):
    """One attempt at one rollout in one start of the run. Every call belongs to an attempt."""

    start: int
    task: int
    repeat: int
    attempt: int

    def __str__(self) -> str:
        return f"start {self.start}, task {self.task}, repeat {self.repeat}, attempt {self.attempt}"


class Sent(NamedTuple):
    """A request as it left its sender."""

    sender: str
    server: str
    route: str
    deadline_s: float | None
    """The propagated remaining seconds."""
    checksum: int
    """CRC-32 of the body."""
    session: str | None = None
    """The session that the request names."""


class ToolRun(NamedTuple):
    """An effect of a tool."""

    session: str
    step: int
    is_known: bool
    """True if the session was open since the server's last start."""


class Verdict(NamedTuple):
    """The verifier's reward for a session."""

    session: str
    reward: float


class Ended(NamedTuple):
    """The visible results of a start of the run after its end."""

    start: int
    how: str
    """`complete`, `partial`, `interrupted`, ..., `died` or `refused`."""
    exit_code: int | None
    rows: tuple[bytes, ...]
    """The whole rows of the output file."""
    failures: tuple[bytes, ...]
    """The whole rows of this start's failures file."""
    damaged: tuple[bytes, ...]
    """Lines of both files that are not rows."""
    counts: tuple[tuple[str, int], ...]
    """The counts of the summary; empty without one."""
    mean_reward: float | None
    """The mean reward of the summary."""
    is_last: bool
    """True if all faults were repaired before this start."""
    error: str = ""


class Rest(NamedTuple):
    """The remaining state after all activity has ended."""

    sessions_open: int
    states_held: int
    """Sessions with state in the environment."""
    calls_in_flight: int
    tasks_running: int


class Event(NamedTuple):
    """One event, with virtual time and place."""

    at: float
    kind: Kind
    place: str
    """A server and its route, a file, or the collector."""
    attempt: AttemptId | None = None
    call: int = 0
    detail: Any = None

    def __str__(self) -> str:
        whose = f"  [{self.attempt}]" if self.attempt else ""
        number = f" #{self.call}" if self.call else ""
        detail = "" if self.detail is None else f"  {shortened(str(self.detail))}"
        return f"{self.at:10.3f}  {self.kind:<11} {self.place}{number}{detail}{whose}"


def shortened(text: str, room: int = 160) -> str:
    return text if len(text) <= room else f"{text[:room]}…"


class Trace:
    """The events of a run and their digest."""

    def __init__(self) -> None:
        self.events: list[Event] = []
        self._hash = hashlib.blake2b(digest_size=8)

    def add(self, event: Event) -> None:
        self.events.append(event)
        self._hash.update(repr(event).encode())

    @property
    def digest(self) -> str:
        return self._hash.hexdigest()
