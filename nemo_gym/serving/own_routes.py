"""The routes of every server that are about the server itself, and not about a rollout."""

from __future__ import annotations

from starlette.types import Scope

from nemo_gym.names import HEALTH_ROUTES, METRICS_ROUTE

_OWN = HEALTH_ROUTES | {"/"}
_BELOW = "/_ng/"


def is_about_server(scope: Scope) -> bool:
    """Return whether a request is about the server: its health, figures and sessions.

    Such requests are not counted, limited or traced.
    """
    path: str = scope["path"]
    if path == METRICS_ROUTE:
        return bool(scope.get("method") == "GET")  # a tool may have that name
    return path in _OWN or path.startswith(_BELOW)
