"""The likeliest mistakes with a session, and their messages. Those of its routes are in tests/head."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import aclosing
from typing import Any

import pytest

from nemo_gym.client import AsyncGym, Gym, GymAddress
from nemo_gym.client._session_mistakes import describe_stall
from nemo_gym.failures import GymError, InputError
from tests.client.gyms import TOKEN, LoopbackGym, gym_in_a_thread, rows, running_gym


@pytest.fixture
async def gym() -> AsyncIterator[AsyncGym]:
    async with running_gym() as running:
        yield client_of(running)


def client_of(running: LoopbackGym) -> AsyncGym:
    return AsyncGym(GymAddress(running.url, TOKEN))


async def test_options_are_checked_before_the_session_opens(gym: AsyncGym) -> None:
    wrong: dict[str, Any] = {"group_sise": 8, "order": "lifo"}
    with pytest.raises(InputError, match="group_sise: there is no such field") as caught:
        async with gym.session(**wrong):
            raise AssertionError("the session does not open")
    assert "order: Input should be 'ready_first' or 'fifo'" in str(caught.value)


async def test_a_session_that_is_gone_cannot_be_attached(gym: AsyncGym) -> None:
    with pytest.raises(GymError, match="there is no session 'session-0'"):
        async with gym.session(attach="session-0"):
            raise AssertionError("the session is not there")


async def test_tasks_that_do_not_fit(gym: AsyncGym) -> None:
    async with gym.session(group_size=1) as session:
        with pytest.raises(InputError, match="2 rows have 1 keys"):
            await session.submit(rows(2), keys=["a"])
        with pytest.raises(InputError, match="line 1: `row` must be an object, not "):
            await session.submit(rows(1)[0])  # type: ignore[arg-type]  # one row in place of rows
        with pytest.raises(InputError, match="the key 'a' stands for two tasks"):
            await session.submit(rows(2), keys=["a", "a"])
        await session.submit(rows(1), keys=["a"], ends=True)
        with pytest.raises(InputError, match="the key 'a' was submitted with another task"):
            await session.submit(rows(2)[1:], keys=["a"])
        with pytest.raises(InputError, match=r"the input of session .* has ended"):
            await session.submit(rows(2)[1:], keys=["b"])


async def test_two_loops_do_not_share_a_session(gym: AsyncGym) -> None:
    async with gym.session(group_size=1) as session:
        await session.submit(rows(6), ends=True)
        async with aclosing(session.groups()) as first, aclosing(session.groups()) as second:
            found = [await anext(first)]
            found.append(await anext(second))
            with pytest.raises(InputError, match="another loop reads the groups of session-"):
                found += [group async for group in first]
            found += [group async for group in second]
        assert sorted(group.number for group in found) == list(range(6)), "none is lost or comes twice"


async def test_a_loop_that_was_left_does_not_hinder_the_next_one(gym: AsyncGym) -> None:
    async with gym.session(group_size=1) as session:
        await session.submit(rows(3), ends=True)
        found = []
        async for group in session:
            found.append(group.number)
            break
        found += [group.number async for group in session]
        assert sorted(found) == [0, 1, 2]


async def test_a_group_of_another_session_is_not_consumed(gym: AsyncGym) -> None:
    async with gym.session(group_size=1) as one, gym.session(group_size=1) as other:
        await one.submit(rows(1), keys=["a"])
        await other.submit(rows(1), keys=["b"])
        foreign, own = await anext(one.groups()), await anext(other.groups())
        assert foreign.cursor == own.cursor == 0
        with pytest.raises(InputError, match="the group of 'a' with the cursor 0 did not come from session-"):
            await other.consumed(foreign)
        for _ in range(2):  # a repetition changes nothing
            await other.consumed(own)
        assert (await one.describe())["groups"]["delivered"] == 1
        assert (await other.describe())["counters"]["consumed"] == 1


async def test_a_session_is_not_used_after_its_block(gym: AsyncGym) -> None:
    async with gym.session(group_size=1) as session:
        await session.submit(rows(1))
        group = await anext(session.groups())
    for use in (
        session.submit(rows(1)),
        session.consumed(group),
        session.describe(),
        anext(session.groups()),
    ):
        with pytest.raises(InputError, match="was closed or left"):
            await use


def test_a_session_of_synchronous_code_is_not_used_after_its_block() -> None:
    with gym_in_a_thread() as running:
        with Gym(GymAddress(running.url, TOKEN)).session(group_size=1) as session:
            session.submit(rows(1))
            group = next(session.groups())
        for use in (lambda: session.submit(rows(1)), lambda: session.consumed(group), session.describe):
            with pytest.raises(InputError, match="the rollout session has ended"):
                use()


def test_a_reader_that_waits_for_itself_is_told_what_to_do() -> None:
    assert "3 groups are delivered and not consumed" in str(
        describe_stall({"waits_for": "consumed", "delivered": 3})
    )
    assert "raise `groups_per_step`" in str(describe_stall({"waits_for": "version"}))
    assert "it is paused" in str(describe_stall({"waits_for": "resume"}))
    assert describe_stall({"waits_for": "rollouts"}) is None
