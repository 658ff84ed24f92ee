"""Whose fault a failed tool call is, by the answer of the environment."""

from __future__ import annotations

from typing import Any

import orjson
import pytest

from nemo_gym.agents.tool_answers import classify_answer
from nemo_gym.failures import EngineError, GymError, InputError, ToolError, TransportError, VerifierError
from nemo_gym.names import PLACE_HEADER
from nemo_gym.rows.tool_errors import ToolErrorKind

PROBLEM = {"loc": ["body", "digits"], "msg": "Field required", "type": "missing"}


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (VerifierError("ValueError: boom", code="unhandled_exception", status=500), "raised"),
        (ToolError("it crashed", code="tool_crashed"), "raised"),
        (InputError("there is no route", code="no_route", status=404), "no_route"),
        (InputError("GET only", code="method_not_allowed", status=405), "no_route"),
        (InputError("digits: Field required", code="invalid_request"), "mismatch"),
        (TransportError("the judge is gone", code="connect_refused", retryable=True), "unavailable"),
        (EngineError("busy", code="rate_limited", retryable=True, status=429), "unavailable"),
        (ToolError("no such note", code="tool_failed", status=422), "rejected"),
        (InputError("not now", code="no_episode", status=409), "rejected"),
    ],
)
def test_an_answer_of_the_gym_is_told_by_its_code(error: GymError, kind: str) -> None:
    failure = error.failure
    failed = classify_answer("guess", failure.http_status, orjson.dumps(failure.to_wire()))
    assert (failed.tool, failed.kind, failed.cause) == ("guess", ToolErrorKind(kind), failure.message)


@pytest.mark.parametrize(
    ("status", "detail", "kind", "cause"),
    [
        (400, "no such drawer", "rejected", "HTTP 400: no such drawer"),
        (404, "Not Found", "rejected", "HTTP 404: Not Found"),
        (422, "seven digits", "rejected", "HTTP 422: seven digits"),
        (422, [PROBLEM], "mismatch", None),
        (422, [], "rejected", None),
        (408, "too slow", "unavailable", "HTTP 408: too slow"),
        (429, "too many", "unavailable", "HTTP 429: too many"),
        (503, "no backend", "unavailable", "HTTP 503: no backend"),
        (500, "stuck", "raised", "HTTP 500: stuck"),
        (599, {"why": 1}, "raised", 'HTTP 599: {"detail":{"why":1}}'),
    ],
)
def test_an_answer_of_the_author_is_told_by_its_status(
    status: int, detail: Any, kind: str, cause: str | None
) -> None:
    body = orjson.dumps({"detail": detail})
    failed = classify_answer("guess", status, body, {PLACE_HEADER: "app.py:3"})
    assert (failed.kind, failed.place) == (ToolErrorKind(kind), "app.py:3")
    assert cause is None or failed.cause == cause


@pytest.mark.parametrize("body", [b"", b"\xff", b"<html>", b"[1]", b'{"error": "x"}'])
def test_any_other_body_is_quoted(body: bytes) -> None:
    failed = classify_answer("guess", 500, body)
    assert failed.kind is ToolErrorKind.RAISED
    assert failed.cause.startswith("HTTP 500: ")
    assert failed.place is None
