"""The parser reads the same response wherever the bytes are cut."""

from __future__ import annotations

import random
from collections.abc import Sequence
from itertools import product

import pytest

from nemo_gym.transport._answer_parser import AnswerError, AnswerParser, whole_reply
from tests.transport.raw_answers import LEFT_OVER, OK, ROWS, TWO, Row

Outcome = tuple[int, bytes] | str
STATUS_LINES = (OK, b"HTTP/1.1 404\r\n", b"HTTP/1.1 204 x\r\n", b"HTTP/1.0 200 OK\r\n", b"HTTP/1.1 100 x\r\n")
HEADERS = (
    b"",
    *(TWO, b"content-length:2 \r\n", b"Content-Length: 02\r\n", b"Content-Length: +2\r\n"),
    *(b"Content-Lengths: 3\r\n", b"content-length : 2\r\n", b" folded: 1\r\n", b"x-empty:\r\n"),
    *(b"X: \t a: b\xe9 \r\n", b"x: \x00\r\n", b"x: \n\r\n", b"x: a\rb\r\n", b"\r\n", b":\r\n", b"x y: 1\r\n"),
    *(b"Connection: close\r\n", b"Transfer-Encoding: chunked\r\n", b"CONTENT-encoding: gzip\r\n"),
)
"""Header lines, some of which frame the body or are malformed."""


def by_name(row: Row) -> str:
    return row.name


def read(row: Row, pieces: Sequence[bytes]) -> Outcome:
    """Parse the bytes without a socket."""
    parser = AnswerParser(row.method)
    try:
        for piece in pieces:
            parser.feed(piece)
            if parser.is_whole:
                break
        if not parser.is_whole:
            parser.end()
        reply = parser.reply()
    except AnswerError as error:
        return error.code
    return reply.status, reply.body


@pytest.mark.parametrize("row", ROWS, ids=by_name)
def test_it_does_not_matter_where_the_bytes_are_cut(row: Row) -> None:
    raw = row.raw
    cuts = range(len(raw)) if len(raw) < 2_000 else random.Random(row.name).sample(range(len(raw)), 50)
    for cut in cuts:
        assert read(row, [raw[:cut], raw[cut:]]) == row.expected
    if len(raw) < 20_000:
        assert read(row, [raw[at : at + 1] for at in range(len(raw))]) == row.expected


COMMON = [row for row in ROWS if row.method != "HEAD" and whole_reply(row.raw) is not None]


@pytest.mark.parametrize("row", COMMON, ids=by_name)
def test_an_answer_of_the_common_form_is_read_in_one_step_with_the_same_result(row: Row) -> None:
    parser, at_once = AnswerParser(row.method), whole_reply(row.raw)
    parser.feed(row.raw)
    assert at_once is not None
    assert parser.keeps_alive
    assert (at_once.status, at_once.body) == row.expected
    assert list(at_once.headers.items()) == list(parser.reply().headers.items())


def test_in_one_step_never_gives_another_result_than_the_incremental_parser() -> None:
    """For every status line with every zero, one or two headers."""
    for status_line, first, second, body in product(STATUS_LINES, HEADERS, HEADERS, (b"ok", b"o")):
        raw = status_line + first + second + b"\r\n" + body
        at_once = whole_reply(raw)
        if at_once is not None:
            parser = AnswerParser("GET")
            parser.feed(raw)
            reply = parser.reply()
            assert parser.is_whole
            assert parser.keeps_alive
            assert (at_once.status, at_once.body) == (reply.status, reply.body)
            assert list(at_once.headers.items()) == list(reply.headers.items())


def test_the_common_form_is_common() -> None:
    """Otherwise the two tests above could not fail."""
    assert len(COMMON) >= 15
    headers = b"content-type: application/json\r\ncontent-length: 2\r\nset-cookie: a=1\r\n\r\n"
    assert whole_reply(OK + headers + b"{}") is not None
    for other in (b"{", b"{}\n"):
        assert whole_reply(OK + headers + other) is None


@pytest.mark.parametrize("row", ROWS, ids=by_name)
def test_an_answer_that_is_cut_short_is_never_a_whole_one(row: Row) -> None:
    """Every beginning is either an error, or where the end of the connection ends the body, a beginning of it."""
    if isinstance(row.expected, str) or row in LEFT_OVER:
        return
    status, body = row.expected
    ends_with_the_connection = row.raw.endswith(b"\r\n\r\n" + body) and read_to_end(row)
    for cut in range(0, len(row.raw), max(1, len(row.raw) // 500)):
        outcome = read(row, [row.raw[:cut]])
        if ends_with_the_connection and not isinstance(outcome, str):
            assert outcome == (status, outcome[1])
            assert body.startswith(outcome[1])
        else:
            assert outcome == "disconnected"


def read_to_end(row: Row) -> bool:
    parser = AnswerParser(row.method)
    parser.feed(row.raw)
    return not parser.is_whole
