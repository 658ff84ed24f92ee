from __future__ import annotations

from typing import Any

import orjson
import pytest

from nemo_gym.failures import InputError
from nemo_gym.rollouts.plan.task_rows import TaskShaper
from nemo_gym.rollouts.sessions.book import GroupBook
from nemo_gym.rollouts.sessions.state import restore_book, write_state
from tests.rollouts.doubles import Agents, run_virtually
from tests.rollouts.sessions.books import options
from tests.rollouts.sessions.sessions import read, running, task


def restored(state: dict[str, Any]) -> tuple[GroupBook, dict[int, bytes]]:
    book = GroupBook(options(**state["options"]))
    return book, restore_book(book, state, TaskShaper())


@pytest.mark.parametrize("with_rows", [True, False])
def test_a_session_stopped_after_any_delivery_goes_on_with_the_same_tasks(with_rows: bool) -> None:
    async def main() -> None:
        tasks = [task(number) for number in range(20)]
        for stop_after in range(0, 21, 4):
            seen: list[str] = []
            async with running(Agents(seconds=1.0), num_samples_in_parallel=4) as session:
                session.submit(tasks, ends=True)
                if stop_after:
                    first = await read(session, stop_after)
                    session.consume([line["cursor"] for line in first[1:]], None, refused=False)
                    seen += [line["key"] for line in first[1:]]
                state = orjson.loads(write_state(session, with_rows=with_rows))
            book, lines = restored(state)
            async with running(Agents(), book=book) as session:
                session.restore(lines, ends=state["ended"])
                *rest, _ = await read(session)
                seen += [line["key"] for line in rest]
                session.consume([line["cursor"] for line in rest], None, refused=False)
            assert sorted(seen) == sorted(each.key for each in tasks)
            assert len({line["cursor"] for line in rest}) == len(rest)

    run_virtually(main())


def test_a_delivered_group_has_its_cursor_and_its_place_again() -> None:
    async def main() -> None:
        given: dict[str, Any] = {"groups_per_step": 2, "staleness": {"bound": 1}}
        async with running(Agents(), **given) as session:
            session.submit([task(0), task(1)])
            lines = await read(session, 2)
            state = orjson.loads(write_state(session, with_rows=True))
        book, kept = restored(state)
        assert [orjson.loads(line) for line in kept.values()] == lines
        assert book.capacity.taken == 2
        assert book.consume([0, 1], 0) == 2
        assert not book.submit("task 0", 0, task(0).digest, None)

    run_virtually(main())


@pytest.mark.parametrize(
    ("change", "told"),
    [({"schema": 9}, "schema 9"), ({"tasks": [{}]}, "damaged"), ({"lines": [{}]}, "damaged")],
)
def test_a_state_that_is_none_is_refused(change: dict[str, Any], told: str) -> None:
    state = {
        "schema": 1,
        "options": {},
        "version": 0,
        "next_number": 0,
        "next_cursor": 0,
        "known": {},
        "tasks": [],
        "lines": [],
        "counters": {"submitted": 0, "cancelled": {}},
    }
    restored(state)
    with pytest.raises(InputError, match=told):
        restored({**state, **change})
