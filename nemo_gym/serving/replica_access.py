"""Access to a replica that can move: calls to another generation are refused, sessions of lost openers end."""

from __future__ import annotations

from dataclasses import dataclass

from nemo_gym.failures import Boundary, GymError
from nemo_gym.serving.session_access import OPENING_ROUTES, Admission, Headers, SessionAccess
from nemo_gym.transport.moving_caller import CALLER_HEADER, GENERATION_HEADER
from nemo_gym.transport.moving_directory import NODE_LOST

_GENERATION, _CALLER = GENERATION_HEADER.encode(), CALLER_HEADER.encode()


class StaleGeneration(GymError):
    """The replica has moved, and either the caller or this process has not noticed yet."""

    boundary = Boundary.TRANSPORT


@dataclass(slots=True)
class ReplicaAccess(SessionAccess):
    """Admits requests to the sessions of one generation of a replica."""

    generation: int = 1

    def admit(self, path: str, headers: Headers, rollout: str | None = None) -> Admission:
        """Return the session of a request, as `SessionAccess.admit`. Raises `StaleGeneration` too."""
        admission = SessionAccess.admit(self, path, headers, rollout)
        called = headers.get(_GENERATION)
        if called is not None and called != str(self.generation).encode():
            raise self._stale(called.decode("latin-1"))
        caller = headers.get(_CALLER)
        if caller is not None and path in OPENING_ROUTES:
            self.sessions.openers[admission.session] = caller.decode("latin-1")
        return admission

    def _stale(self, called: str) -> StaleGeneration:
        return StaleGeneration(
            f"generation {called} of `{self.server_name}` was called, but generation {self.generation} is here",
            code=NODE_LOST,
            retryable=True,
            peer=self.server_name,
            status=410,
        )
