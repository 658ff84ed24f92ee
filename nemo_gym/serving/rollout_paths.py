"""A rollout's name in a URL, for harnesses that are given a base URL and can't be taught to send a header.

`http://host:port/ng-rollout/<id>/v1/responses` is `/v1/responses` with the header `x-ng-session: <id>`. Only what
stands below `/v1` can be reached that way.
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
    """What goes before the path of a call in the rollout's name; empty without one.

    `token_capture` spells the path as other gyms do that have to be asked for tokens; here it changes nothing.
    """
    if not rollout_id:
        return ""
    return f"/{ROLLOUT_PATH_PREFIX}/{rollout_id}" + (
        f"/{TOKEN_CAPTURE_PATH_SEGMENT}" if token_capture else ""
    )


def apply_rollout_prefix(base_url: str, rollout_id: str | None, *, token_capture: bool = False) -> str:
    """A server's root URL for calls in the rollout's name; without one, `base_url` as it is."""
    if not rollout_id:
        return base_url
    return base_url.rstrip("/") + rollout_path_prefix(rollout_id, token_capture=token_capture)


def without_prefix(scope: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    """The ASGI scope that a path with a rollout in it stands for; any other as it is."""
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
