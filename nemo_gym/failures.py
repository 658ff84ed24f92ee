"""The error tree: each failure of an attempt belongs to one boundary.

    GymError
    ├── ConfigError      the user's configuration, command line or files
    ├── InputError       a request that this server cannot accept (HTTP 4xx, names the field)
    ├── TransportError   a server of the gym was unreachable, or its answer was incomplete
    ├── EngineError      the inference engine (vLLM, OpenAI, ...) refused, failed or returned an invalid answer
    ├── AgentError       the agent's own code
    ├── ToolError        a tool of the resources server
    ├── VerifierError    the resources server's seed_session, verify or close_session
    ├── JudgeError       a judge model, or its verdict
    ├── SandboxError     a sandbox, or the provider that creates and operates it
    ├── ForeignError     an environment of another project, or the process in which it runs
    ├── DeadlineError    the rollout's deadline passed
    └── CancelledFailure the caller disconnected or cancelled

A failure is never a reward: only a verifier sets a reward. Servers send errors as the JSON envelope of
`Failure.to_wire()`, so the message that a user sees starts with the root cause.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any, ClassVar

__all__ = [
    "AgentError",
    "Boundary",
    "ConfigError",
    "EngineError",
    "Failure",
    "ForeignError",
    "GymError",
    "InputError",
    "Outcome",
    "SandboxError",
    "ToolError",
    "TransportError",
    "VerifierError",
    "build_error",
]

JUDGE_FAILED = "judge_failed"
"""The code of a `JudgeError`, and the failure class of a row whose judge failed."""


class Boundary(StrEnum):
    """The component in which a failure happened."""

    CONFIG = "config"
    INPUT = "input"
    TRANSPORT = "transport"
    ENGINE = "engine"
    AGENT = "agent"
    TOOL = "tool"
    VERIFIER = "verifier"
    JUDGE = "judge"
    SANDBOX = "sandbox"
    ENVIRONMENT = "environment"
    DEADLINE = "deadline"
    CANCELLED = "cancelled"


STATUS_OF_BOUNDARY: Mapping[Boundary, int] = {
    Boundary.CONFIG: 500,
    Boundary.INPUT: 422,
    Boundary.TRANSPORT: 502,
    Boundary.ENGINE: 502,
    Boundary.AGENT: 500,
    Boundary.TOOL: 500,
    Boundary.VERIFIER: 500,
    Boundary.JUDGE: 502,
    Boundary.SANDBOX: 500,
    Boundary.ENVIRONMENT: 500,
    Boundary.DEADLINE: 504,
    Boundary.CANCELLED: 499,
}
"""The HTTP status of the answer, unless the failure has its own."""


@dataclass(frozen=True, slots=True)
class Failure:
    """The cause, place and remedy of a failure."""

    boundary: Boundary
    code: str
    """A short code with few distinct values, for counting: `connect_refused`, `context_overflow`, ..."""
    message: str
    """The text for users; starts with the root cause."""
    retryable: bool = False
    """True if a new attempt may succeed without a change to the setup."""
    remedy: str | None = None
    """The action that the user can take."""
    peer: str | None = None
    """The server or URL that failed."""
    param: str | None = None
    """The invalid field of the request, for input and engine failures."""
    status: int | None = None
    """The HTTP status of the answer; None for the boundary's default."""
    hops: tuple[str, ...] = ()
    """The servers that forwarded this failure, nearest to the root cause first."""
    place: str | None = None
    """`file:line` of the author's code that raised an unexpected exception. Sent only if it is known."""
    retry_after_s: float | None = None
    """Seconds to wait, as requested by an engine. Sent as the header `Retry-After`, not in the body."""

    @property
    def http_status(self) -> int:
        return self.status if self.status is not None else STATUS_OF_BOUNDARY[self.boundary]

    @property
    def kind(self) -> str:
        """`boundary:code`, the key that failures are counted by."""
        return f"{self.boundary}:{self.code}"

    def add_hop(self, server: str) -> Failure:
        return replace(self, hops=(*self.hops, server))

    def to_wire(self) -> dict[str, Any]:
        """Return the JSON body of an error answer: OpenAI's envelope with additional fields."""
        error: dict[str, Any] = {
            "message": self.message,
            "type": self.boundary.value,
            "param": self.param,
            "code": self.code,
            "retryable": self.retryable,
            "remedy": self.remedy,
            "peer": self.peer,
            "hops": list(self.hops),
        }
        if self.place is not None:
            error["place"] = self.place
        return {"error": error}

    @classmethod
    def from_wire(cls, body: object, *, status: int | None = None) -> Failure | None:
        """Return the failure in an error body written by `to_wire`, or None for any other body."""
        error = body.get("error") if isinstance(body, Mapping) else None
        if not isinstance(error, Mapping) or "retryable" not in error:
            return None
        try:
            boundary = Boundary(
                error.get("boundary") or error["type"]
            )  # a messages error has a type of its own
        except (KeyError, ValueError):
            return None
        return cls(
            boundary=boundary,
            code=str(error.get("code")),
            message=str(error.get("message")),
            retryable=bool(error["retryable"]),
            remedy=error.get("remedy"),
            peer=error.get("peer"),
            param=error.get("param"),
            status=status,
            hops=tuple(error.get("hops") or ()),
            place=error.get("place"),
        )


