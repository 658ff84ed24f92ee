"""The failure of a tool call by the error that the environment answered.

The arguments of the call fit the schema of the row's tool, so arguments that the handler refuses are a disagreement of
handler and schema: the environment's fault. A status from 400 to 499 that an author's handler answers on purpose is
about the arguments: the model's fault.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from nemo_gym.failures import Failure
from nemo_gym.json_objects import member, object_in
from nemo_gym.names import PLACE_HEADER
from nemo_gym.rows.tool_errors import FailedCall, ToolErrorKind

_CODES: Mapping[str, ToolErrorKind] = {
    "no_route": ToolErrorKind.NO_ROUTE,
    "method_not_allowed": ToolErrorKind.NO_ROUTE,
    "invalid_request": ToolErrorKind.MISMATCH,
}
"""The codes by which a server of the gym answers for itself, before any handler of the author."""
_UNAVAILABLE = frozenset({408, 425, 429, 502, 503, 504})
_SERVERS_FAULT = 500
_QUOTED_CHARS = 300


def classify_answer(
    tool: str, status: int, body: bytes | str, headers: Mapping[str, str] | None = None
) -> FailedCall:
    """Return the failure of a call whose arguments fit the row's tool, by the error answer of the environment."""
    answered = object_in(body)
    failure = Failure.from_wire(answered, status=status)
    if failure is not None:
        return FailedCall(tool, _classify_failure(failure), failure.message, failure.place)
    detail = member(answered, "detail")
    quoted = body.decode(errors="replace") if isinstance(body, bytes) else body
    cause = f"HTTP {status}: {detail if isinstance(detail, str) else quoted[:_QUOTED_CHARS]}"
    kind = ToolErrorKind.MISMATCH if _lists_problems(detail) else _classify_status(status)
    return FailedCall(tool, kind, cause, (headers or {}).get(PLACE_HEADER))


def _classify_failure(failure: Failure) -> ToolErrorKind:
    if failure.code in _CODES:
        return _CODES[failure.code]
    return ToolErrorKind.UNAVAILABLE if failure.retryable else _classify_status(failure.http_status)


def _classify_status(status: int) -> ToolErrorKind:
    if status in _UNAVAILABLE:
        return ToolErrorKind.UNAVAILABLE
    return ToolErrorKind.RAISED if status >= _SERVERS_FAULT else ToolErrorKind.REJECTED


def _lists_problems(detail: Any) -> bool:
    """Return whether FastAPI's own check of the arguments made this answer, in an app without the gym's error form."""
    return (
        isinstance(detail, list) and bool(detail) and all(member(each, "loc") is not None for each in detail)
    )
