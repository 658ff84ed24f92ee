"""Codes of transport errors: the message names the peer, and `retryable` follows the table of the module."""

from __future__ import annotations

import pytest

from nemo_gym.transport import _errors
from nemo_gym.transport._errors import call_failed
from nemo_gym.transport.calls import UNDELIVERED_CODES

LINES = (_errors.__doc__ or "").splitlines()
TABLE = [line.split() for line in LINES[3:]]


@pytest.mark.parametrize(
    ("code", "delivered", "retryable"), [row[:3] for row in TABLE], ids=lambda cell: cell
)
def test_a_code_is_as_retryable_as_the_table_says(code: str, delivered: str, retryable: str) -> None:
    failure = call_failed(code, "http://a:1", "detail").failure
    assert failure.code == code
    assert failure.retryable is retryable.startswith("yes")
    assert (code in UNDELIVERED_CODES) is (delivered == "no")


def test_the_table_has_every_code() -> None:
    assert len(TABLE) == 13
    assert {row[0] for row in TABLE} >= UNDELIVERED_CODES


def test_the_message_names_the_peer_and_the_detail() -> None:
    error = call_failed("connect_refused", "http://a:1", OSError(111, "refused"))
    assert "http://a:1 refuses the connection" in str(error)
    assert "refused" in str(error)
    assert error.failure.peer == "http://a:1"
    assert "(TimeoutError)" in str(call_failed("answer_timeout", "http://a:1", TimeoutError()))