class GymError(Exception):
    """An exception with its `Failure`. Raise the subclass of the boundary in which the failure happened."""

    boundary: ClassVar[Boundary] = Boundary.AGENT

    def __init__(
        self,
        message: str,
        *,
        code: str,
        retryable: bool = False,
        remedy: str | None = None,
        peer: str | None = None,
        param: str | None = None,
        status: int | None = None,
        place: str | None = None,
    ) -> None:
        super().__init__(message)
        self.failure = Failure(
            boundary=self.boundary,
            code=code,
            message=message,
            retryable=retryable,
            remedy=remedy,
            peer=peer,
            param=param,
            status=status,
            place=place,
        )

    def __str__(self) -> str:
        return append_remedy(self.failure.message, self.failure.remedy)

    @property
    def status(self) -> int:
        """The HTTP status, by which trainers tell failures apart as they do for an error answer of an agent."""
        return self.failure.http_status


def append_remedy(message: str, remedy: str | None) -> str:
    """Return a message and its remedy as sentences of one text."""
    if not remedy:
        return message
    message = message.rstrip()
    return f"{message} {remedy}" if message.endswith((".", ":", "!", "?")) else f"{message}. {remedy}"


class ConfigError(GymError):
    boundary = Boundary.CONFIG


class InputError(GymError):
    boundary = Boundary.INPUT


class TransportError(GymError):
    boundary = Boundary.TRANSPORT


class EngineError(GymError):
    boundary = Boundary.ENGINE


class AgentError(GymError):
    boundary = Boundary.AGENT


class ToolError(GymError):
    boundary = Boundary.TOOL


class VerifierError(GymError):
    boundary = Boundary.VERIFIER


class JudgeError(GymError):
    """A judge gave no usable verdict. A message is enough to raise it; a new attempt may succeed."""

    boundary = Boundary.JUDGE

    def __init__(
        self, message: str = "the judge gave no verdict", *, code: str = JUDGE_FAILED, **details: Any
    ) -> None:
        super().__init__(message, code=code, **{"retryable": True, **details})


class SandboxError(GymError):
    """A sandbox or its provider failed. A message is enough to raise it; a new attempt may succeed."""

    boundary = Boundary.SANDBOX

    def __init__(self, message: str, *, code: str = "sandbox_failed", **details: Any) -> None:
        super().__init__(message, code=code, **{"retryable": True, **details})


class ForeignError(GymError):
    """An environment of another project failed, or the process in which it runs."""

    boundary = Boundary.ENVIRONMENT


class DeadlineError(GymError):
    boundary = Boundary.DEADLINE


class CancelledFailure(GymError):
    boundary = Boundary.CANCELLED


_ERROR_OF_BOUNDARY: Mapping[Boundary, type[GymError]] = {
    error.boundary: error for error in GymError.__subclasses__()
}
"""The errors above, one for each boundary."""


def build_error(failure: Failure) -> GymError:
    """Return the exception for a `failure` that was received from another server."""
    error = _ERROR_OF_BOUNDARY[failure.boundary](failure.message, code=failure.code)
    error.failure = failure
    return error


class Outcome(StrEnum):
    """The state of an attempt. `COMPLETED`, `TRUNCATED`, `FAILED` and `CANCELLED` are terminal."""

    PENDING = "pending"
    RUNNING = "running"
    COMPLETED = "completed"
    TRUNCATED = "truncated"
    FAILED = "failed"
    CANCELLED = "cancelled"


SCORED_OUTCOMES = frozenset({Outcome.COMPLETED, Outcome.TRUNCATED})
"""The outcomes whose rows may carry a reward."""
