"""Converts error answers of engines and proxies to failures.

Supported formats: `{"error": {...}}`, `{"object": "error", ...}`, `{"error": "..."}`, `{"detail": ...}`, plain text,
and HTML pages of proxies. The message of the `Failure` starts with the engine's own message.
"""

from __future__ import annotations

import html
import re
from collections.abc import Callable, Mapping
from email.utils import parsedate_to_datetime
from typing import Any, NamedTuple

import orjson

from nemo_gym.failures import Boundary, EngineError, Failure
from nemo_gym.responses._overflow import Overflow, OverflowKind, parse_overflow

__all__ = ["is_error_body", "read_body_failure"]

_MAX_MESSAGE = 2000
_TAG = re.compile(r"<(?:script|style)\b.*?</(?:script|style)>|<[^>]*>", re.IGNORECASE | re.DOTALL)
_TITLE = re.compile(r"<title[^>]*>(.*?)</title>", re.IGNORECASE | re.DOTALL)


class EngineRefusal(NamedTuple):
    """The failure in an engine's error answer."""

    failure: Failure
    """The code is one of context_overflow, rate_limited, quota_exhausted, unauthorized, model_not_found, unavailable,
    bad_request, engine_error, malformed_answer."""
    overflow: Overflow | None = None


class _Told(NamedTuple):
    """The fields of an error body."""

    message: str
    type: str = ""
    code: Any = None
    param: str | None = None


class _Meaning(NamedTuple):
    code: str
    retryable: bool
    answered_with: int | None = None
    """The HTTP status for the caller; None for the boundary's default."""
    remedy: str | None = None


def engine_failure(
    status: int, headers: Mapping[str, str], body: bytes | str, *, peer: str | None = None
) -> EngineRefusal:
    """Return the failure in an engine's error answer; `raise build_error(refusal.failure)` raises it."""
    told = _read(body, status)
    overflow = parse_overflow(status, told.message, told.code)
    meaning = _explain_status(status, told) if overflow is None else _explain_overflow(overflow)
    failure = Failure(
        boundary=Boundary.ENGINE,
        code=meaning.code,
        message=f"{told.message} (HTTP {status})",
        retryable=meaning.retryable,
        remedy=meaning.remedy,
        peer=peer,
        param=told.param,
        status=meaning.answered_with,
        retry_after_s=read_retry_after(headers) if meaning.retryable else None,
    )
    return EngineRefusal(failure, overflow)


def parse_answer(
    body: bytes, *, peer: str | None = None, parse: Callable[[bytes], Any] = orjson.loads
) -> dict[str, Any]:
    """Return the JSON object of an engine's HTTP 200 answer. Raises `EngineError` `malformed_answer` otherwise."""
    try:
        answer = parse(body)
    except orjson.JSONDecodeError as error:
        start = body[:200].decode("utf-8", "replace")
        raise EngineError(
            f"The engine's answer is not JSON ({error}). It starts with {start!r}.",
            code="malformed_answer",
            retryable=True,
            peer=peer,
        ) from error
    if not isinstance(answer, dict):
        raise EngineError("The engine's answer is not a JSON object.", code="malformed_answer", peer=peer)
    return answer


def is_error_body(body: Mapping[str, Any]) -> bool:
    """Return whether the body of an HTTP 200 answer is an error."""
    return body.get("object") == "error" or bool(body.get("error"))


def read_body_failure(body: Mapping[str, Any]) -> Failure:
    """Return the failure in an error body that was sent with HTTP 200."""
    told = _read_error_object(body)
    status = told.code if isinstance(told.code, int) and 400 <= told.code < 600 else 500
    return engine_failure(status, {}, orjson.dumps(body)).failure


