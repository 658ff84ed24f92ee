"""The life of a supervised server as data: states, allowed transitions, and when a dead one is started again."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum


class ServerState(StrEnum):
    """How a server process stands. `STOPPED` and `FAILED` are terminal."""

    PREPARING = "preparing"
    """Its process is not there yet: its virtual environment is being built, or it is about to be forked."""
    STARTING = "starting"
    """The process exists and has not answered yet."""
    READY = "ready"
    """It answered `GET /` with 200."""
    CRASHED = "crashed"
    """The process is gone and will be started again; callers wait in the backlog of its socket."""
    STOPPING = "stopping"
    """It was asked to end."""
    STOPPED = "stopped"
    """It ended because it was asked to."""
    FAILED = "failed"
    """It died too often at its start; it will not be started again."""


TRANSITIONS: Mapping[ServerState, frozenset[ServerState]] = {
    ServerState.PREPARING: frozenset({ServerState.STARTING, ServerState.FAILED, ServerState.STOPPED}),
    ServerState.STARTING: frozenset(
        {ServerState.READY, ServerState.CRASHED, ServerState.STOPPING, ServerState.STOPPED}
    ),
    ServerState.READY: frozenset({ServerState.CRASHED, ServerState.STOPPING, ServerState.STOPPED}),
    ServerState.CRASHED: frozenset({ServerState.STARTING, ServerState.FAILED, ServerState.STOPPED}),
    ServerState.STOPPING: frozenset({ServerState.STOPPED}),
    ServerState.STOPPED: frozenset(),
    ServerState.FAILED: frozenset(),
}

TERMINAL_STATES = frozenset(state for state, following in TRANSITIONS.items() if not following)


@dataclass(frozen=True, slots=True)
class RestartPolicy:
    """When a dead server is started again, and when it is given up."""

    deaths_at_start: int = 3
    """Deaths in a row before the first answer, after which the server counts as failed."""
    first_delay_s: float = 0.1
    longest_delay_s: float = 10.0
    steady_after_s: float = 60.0
    """A server that was ready for this long starts with a clean record."""

    def delay_s(self, deaths: int) -> float:
        """Seconds to wait before the start that follows the `deaths`-th death in a row (counted from 1)."""
        return min(self.longest_delay_s, self.first_delay_s * 2.0 ** min(deaths - 1, 32))


class DeathRecord:
    """Counts the deaths of one server in a row."""

    def __init__(self, policy: RestartPolicy) -> None:
        self._policy = policy
        self.deaths = 0
        """Deaths since the server was last steady."""
        self.deaths_at_start = 0
        """Deaths in a row before the first answer."""

    def died(self, *, ready_for_s: float | None) -> None:
        """Count a death; `ready_for_s` says how long the process had been ready, None that it never was."""
        if ready_for_s is None:
            self.deaths_at_start += 1
            self.deaths += 1
            return
        self.deaths_at_start = 0
        self.deaths = 1 if ready_for_s >= self._policy.steady_after_s else self.deaths + 1

    @property
    def is_hopeless(self) -> bool:
        return self.deaths_at_start >= self._policy.deaths_at_start

    @property
    def delay_s(self) -> float:
        """Seconds to wait before the next start."""
        return self._policy.delay_s(self.deaths)
