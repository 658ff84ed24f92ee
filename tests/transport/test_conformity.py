"""Our client and aiohttp read the same bytes in the same way, unless ours is stricter for a reason."""

from __future__ import annotations

import random
from collections.abc import Sequence

import aiohttp
import pytest

from nemo_gym.failures import TransportError
from nemo_gym.transport import Call
from nemo_gym.transport._plain_http import PlainHttp
from tests.transport.loopback import answering
from tests.transport.raw_answers import ROWS, Row

Outcome = tuple[int, bytes] | str
FAILED = "failed"


async def outcome_of_ours(row: Row, pieces: Sequence[bytes]) -> Outcome:
    client = PlainHttp()
    async with answering(pieces, stays_open=row.stays_open) as url:
        try:
            reply = await client.send(url, Call(row.method, "/"))
        except TransportError as error:
            return error.failure.code
        finally:
            await client.close()
    return reply.status, reply.body


async def outcome_of_aiohttp(row: Row) -> Outcome:
    async with (
        answering([row.raw], stays_open=row.stays_open) as url,
        aiohttp.ClientSession(skip_auto_headers=("Accept-Encoding",)) as session,
    ):
        try:
            async with session.request(row.method, url, allow_redirects=False) as answer:
                return answer.status, await answer.read()
        except (aiohttp.ClientError, OSError):
            return FAILED


def pieces_of(raw: bytes, most: int, seed: str) -> list[bytes]:
    """`raw` cut at random places."""
    cuts = sorted(random.Random(seed).sample(range(len(raw) + 1), min(most, len(raw) + 1)))
    return [raw[start:end] for start, end in zip([0, *cuts], [*cuts, len(raw)], strict=True)]


def by_name(row: Row) -> str:
    return row.name


def test_the_table_is_whole() -> None:
    assert len(ROWS) >= 60
    assert len({row.name for row in ROWS}) == len(ROWS)


@pytest.mark.parametrize("row", ROWS, ids=by_name)
async def test_ours_makes_of_it_what_the_table_says(row: Row) -> None:
    assert await outcome_of_ours(row, [row.raw]) == row.expected
    assert await outcome_of_ours(row, pieces_of(row.raw, 8, row.name)) == row.expected


@pytest.mark.parametrize("row", ROWS, ids=by_name)
async def test_aiohttp_makes_the_same_of_it_or_the_table_says_why_not(row: Row) -> None:
    expected = FAILED if isinstance(row.expected, str) else row.expected
    theirs = await outcome_of_aiohttp(row)
    assert theirs == expected or row.differs, theirs  # a later aiohttp may come nearer to ours


# --- Two calls over one connection ------------------------------------------------------------------------------


# --- What an error means for another attempt --------------------------------------------------------------------
