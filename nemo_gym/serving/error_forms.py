"""Errors in the form of Anthropic's Messages API, whose clients do not read OpenAI's.

The fields of the gym's own envelope stand beside Anthropic's, so that servers of the gym read both forms.
"""

from __future__ import annotations

from collections.abc import Mapping
from http import HTTPStatus
from typing import Any

from nemo_gym.failures import Failure

_TYPES: Mapping[int, str] = {
    400: "invalid_request_error",
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
    413: "request_too_large",
    429: "rate_limit_error",
    529: "overloaded_error",
}
MESSAGES_PATH = "/v1/messages"
OVERFLOW_CODE = "context_overflow"
_TOO_LONG = "prompt is too long: "
"""Agents of Anthropic's API compact a conversation after this message."""


def anthropic_error(failure: Failure) -> dict[str, Any]:
    """Return the body of an error answer of `/v1/messages`."""
    status = failure.http_status
    other = "invalid_request_error" if status < HTTPStatus.INTERNAL_SERVER_ERROR else "api_error"
    error = failure.to_wire()["error"]
    error |= {"type": _TYPES.get(status, other), "boundary": failure.boundary.value}
    if failure.code == OVERFLOW_CODE:
        error["message"] = _TOO_LONG + failure.message
    return {"type": "error", "error": error}
