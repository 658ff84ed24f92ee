"""Sessions over agents in memory, in virtual time."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import orjson

from nemo_gym.names import ALIVE_KEY, END_KEY
from nemo_gym.rollouts.plan.task_rows import TaskShaper
from nemo_gym.rollouts.run.stopping import StopReason
from nemo_gym.rollouts.sessions.book import GroupBook
from nemo_gym.rollouts.sessions.session import RolloutSession
from nemo_gym.rollouts.sessions.tasks import SubmittedTask, compute_digest
from tests.rollouts.doubles import Agents, task_row
from tests.rollouts.sessions.books import options


def task(number: int, *, key: str | None = None, round: int = 0) -> SubmittedTask:
    row = task_row(number)
    return SubmittedTask(key or f"task {number}", round, compute_digest(row), TaskShaper().shape_row(row))


@asynccontextmanager
async def running(
    agents: Agents, *, book: GroupBook | None = None, **given: Any
) -> AsyncIterator[RolloutSession]:
    session = RolloutSession("session-1", book.options if book else options(**given), agents, book=book)
    run = asyncio.create_task(session.run())
    try:
        yield session
    finally:
        session.stop(StopReason("deleted", "the test is over"))
        await run


async def read(session: RolloutSession, count: int | None = None, *, after: int = -1) -> list[dict[str, Any]]:
    """Read `count` groups, or all with the end line."""
    found: list[dict[str, Any]] = []
    number = session.reading.begin("reader", takeover=False)
    lines = session.read(after, number)
    async for line in lines:
        each = orjson.loads(line)
        if ALIVE_KEY not in each:
            found.append(each)
        if len(found) == count:
            break
    await lines.aclose()
    session.reading.end(number)
    assert count is not None or END_KEY in found[-1]
    return found
