"""What travels with a request: session, deadline, token. Headers on the wire, one object inside a process.

A server's middleware opens a `RequestContext` for every request; the server client reads it, so that calls made inside
a handler carry the same session and the same deadline without being given them.
"""

from __future__ import annotations

from contextvars import ContextVar
from dataclasses import dataclass, field

from nemo_gym.transport.deadline import Deadline

SESSION_HEADER = "x-ng-session"
"""The session: the id of the rollout attempt, minted by the episode driver."""
BOOT_HEADER = "x-ng-boot"
"""Names one life of a server process. Answered by `seed_session`; sent along, it makes a restarted server say
`session_lost` instead of playing on with a state that is gone."""
LEAVE_OUT_HEADER = "x-ng-leave-out"
"""Names fields, separated by commas, that the caller has already and an answer need not repeat."""


@dataclass(slots=True)
class RequestContext:
    session: str
    deadline: Deadline | None = None
    boots: dict[str, str] = field(default_factory=dict)
    """Server name → the life of it that opened this session."""
    acting: bool = False
    """Whether the policy acts, so that what is called may be a name that a model made up."""


current_context: ContextVar[RequestContext | None] = ContextVar("nemo_gym_request_context", default=None)
