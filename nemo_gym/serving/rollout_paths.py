"""A rollout's id in the URL path, for agent harnesses that accept a base URL but cannot send an extra header.

`http://host:port/ng-rollout/<id>/v1/responses` is `/v1/responses` with the header `x-ng-session: <id>`. Only routes
below `/v1` are reachable that way.
"""

from __future__ import annotations

import re
from collections.abc import MutableMapping
from typing import Any

from nemo_gym.transport.context import SESSION_HEADER

ROLLOUT_PATH_PREFIX = "ng-rollout"
TOKEN_CAPTURE_PATH_SEGMENT = "training-token-capture"
_PREFIXED = re.compile(
    rf"/{ROLLOUT_PATH_PREFIX}/(?P<rollout>[\w.~:@+=-]+)(?:/{TOKEN_CAPTURE_PATH_SEGMENT})?(?P<path>/v1/.+)",
    re.ASCII,
)


def rollout_path_prefix(rollout_id: str | None, *, token_capture: bool = False) -> str:
    """Return the path prefix for calls of a rollout; empty without a rollout.

    `token_capture` adds a segment that other gyms use to request tokens; here it has no effect.
    """
    if not rollout_id:
        return ""
    return f"/{ROLLOUT_PATH_PREFIX}/{rollout_id}" + (
        f"/{TOKEN_CAPTURE_PATH_SEGMENT}" if token_capture else ""
    )


def apply_rollout_prefix(base_url: str, rollout_id: str | None, *, token_capture: bool = False) -> str:
    """Return a server's root URL for calls of a rollout; without a rollout, `base_url` unchanged."""
    if not rollout_id:
        return base_url
    return base_url.rstrip("/") + rollout_path_prefix(rollout_id, token_capture=token_capture)


def without_prefix(scope: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    """Move the rollout's id from the path to the session header; other scopes are returned unchanged."""
    match = _PREFIXED.fullmatch(scope["path"])
    if match is None:
        return scope
    session = (SESSION_HEADER.encode(), match["rollout"].encode())
    headers = [header for header in scope["headers"] if header[0] != session[0]]
    return {
        **scope,
        "path": match["path"],
        "raw_path": match["path"].encode(),
        "headers": [*headers, session],
    }
