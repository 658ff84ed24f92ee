"""The states of a supervised server, their transitions, and the rules for restarts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from nemo_gym.names import CANNOT_START


class ServerState(StrEnum):
    """The state of a server process. `STOPPED` and `FAILED` are terminal."""

    PREPARING = "preparing"
    """Before the process exists: its virtual environment is built, or it waits for its fork."""
    STARTING = "starting"
    """The process exists but has not answered yet."""
    READY = "ready"
    """It answered `GET /` with 200."""
    CRASHED = "crashed"
    """The process died and will be restarted; callers wait in the backlog of its socket."""
    DRAINING = "draining"
    """It finishes its sessions and gets no new ones; then it is removed."""
    STOPPING = "stopping"
    """It was sent SIGTERM."""
    STOPPED = "stopped"
    """It ended on request."""
    FAILED = "failed"
    """It died too often during startup and will not be restarted."""


TRANSITIONS: Mapping[ServerState, frozenset[ServerState]] = {
    ServerState.PREPARING: frozenset({ServerState.STARTING, ServerState.FAILED, ServerState.STOPPED}),
    ServerState.STARTING: frozenset(
        {ServerState.READY, ServerState.CRASHED, ServerState.STOPPING, ServerState.STOPPED}
    ),
    ServerState.READY: frozenset(
        {ServerState.CRASHED, ServerState.DRAINING, ServerState.STOPPING, ServerState.STOPPED}
    ),
    ServerState.DRAINING: frozenset({ServerState.STOPPING, ServerState.STOPPED}),
    ServerState.CRASHED: frozenset({ServerState.STARTING, ServerState.FAILED, ServerState.STOPPED}),
    ServerState.STOPPING: frozenset({ServerState.STOPPED}),
    ServerState.STOPPED: frozenset(),
    ServerState.FAILED: frozenset(),
}

TERMINAL_STATES = frozenset(state for state, following in TRANSITIONS.items() if not following)


@dataclass(frozen=True, slots=True)
class RestartPolicy:
    """The rules for restarting a dead server and for giving it up."""

    deaths_at_start: int = 3
    """Consecutive deaths before the first answer after which the server has failed."""
    first_delay_s: float = 0.1
    longest_delay_s: float = 10.0
    steady_after_s: float = 60.0
    """After being ready for this long, a server's earlier deaths no longer count."""


@dataclass(slots=True)
class DeathRecord:
    """Counts the consecutive deaths of one server."""

    policy: RestartPolicy
    deaths: int = 0
    """Deaths since the server was last steady."""
    deaths_at_start: int = 0
    """Consecutive deaths before the first answer."""
    has_to_be_corrected: bool = False
    """True if the last process could not start with its code and configuration, so that another cannot either."""
    has_ended: bool = False
    """True if its program ran to its end and served nothing."""

    def count_death(self, *, ready_for_s: float | None, exit_code: int | None = None) -> None:
        """Count a death; `ready_for_s` is how long the process was ready, None if it never was."""
        self.has_ended = ready_for_s is None and exit_code == 0
        self.has_to_be_corrected = self.has_ended or (ready_for_s is None and exit_code == CANNOT_START)
        if ready_for_s is None:
            self.deaths_at_start += 1
            self.deaths += 1
            return
        self.deaths_at_start = 0
        self.deaths = 1 if ready_for_s >= self.policy.steady_after_s else self.deaths + 1

    @property
    def is_hopeless(self) -> bool:
        return self.deaths_at_start >= self.policy.deaths_at_start

    @property
    def delay_s(self) -> float:
        """Seconds to wait before the next start."""
        return min(self.policy.longest_delay_s, self.policy.first_delay_s * 2.0 ** min(self.deaths - 1, 32))
