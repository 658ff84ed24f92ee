"""The context of a request: session and deadline. Headers on the wire, one object inside a process.

The middleware sets a `RequestContext` for every request. `ServerClient` reads it, so calls made inside a handler carry
the same session and the same deadline.
"""

from __future__ import annotations

import re
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeAlias

from nemo_gym.transport.deadline import Deadline

if TYPE_CHECKING:
    from nemo_gym.transport.budget import BudgetLedger

__all__ = ["RequestContext", "current_context"]

SESSION_HEADER = "x-ng-session"
"""The session: the id of the rollout attempt, created by the episode driver."""
INCARNATION_HEADER = "x-ng-boot"
"""The incarnation of a server process, an id that changes with every restart. `seed_session` returns it. Later calls
send it back, and a restarted server answers them with `session_lost`, because the session's state is gone."""
DURABLE_SESSION = re.compile(r"(d[0-9a-f]{12})\.(\d+)\.(\d+)\.a(\d+)", re.ASCII)
"""The session of an attempt whose model calls are recorded: its run, task, repeat and number."""
CALL_HEADER, VERIFYING = "x-ng-call", "verifying"
"""The id of a model call of a durable attempt, the same when the call is sent again; `VERIFYING` for a verifier's."""
LEAVE_OUT_HEADER = "x-ng-leave-out"
"""Comma-separated names of fields that the response can omit, because the caller has them already."""
TOKENS_HEADER, LISTS, NONE = "x-ng-tokens", "lists", "none"
"""In a request: `LISTS` for a caller that writes the fields of trainers itself, from the new ids of each call, so that
no answer repeats a prompt (`nemo_gym.rows.token_lists`). In the answer of `/seed_session`: `NONE` if the environment's
`verify` reads no tokens."""

ENDED_HEADER = "x-ng-ended"
"""Comma-separated sessions that are over (`nemo_gym.transport.ended_sessions`), in a request to a model server."""
CONTROLLED_HEADER = "x-ng-controlled"
"""`1` in the attempts of a run that has a control of its own, so that the control of the gym's servers leaves them."""
BUDGET_HEADER = "x-ng-budget"
"""The budget that an attempt has left, as JSON (`nemo_gym.transport.budget`); only in runs with budgets."""
SPENT_HEADER = "x-ng-spent"
"""In the answer to such a request: what its model calls have spent."""
BUDGET_SPENT = "budget_spent"
"""The failure code of a model call for which nothing is left."""


PolicyCall: TypeAlias = tuple[str, str, float]
"""The server, the path and the seconds of a call."""


@dataclass(slots=True)
class RequestContext:
    session: str
    deadline: Deadline | None = None
    incarnations: dict[str, str] = field(default_factory=dict)
    """Server name → the incarnation that opened this session."""
    is_verifying: bool = False
    """True in the handler of `/verify`, whose model calls belong to the reward and not to the attempt."""
    ledger: BudgetLedger | None = None
    """The budget of the attempt, if its run has budgets."""
    began: float = 0.0
    """When the request came, on the monotonic clock; 0 if no server took it."""
    calls: list[PolicyCall] | None = None
    """The calls that the policy of an attempt made so far; None if no attempt is driven here."""
    takes_lists: bool = False
    """The caller writes the fields of trainers itself (`TOKENS_HEADER`)."""
    models: set[str] | None = None
    """The model servers that a request has called, to be told of its session's end; None if its caller named that."""
    ended: bytes = b""
    """Other sessions that are over (`ENDED_HEADER`), from a caller with the run's token, if there is one."""
    is_policy_acting: bool = False
    """True while the policy runs: a called path may then be a name that the model made up."""


current_context: ContextVar[RequestContext | None] = ContextVar("nemo_gym_request_context", default=None)
