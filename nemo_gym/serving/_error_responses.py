"""Error responses: every error of a server has the same JSON envelope (`Failure.to_wire`)."""

from __future__ import annotations

import logging
import math
from dataclasses import replace

import orjson

from nemo_gym.failures import Boundary, Failure, GymError
from nemo_gym.serving.json_response import JsonResponse

log = logging.getLogger(__name__)


def error_response(error: Exception, server: str, boundary: Boundary) -> JsonResponse:
    """Build the response of `server` to a request whose handler raised `error`."""
    failure = error.failure if isinstance(error, GymError) else _failure_of(error, server, boundary)
    if failure.peer is None:
        failure = replace(failure, peer=server)
    return JsonResponse(orjson.dumps(failure.to_wire()), failure.http_status, _retry_headers(failure))


def _failure_of(error: Exception, server: str, boundary: Boundary) -> Failure:
    """Convert an unexpected exception. An upstream's failure inside it is passed on with its root cause."""
    upstream = getattr(error, "response_content", None)
    if isinstance(upstream, bytes | str) and upstream:
        try:
            passed_on = Failure.from_wire(orjson.loads(upstream), status=getattr(error, "status", None))
        except orjson.JSONDecodeError:
            passed_on = None
        if passed_on is not None:
            return passed_on.passed_on_by(server)
    log.error("unhandled error in `%s`", server, exc_info=error)
    return Failure(
        boundary=boundary,
        code="unhandled_exception",
        message=f"{type(error).__name__}: {error}",
        peer=server,
        remedy=f"See the log of `{server}` for the traceback.",
        status=500,
    )


def _retry_headers(failure: Failure) -> dict[str, str]:
    """Return the retry headers for clients that decide by the status alone, such as OpenAI's."""
    if not failure.retryable:
        return {"x-should-retry": "false"}
    if failure.retry_after_s is None:
        return {}
    return {"retry-after": str(math.ceil(failure.retry_after_s))}
