"""A rollout's id in the URL path, for agent harnesses that accept a base URL but cannot send an extra header.

`http://host:port/ng-rollout/<id>/v1/responses` is `/v1/responses` with the header `x-ng-session: <id>`. Only `/` and
the routes below `/v1` are reachable that way.
"""

from __future__ import annotations

import re
from collections.abc import MutableMapping
from typing import Any

from starlette.types import ASGIApp, Receive, Scope, Send

from nemo_gym.names import ROLLOUT_PATH_PREFIX as ROLLOUT_PATH_PREFIX
from nemo_gym.transport.context import SESSION_HEADER
from nemo_gym.transport.control import is_control_route
from nemo_gym.transport.rollout_context import rollout_context

TOKEN_CAPTURE_PATH_SEGMENT = "training-token-capture"
_SESSION = SESSION_HEADER.encode()
_SESSION_COOKIE = b"ng_session_"
_PREFIX = rf"/{ROLLOUT_PATH_PREFIX}/(?P<rollout>[\w.~:@+=-]+)(?:/{TOKEN_CAPTURE_PATH_SEGMENT})?"
_PREFIXED = re.compile(_PREFIX + r"(?P<path>/v1/.+|/?)", re.ASCII)
_ANY_PREFIXED = re.compile(_PREFIX + r"(?P<path>/.+)", re.ASCII)


def rollout_path_prefix(rollout_id: str | None, *, token_capture: bool = False) -> str:
    """Return the path prefix for calls of a rollout; empty without a rollout.

    `token_capture` adds a segment that other gyms use to request tokens; here it has no effect.
    """
    if not rollout_id:
        return ""
    segment = f"/{TOKEN_CAPTURE_PATH_SEGMENT}" if token_capture else ""
    return f"/{ROLLOUT_PATH_PREFIX}/{rollout_id}{segment}"


def apply_rollout_prefix(base_url: str, rollout_id: str | None, *, token_capture: bool = False) -> str:
    """Return a server's root URL for calls of a rollout; without a rollout, `base_url` unchanged."""
    if not rollout_id:
        return base_url
    return base_url.rstrip("/") + rollout_path_prefix(rollout_id, token_capture=token_capture)


def strip_prefix(scope: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    """Move the rollout's id from the path to the session header and to `path_params`, where agents read it.

    A client with a session cookie keeps its session: the request belongs to the rollout all the same. Other scopes are
    returned unchanged.
    """
    match = _PREFIXED.fullmatch(scope["path"])
    if match is None:
        return scope
    headers = scope["headers"]
    if not any(name == b"cookie" and _SESSION_COOKIE in value for name, value in headers):
        headers = [header for header in headers if header[0] != _SESSION]
        headers.append((_SESSION, match["rollout"].encode()))
    return {
        **scope,
        "path": match["path"] or "/",
        "raw_path": (match["path"] or "/").encode(),
        "headers": headers,
        "path_params": {"rollout_id": match["rollout"]},
    }


async def run_in_rollout(app: ASGIApp, scope: Scope, receive: Receive, send: Send) -> None:
    """Run `app` in the rollout of a scope that had its prefix."""
    with rollout_context(scope["path_params"]["rollout_id"]):
        await app(scope, receive, send)


class RolloutContextMiddleware:
    """Removes a rollout's prefix from the path and runs the request in the rollout's context, for an author's own app.

    The app of `super().setup_webserver()` does the same without it.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        match = _ANY_PREFIXED.fullmatch(scope["path"]) if scope["type"] == "http" else None
        if match is None or is_control_route(
            match["path"]
        ):  # the token is checked on the path as it was sent
            await self._app(scope, receive, send)
            return
        path = match["path"]
        with rollout_context(match["rollout"]):
            await self._app({**scope, "path": path, "raw_path": path.encode()}, receive, send)
