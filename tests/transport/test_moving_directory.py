"""A directory whose replicas move, are added and are removed."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from nemo_gym.failures import TransportError
from nemo_gym.transport import Directory
from nemo_gym.transport.moving_directory import MovingDirectory, build_directory


def moving(version: int, *replicas: tuple[str, int]) -> dict[str, Any]:
    return {"version": version, "head": "http://head", "servers": {"env": [list(pair) for pair in replicas]}}


def replicas(count: int) -> list[tuple[str, int]]:
    return [(f"http://{n}", 1) for n in range(count)]


def test_only_the_directory_of_a_gym_on_several_machines_moves() -> None:
    assert type(build_directory({})) is Directory
    assert isinstance(build_directory({"_ng_directory": moving(1)}), MovingDirectory)


def test_a_replica_that_moves_keeps_its_sessions() -> None:
    directory = MovingDirectory(moving(1, ("http://a", 1), ("http://b", 1)))
    before = {str(n): directory.choose("env", str(n)) for n in range(100)}
    directory.update(moving(2, ("http://a", 1), ("http://c", 2)))
    moved = {"http://a": "http://a", "http://b": "http://c"}
    assert {session: moved[url] for session, url in before.items()} == {
        session: directory.choose("env", session) for session in before
    }
    assert (directory.version, directory.generation("http://c")) == (2, 2)


def test_an_earlier_version_changes_nothing() -> None:
    directory = MovingDirectory(moving(2, ("http://a", 2)))
    directory.update(moving(1, ("http://b", 1)))
    assert directory.replicas("env") == ("http://a",)


def test_sessions_stay_when_replicas_are_added_and_later_sessions_use_them() -> None:
    directory = MovingDirectory(moving(1, *replicas(3)))
    before = {str(n): directory.choose("env", str(n)) for n in range(300)}
    directory.update(moving(2, *replicas(4)))
    assert before == {session: directory.choose("env", session) for session in before}
    fresh = MovingDirectory(moving(2, *replicas(4)))
    moved = {session for session, url in before.items() if fresh.choose("env", session) != url}
    assert {fresh.choose("env", session) for session in moved} == {"http://3"}
    assert 0.15 < len(moved) / len(before) < 0.35, "the share of one replica of four"


def test_only_the_sessions_of_a_removed_replica_are_lost() -> None:
    directory = MovingDirectory(moving(1, *replicas(3)))
    before = {str(n): directory.choose("env", str(n)) for n in range(100)}
    directory.update(moving(2, *replicas(2)))
    for session, url in before.items():
        if url != "http://2":
            assert directory.choose("env", session) == url
            continue
        with pytest.raises(TransportError, match="replica 2 of `env` was removed") as caught:
            directory.choose("env", session)
        assert (caught.value.failure.code, caught.value.failure.retryable) == ("node_lost", True)


def test_a_caller_of_an_earlier_generation_is_lost() -> None:
    directory = MovingDirectory(moving(1, ("http://a", 1), ("http://b", 2)))
    lost = [directory.has_lost(f"env/{each}") for each in ("0/1", "1/1", "1/2", "2/1", "x", "")]
    assert lost == [False, True, False, True, True, True]


@pytest.mark.parametrize("later", [("http://c", 2), ("http://a", 2)], ids=["address", "generation"])
async def test_calls_in_flight_to_a_replica_that_has_moved_are_cancelled(later: tuple[str, int]) -> None:
    directory = MovingDirectory(moving(1, ("http://a", 1)))

    async def call() -> None:
        with directory.calling("http://a") as calling:
            try:
                await asyncio.get_running_loop().create_future()
            except asyncio.CancelledError:
                assert calling.takes_back_cancellation()

    task = asyncio.create_task(call())
    await asyncio.sleep(0)
    directory.update(moving(2, later))
    await task
    assert not task.cancelled()


async def test_calls_to_a_lost_replica_end_in_the_order_in_which_they_began() -> None:
    """The simulation replays a run exactly, so no order may depend on addresses in memory."""
    directory, ended = MovingDirectory(moving(1, ("http://a", 1))), []

    async def call(number: int) -> None:
        with directory.calling("http://a"):
            try:
                await asyncio.get_running_loop().create_future()
            finally:
                ended.append(number)

    tasks = [asyncio.create_task(call(number)) for number in range(50)]
    await asyncio.sleep(0)
    directory.update(moving(2, ("http://a", 2)))
    await asyncio.gather(*tasks, return_exceptions=True)
    assert ended == list(range(50))


async def test_calls_to_other_replicas_go_on() -> None:
    directory = MovingDirectory(moving(1, ("http://a", 1), ("http://b", 1)))
    with directory.calling("http://a") as calling:
        directory.update(moving(2, ("http://a", 1), ("http://c", 2)))
        assert not calling.takes_back_cancellation()


def test_replicas_that_leave_keep_their_sessions_and_get_no_new_ones() -> None:
    directory = MovingDirectory(moving(1, *replicas(3)))
    before = {str(n): directory.choose("env", str(n)) for n in range(100)}
    directory.update({**moving(2, *replicas(3)), "taking": {"env": 2}})
    assert before == {session: directory.choose("env", session) for session in before}
    later = {directory.choose("env", f"later-{n}") for n in range(100)}
    assert later == {directory.choose("env", None) for _ in range(4)} == {"http://0", "http://1"}
