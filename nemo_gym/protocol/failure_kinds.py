"""Names of failures that verifiers and environment servers report beside a verdict.

A kind is registered here, or it has a namespace (`usersim:policy_error`), which keeps two authors' kinds apart.
"""

from __future__ import annotations

import re
from typing import Literal, TypeAlias

FailureStage: TypeAlias = Literal["admission", "seed", "agent", "verification", "cleanup", "episode"]
"""The part of an episode that failed; `episode` if it is not known, as after a timeout."""

JUDGE_FAILED = "judge_failed"
VERIFIER_ERROR = "verifier_error"
AGENT_RUN_ERROR = "agent_run_error"

_REGISTERED = frozenset({JUDGE_FAILED, VERIFIER_ERROR, AGENT_RUN_ERROR})
_NAMESPACED = re.compile(r"[a-z0-9_][a-z0-9_.-]*:[a-z0-9_][a-z0-9_.:/-]*")


def is_registered(kind: str) -> bool:
    """Return whether the gym itself defines `kind`."""
    return kind in _REGISTERED


def is_namespaced(kind: str) -> bool:
    """Return whether `kind` has the form `namespace:kind`, in lower case."""
    return _NAMESPACED.fullmatch(kind) is not None


def validate_failure_kind(kind: str | None) -> str | None:
    """Return `kind`. Raises `ValueError` unless it is None, registered or namespaced."""
    if kind is None or is_registered(kind) or is_namespaced(kind):
        return kind
    known = ", ".join(sorted(_REGISTERED))
    raise ValueError(
        f"{kind!r} is not a failure kind; use one of {known}, or a name such as `my_server:{kind}`"
    )
