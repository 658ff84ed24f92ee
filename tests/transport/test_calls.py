"""Replies as data: headers, cookies and JSON."""

from __future__ import annotations

import pytest
from multidict import CIMultiDict

from nemo_gym.transport.calls import Reply, cookie_header
from nemo_gym.transport.server_client import ServerReply


def test_raw_headers_are_decoded_in_any_case() -> None:
    reply = Reply(200, [(b"X-Name", b" M\xfcller\t"), (b"x-two", b"1"), (b"X-Two", b"2")], b"")
    assert reply.headers["x-name"] == "Müller"
    assert reply.headers.getall("x-two") == ["1", "2"]


def test_cookies_of_a_reply_can_be_sent_back() -> None:
    headers = CIMultiDict([("set-cookie", "a=1; Path=/"), ("set-cookie", 'b="x y"; HttpOnly')])
    cookies = ServerReply(Reply(200, headers, b""), "GET", "/").cookies
    assert cookies["b"].value == "x y"
    assert cookie_header(cookies) == 'a=1; b="x y"'
    assert cookie_header({"a": "1", "b": 2}) == "a=1; b=2"


@pytest.mark.parametrize(
    ("status", "ok"), [(200, True), (304, True), (399, True), (400, False), (503, False)]
)
def test_an_error_status_is_not_ok(status: int, ok: bool) -> None:
    assert Reply(status, CIMultiDict(), b"").ok is ok


def test_a_body_that_is_not_json_is_a_value_error() -> None:
    assert Reply(200, [], b'{"a": 1}').json() == {"a": 1}
    with pytest.raises(ValueError, match="unexpected"):
        Reply(200, [], b"<html>").json()