def read_retry_after(headers: Mapping[str, str]) -> float | None:
    """Return the seconds to wait from `retry-after-ms` or `Retry-After`; dates are relative to the answer's `Date`."""
    lowered = {name.lower(): value.strip() for name, value in headers.items()}
    milliseconds, after = lowered.get("retry-after-ms"), lowered.get("retry-after")
    if milliseconds is not None and _is_number(milliseconds):
        return float(milliseconds) / 1000
    if after is None:
        return None
    if _is_number(after):
        return float(after)
    try:
        wait = parsedate_to_datetime(after) - parsedate_to_datetime(lowered["date"])
    except (KeyError, ValueError, TypeError):
        return None  # not a date, or no `Date` header
    return max(0.0, wait.total_seconds())


def _is_number(text: str) -> bool:
    return re.fullmatch(r"\d+(?:\.\d+)?", text) is not None


# --- Meaning ----------------------------------------------------------------------------------------------------


def _explain_overflow(overflow: Overflow) -> _Meaning:
    remedy = (
        "Lower `max_output_tokens`." if overflow.kind is OverflowKind.BUDGET else "Shorten the conversation."
    )
    return _Meaning("context_overflow", False, 400, remedy)


_MEANING_OF_STATUS: Mapping[int, _Meaning] = {
    401: _Meaning("unauthorized", False, remedy="Check the engine's API key."),
    403: _Meaning("unauthorized", False, remedy="Check the engine's API key and what it may use."),
    408: _Meaning("unavailable", True, 503),
    429: _Meaning("rate_limited", True, 429),
    502: _Meaning("unavailable", True, 503),
    503: _Meaning("unavailable", True, 503),
    504: _Meaning("unavailable", True, 503),
    529: _Meaning("unavailable", True, 503),
}

_NO_MODEL = _Meaning(
    "model_not_found", False, remedy="Compare the model's name with the engine's /v1/models."
)
_NO_ROUTE = _Meaning("bad_request", False, remedy="Check the engine's base URL.")
_NO_QUOTA = _Meaning("quota_exhausted", False, remedy="Raise the quota of the engine's account.")


def _explain_status(status: int, told: _Told) -> _Meaning:
    if status == 404:
        is_about_model = "model" in f"{told.message} {told.code} {told.param}".lower()
        return _NO_MODEL if is_about_model else _NO_ROUTE
    if status == 429 and told.code == "insufficient_quota":
        return _NO_QUOTA
    if status in _MEANING_OF_STATUS:
        return _MEANING_OF_STATUS[status]
    if status >= 500:
        return _Meaning("engine_error", True)
    if status >= 400:
        return _Meaning("bad_request", False, 400)
    return _Meaning("malformed_answer", False)


# --- Reading ----------------------------------------------------------------------------------------------------


def _read(body: bytes | str, status: int) -> _Told:
    text = body if isinstance(body, str) else body.decode("utf-8", "replace")
    try:
        parsed = orjson.loads(text)
    except orjson.JSONDecodeError:
        parsed = text  # Plain text, or a proxy's page.
    told = _read_error_object(parsed) if isinstance(parsed, dict) else _Told(_extract_plain_text(str(parsed)))
    message = told.message.strip() or "The engine gave no message"
    return told._replace(message=message[:_MAX_MESSAGE])


def _read_error_object(body: Mapping[str, Any]) -> _Told:
    error = body.get("error", body)
    if isinstance(error, str):
        return _Told(error)
    if not isinstance(error, dict):
        return _Told(orjson.dumps(error).decode())
    message = error.get("message") or error.get("detail") or error.get("msg") or error
    param = error.get("param")
    return _Told(
        message if isinstance(message, str) else orjson.dumps(message).decode(),
        str(error.get("type") or ""),
        error.get("code"),
        param if isinstance(param, str) else None,
    )


def _extract_plain_text(text: str) -> str:
    """Return `text`, or the title or text of an HTML page."""
    if "<" not in text:
        return text
    title = _TITLE.search(text)
    plain = title.group(1) if title else _TAG.sub(" ", text)
    return " ".join(html.unescape(plain).split()) or text
