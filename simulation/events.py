"""What happens in a simulated run, as data: the stream that the laws read and that a replay must repeat."""

from __future__ import annotations

import hashlib
from enum import StrEnum
from typing import Any, NamedTuple


class Kind(StrEnum):
    """What happened."""

    # Calls, each with its number.
    SENT = "sent"
    """A process sent a request; the detail is a `Sent`."""
    BEGUN = "begun"
    """A server's handler began with it."""
    DONE = "done"
    """The handler ended; the detail is the status it answered, None where it answered nothing."""
    ANSWERED = "answered"
    """The caller has an answer; the detail is its status."""
    BROKEN = "broken"
    """The caller has an error instead; the detail is its code."""
    LEFT = "left"
    """The caller went away without waiting."""
    HARMED = "harmed"
    """A fault met the call; the detail is the fault."""
    # Servers.
    CRASHED = "crashed"
    """The detail is the number of seconds until it is up again."""
    UP = "up"
    # The environment, which knows the truth.
    OPENED = "opened"
    """A session's state was set up; the detail is its id."""
    CLOSED = "closed"
    """It was freed; the detail is its id."""
    TOOL = "tool"
    """A tool had its effect; the detail is a `ToolRun`."""
    SCORED = "scored"
    """The verifier gave a reward; the detail is a `Verdict`."""
    # The collector.
    START = "start"
    """A start of the run; the detail is its number."""
    WROTE = "wrote"
    """Bytes reached a file."""
    DIED = "died"
    """The collector died; the detail says at what."""
    INTERRUPTED = "interrupted"
    ENDED = "ended"
    """A start of the run ended; the detail is an `Ended`."""
    OVER = "over"
    """The world has come to rest; the detail is a `Rest`."""
    SURPRISE = "surprise"
    """Something that must never happen, whatever the faults; the detail says what."""


class AttemptId(NamedTuple):
    """One attempt at one rollout in one start of the run: what every call is made for."""

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
    """The seconds left that it tells."""
    checksum: int
    """Of its body."""


class ToolRun(NamedTuple):
    """An effect of a tool."""

    session: str
    step: int
    is_known: bool
    """Whether the session was open in this life of the server."""


class Verdict(NamedTuple):
    """What the verifier said."""

    session: str
    reward: float


class Ended(NamedTuple):
    """A start of the run from the outside, when it is over."""

    start: int
    how: str
    """`complete`, `partial`, `interrupted`, ..., `died` or `refused`."""
    exit_code: int | None
    rows: tuple[bytes, ...]
    """The whole rows of the output file."""
    failures: tuple[bytes, ...]
    """The whole rows of this start's failures file."""
    damaged: tuple[bytes, ...]
    """Lines of both that are no rows."""
    counts: tuple[tuple[str, int], ...]
    """What the summary counts; empty where there is none."""
    mean_reward: float | None
    """What the summary says."""
    is_last: bool
    """Whether nothing was wrong any more when it began."""
    error: str = ""


class Rest(NamedTuple):
    """What is left when nobody does anything any more."""

    sessions_open: int
    states_held: int
    """Sessions whose state the environment still keeps."""
    calls_in_flight: int
    tasks_running: int


class Event(NamedTuple):
    """Something that happened, when and where."""

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
    """The events of a run, and a digest that two runs share only when they are the same."""

    def __init__(self) -> None:
        self.events: list[Event] = []
        self._hash = hashlib.blake2b(digest_size=8)

    def add(self, event: Event) -> None:
        self.events.append(event)
        self._hash.update(repr(event).encode())

    @property
    def digest(self) -> str:
        return self._hash.hexdigest()
