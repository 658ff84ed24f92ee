"""The control routes, and the path that a name resolves to after clients, servers and routers have normalized it.

A model can make up any tool name, and tool names become paths. Clients collapse `..`, servers decode `%76`, and routers
redirect a trailing slash. So a name is normalized before it is compared with the control routes.
"""

from __future__ import annotations

import re
from functools import lru_cache
from urllib.parse import unquote

from nemo_gym.names import (
    ATTEMPTS_ROUTE,
    CLOCK_ROUTE,
    ROLLOUT_SESSIONS_ROUTE,
    RUNS_ROUTE,
    SCALE_ROUTE,
    SESSIONS_ROUTE,
)

__all__ = ["CONTROL_ROUTES", "ROLLOUT_RECORDS", "TOKEN_TEXTS"]

TOKEN_TEXTS = "/token_texts"
"""The route of a model server that gives the texts of token ids."""
ROLLOUT_RECORDS = "/ng-rollouts"
"""The route of a model server that opens rollouts. Routes below it read, seal and delete them."""
DURABLE_RUNS = "/ng-durable-runs"
"""The route of a model server that is told of durable runs, whose attempts it records."""

CONTROL_ROUTES = frozenset(
    {
        "/seed_session",
        "/verify",
        "/close_session",
        "/aggregate_metrics",
        "/policy_version",
        "/reload_weights",
        "/ng-pause",
        "/ng-resume",
        "/rollouts",
        ATTEMPTS_ROUTE,
        CLOCK_ROUTE,
        ROLLOUT_SESSIONS_ROUTE,
        RUNS_ROUTE,
        SCALE_ROUTE,
        SESSIONS_ROUTE,
        DURABLE_RUNS,
        ROLLOUT_RECORDS,
        TOKEN_TEXTS,
    }
)
"""Routes that require the run's token and that a model must never reach."""

BELOW_CONTROL_ROUTES = (ROLLOUT_RECORDS + "/", ROLLOUT_SESSIONS_ROUTE + "/", RUNS_ROUTE + "/")
"""The beginnings of further such routes."""

_MAX_ENCODINGS = 8
_SEPARATORS = re.compile(r"[/\\]+")
_END_OF_PATH = re.compile(r"[?#;]")


@lru_cache(maxsize=4096)
def normalize_path(written: str) -> str:
    """Normalize a path: decoded, in lower case, without query, dot segments and empty segments."""
    path = written
    for _ in range(_MAX_ENCODINGS):
        decoded = unquote(path)
        if decoded == path:
            break
        path = decoded
    segments: list[str] = []
    for segment in _SEPARATORS.split(_END_OF_PATH.split(path, maxsplit=1)[0]):
        name = segment.strip().lower()
        if name == "..":
            del segments[-1:]
        elif name not in ("", "."):
            segments.append(name)
    return "/" + "/".join(segments)


def is_control_route(written: str) -> bool:
    """Return whether `written`, a path or a tool name, could reach a control route."""
    path = normalize_path(written)
    return path in CONTROL_ROUTES or path.startswith(BELOW_CONTROL_ROUTES)
