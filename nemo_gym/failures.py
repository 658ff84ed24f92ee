"""Failures as data: every way an attempt can go wrong has one place in this tree.

    GymError
    ├── ConfigError      the user's configuration, command line or files
    ├── InputError       a request that this server cannot accept (HTTP 4xx, names the field)
    ├── TransportError   a peer of ours could not be reached, or its answer did not arrive whole
    ├── EngineError      the inference engine (vLLM, OpenAI, ...) refused, failed or answered nonsense
    ├── AgentError       the agent's own code
    ├── ToolError        a tool of the resources server
    ├── VerifierError    the resources server's seed_session, verify or close_session
    ├── JudgeError       a judge model, or its verdict
    ├── DeadlineError    the rollout's deadline passed
    └── CancelledFailure the caller went away

A failure is never a reward: a row has a reward only when a verifier gave one. Errors travel between servers
in the JSON envelope of `Failure.to_wire()`, so that the message a user sees starts with the root cause.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any, ClassVar

JUDGE_FAILED = "judge_failed"
"""The code of a `JudgeError`, and the failure class of a row whose judge failed."""


class Boundary(StrEnum):
    """Where a failure happened."""

    CONFIG = "config"
    INPUT = "input"
    TRANSPORT = "transport"
    ENGINE = "engine"
    AGENT = "agent"
    TOOL = "tool"
    VERIFIER = "verifier"
    JUDGE = "judge"
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
    Boundary.DEADLINE: 504,
    Boundary.CANCELLED: 499,
}
"""The HTTP status a failure is answered with, unless it carries one of its own."""


@dataclass(frozen=True, slots=True)
class Failure:
    """What went wrong, where, and what to do about it."""

    boundary: Boundary
    code: str
    """Short and of few distinct values, for counting: `connect_refused`, `context_overflow`, ..."""
    message: str
    """Starts with the root cause."""
    retryable: bool = False
    """Whether a new attempt may succeed without anybody changing anything."""
    remedy: str | None = None
    """What the user can do."""
    peer: str | None = None
    """The server or URL that failed."""
    param: str | None = None
    """The field of the request that is at fault, for input and engine failures."""
    status: int | None = None
    """The HTTP status to answer with, where the boundary's own is not the right one."""
    hops: tuple[str, ...] = ()
    """The servers that passed this failure on, nearest to the root cause first."""
    retry_after_s: float | None = None
    """The seconds that an engine asked to wait. Told in the answer's `Retry-After`, not in its body."""

    @property
    def http_status(self) -> int:
        return self.status if self.status is not None else STATUS_OF_BOUNDARY[self.boundary]

    @property
    def kind(self) -> str:
        """`boundary:code`, the key that failures are counted by."""
        return f"{self.boundary}:{self.code}"

    def passed_on_by(self, server: str) -> Failure:
        return replace(self, hops=(*self.hops, server))

    def to_wire(self) -> dict[str, Any]:
        """The JSON body of an error answer: OpenAI's envelope, with our fields beside theirs."""
        return {
            "error": {
                "message": self.message,
                "type": self.boundary.value,
                "param": self.param,
                "code": self.code,
                "retryable": self.retryable,
                "remedy": self.remedy,
                "peer": self.peer,
                "hops": list(self.hops),
            }
        }

    @classmethod
    def from_wire(cls, body: object, *, status: int | None = None) -> Failure | None:
        """The failure in an error body of ours, or None when the body is somebody else's."""
        error = body.get("error") if isinstance(body, Mapping) else None
        if not isinstance(error, Mapping) or "retryable" not in error:
            return None
        try:
            boundary = Boundary(error["type"])
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
        )


class GymError(Exception):
    """An error that carries its `Failure`. Raise the subclass of the boundary where it happened."""

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
        )

    def __str__(self) -> str:
        remedy = f" {self.failure.remedy}" if self.failure.remedy else ""
        return f"{self.failure.message}{remedy}"


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


class DeadlineError(GymError):
    boundary = Boundary.DEADLINE


class CancelledFailure(GymError):
    boundary = Boundary.CANCELLED


_ERROR_OF_BOUNDARY: Mapping[Boundary, type[GymError]] = {
    error.boundary: error
    for error in (
        ConfigError,
        InputError,
        TransportError,
        EngineError,
        AgentError,
        ToolError,
        VerifierError,
        JudgeError,
        DeadlineError,
        CancelledFailure,
    )
}


def error_of(failure: Failure) -> GymError:
    """The exception that carries `failure`, to raise it again on this side of a hop."""
    error = _ERROR_OF_BOUNDARY[failure.boundary](failure.message, code=failure.code)
    error.failure = failure
    return error


class Outcome(StrEnum):
    """How an attempt stands. `COMPLETED`, `TRUNCATED`, `FAILED` and `CANCELLED` are terminal."""

    PENDING = "pending"
    RUNNING = "running"
    COMPLETED = "completed"
    TRUNCATED = "truncated"
    FAILED = "failed"
    CANCELLED = "cancelled"


SCORED_OUTCOMES = frozenset({Outcome.COMPLETED, Outcome.TRUNCATED})
"""The outcomes whose rows may carry a reward."""
