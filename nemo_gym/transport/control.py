"""The control routes, and what path a name comes to when everybody on the way has had their hands on it.

A model makes names up, and names become paths. Clients collapse `..`, servers decode `%76`, routers redirect a last
slash. So a name is not compared with the control routes as it is written, but as it could arrive.
"""

from __future__ import annotations

import re
from functools import lru_cache
from urllib.parse import unquote

CONTROL_ROUTES = frozenset(
    {"/seed_session", "/verify", "/close_session", "/aggregate_metrics", "/policy_version", "/rollouts"}
)
"""Routes that a model must never reach and that need the run's token."""

_MOST_ENCODINGS = 8
_SEPARATORS = re.compile(r"[/\\]+")
_END_OF_PATH = re.compile(r"[?#;]")


@lru_cache(maxsize=4096)
def routed_path(written: str) -> str:
    """The path that `written` may come to mean: decoded, in lower case, without query, dots and empty segments."""
    path = written
    for _ in range(_MOST_ENCODINGS):
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
    """Whether `written`, a path or a name, may reach a control route in any spelling."""
    return routed_path(written) in CONTROL_ROUTES
