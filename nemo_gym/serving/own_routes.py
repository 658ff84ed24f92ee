"""The routes of every server that are about the server itself, and not about a rollout."""

from __future__ import annotations

from starlette.types import Scope

from nemo_gym.names import HEALTH_ROUTES, METRICS_ROUTE

_OWN = HEALTH_ROUTES | {"/", METRICS_ROUTE}
_BELOW = "/_ng/"


def is_about_server(scope: Scope) -> bool:
    """Return whether a request is about the server: its health, figures and sessions.

    Such requests are not counted, limited or traced.
    """
    path: str = scope["path"]
    if path not in _OWN:
        return path.startswith(_BELOW)
    return path != METRICS_ROUTE or scope.get("method") == "GET"  # a tool may have that name
