"""The parser reads the same response wherever the bytes are cut."""

from __future__ import annotations

import random
from collections.abc import Sequence

import pytest

from nemo_gym.transport._answer_parser import AnswerError, AnswerParser
from tests.transport.raw_answers import LEFT_OVER, ROWS, Row

Outcome = tuple[int, bytes] | str


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
