from typing import Any

import orjson
import pytest

from nemo_gym.failures import Boundary, EngineError, build_error
from nemo_gym.responses import engine_failure, parse_answer
from nemo_gym.responses.engine_errors import is_error_body, read_body_failure, read_retry_after

OVERFLOW = (
    "This model's maximum context length is 4096 tokens. However, your request has 5000 input tokens. "
    "Please reduce the length of the input messages."
)


def nested(message: str, code: Any = 400, param: str | None = None, kind: str = "BadRequestError") -> bytes:
    return orjson.dumps({"error": {"message": message, "type": kind, "param": param, "code": code}})


def flat(message: str, code: Any = 400) -> bytes:
    return orjson.dumps(
        {"object": "error", "message": message, "type": "BadRequestError", "param": None, "code": code}
    )


@pytest.mark.parametrize("envelope", [nested, flat])
def test_both_envelopes_are_read(envelope: Any) -> None:
    failure = engine_failure(400, {}, envelope("Bad thing."), peer="http://engine").failure
    assert failure.boundary is Boundary.ENGINE
    assert failure.message == "Bad thing. (HTTP 400)"
    assert (failure.code, failure.retryable, failure.http_status) == ("bad_request", False, 400)
    assert failure.peer == "http://engine"


@pytest.mark.parametrize(
    ("status", "body", "code", "retryable", "answered_with"),
    [
        (400, nested("`tools` must not be an empty array."), "bad_request", False, 400),
        (422, nested("Input should be a valid integer"), "bad_request", False, 400),
        (400, nested(OVERFLOW, param="input_tokens"), "context_overflow", False, 400),
        (500, flat(OVERFLOW, 500), "context_overflow", False, 400),
        (400, nested("Too long.", "context_length_exceeded"), "context_overflow", False, 400),
        (401, nested("Incorrect API key provided.", "invalid_api_key"), "unauthorized", False, 502),
        (403, nested("Forbidden."), "unauthorized", False, 502),
        (404, nested("The model `x` does not exist.", 404), "model_not_found", False, 502),
        (404, b'{"detail":"Not Found"}', "bad_request", False, 502),
        (408, b"", "unavailable", True, 503),
        (429, nested("Rate limit reached.", "rate_limit_exceeded"), "rate_limited", True, 429),
        (429, nested("You exceeded your quota.", "insufficient_quota"), "quota_exhausted", False, 502),
        (500, nested("Internal server error", 500), "engine_error", True, 502),
        (502, b"<html><head><title>502 Bad Gateway</title></head></html>", "unavailable", True, 503),
        (503, b"loading", "unavailable", True, 503),
        (504, b"<html>upstream timed out</html>", "unavailable", True, 503),
        (200, b"<html>welcome</html>", "malformed_answer", False, 502),
    ],
)
def test_the_meaning_of_each_answer(
    status: int, body: bytes, code: str, retryable: bool, answered_with: int
) -> None:
    failure = engine_failure(status, {}, body).failure
    assert (failure.code, failure.retryable, failure.http_status) == (code, retryable, answered_with)


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (
            b"<html><head><title>502 Bad &amp; Gateway</title></head><body>nginx</body></html>",
            "502 Bad & Gateway",
        ),
        (b"<html><style>a{}</style><body><h1>No</h1>\n<p>way</p></body></html>", "No way"),
        (b"upstream connect error", "upstream connect error"),
        (b'{"error": "model is loading"}', "model is loading"),
        (b'{"detail": "Not Found"}', "Not Found"),
        (b'{"detail": [{"loc": ["body"]}]}', '[{"loc":["body"]}]'),
        (b'{"message": "no"}', "no"),
        (b'{"error": {"message": "cut of', '{"error": {"message": "cut of'),
        (b"[1]", "[1]"),
        (b"\xff\xfe", "\ufffd\ufffd"),
        (b"", "The engine gave no message"),
    ],
)
def test_the_message_starts_with_what_the_engine_said(body: bytes, message: str) -> None:
    assert engine_failure(502, {}, body).failure.message == f"{message} (HTTP 502)"


def test_a_page_is_not_quoted_without_end() -> None:
    assert len(engine_failure(500, {}, b"x" * 100_000).failure.message) < 2100


def test_an_overflow_comes_with_its_numbers_and_the_field_at_fault() -> None:
    refusal = engine_failure(400, {}, nested(OVERFLOW, param="input_tokens"))
    assert refusal.overflow is not None
    assert (refusal.overflow.limit, refusal.overflow.prompt, refusal.overflow.room) == (4096, 5000, -904)
    assert refusal.failure.param == "input_tokens"


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({}, None),
        ({"Retry-After": "7"}, 7.0),
        ({"retry-after": " 1.5 "}, 1.5),
        ({"retry-after-ms": "250", "retry-after": "7"}, 0.25),
        ({"Retry-After": "soon"}, None),
        ({"Retry-After": "Wed, 21 Oct 2015 07:28:30 GMT", "Date": "Wed, 21 Oct 2015 07:28:00 GMT"}, 30.0),
        ({"Retry-After": "Wed, 21 Oct 2015 07:27:00 GMT", "Date": "Wed, 21 Oct 2015 07:28:00 GMT"}, 0.0),
        ({"Retry-After": "Wed, 21 Oct 2015 07:28:30 GMT"}, None),
    ],
)
def test_the_time_to_wait_is_what_the_engine_says(headers: dict[str, str], seconds: float | None) -> None:
    assert read_retry_after(headers) == seconds
    assert engine_failure(429, headers, b"").failure.retry_after_s == seconds


def test_a_failure_can_be_raised() -> None:
    with pytest.raises(EngineError, match="Bad thing"):
        raise build_error(engine_failure(400, {}, nested("Bad thing.")).failure)


def test_a_whole_answer_is_parsed() -> None:
    assert parse_answer(b'{"choices": []}') == {"choices": []}


@pytest.mark.parametrize("body", [b'{"choices": [{"mess', b"<html>hi</html>", b"", b"[1]", b'"text"'])
def test_a_torn_answer_is_malformed(body: bytes) -> None:
    with pytest.raises(EngineError) as caught:
        parse_answer(body, peer="http://engine")
    assert (caught.value.failure.code, caught.value.failure.peer) == ("malformed_answer", "http://engine")


def test_an_error_behind_a_good_status_is_still_an_error() -> None:
    body = orjson.loads(flat(OVERFLOW))
    assert is_error_body(body)
    assert read_body_failure(body).code == "context_overflow"
    assert read_body_failure({"error": "out of memory"}).code == "engine_error"
    assert not is_error_body({"choices": [], "error": None, "object": "chat.completion"})
