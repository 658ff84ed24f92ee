"""Calls to replicas that move, and the directory that follows the moves."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from dataclasses import replace

import orjson
import pytest

from nemo_gym.config import bootstrap
from nemo_gym.config.bootstrap import Bootstrap
from nemo_gym.failures import TransportError
from nemo_gym.transport import Call, Caller, Deadline, Reply
from nemo_gym.transport.moving_caller import MovingCaller, build_caller, own_name
from nemo_gym.transport.moving_directory import MovingDirectory
from tests.transport.doubles import Peer, broken, reply
from tests.waiting import until

DOCUMENT = {"version": 1, "head": "http://127.0.0.1:9", "servers": {"env": [["http://a", 3]]}}
MOVED = {**DOCUMENT, "version": 2, "servers": {"env": [["http://b", 4]]}}


class Silent:
    """A peer that never answers."""

    def __init__(self) -> None:
        self.calls: list[Call] = []

    async def send(self, base_url: str, call: Call) -> Reply:
        self.calls.append(call)
        return await asyncio.get_running_loop().create_future()  # type: ignore[no-any-return]

    async def close(self) -> None: ...


@pytest.fixture
def given() -> Iterator[Bootstrap]:
    yield Bootstrap("agent", {}, "token", "cookie", [], replica=2)
    bootstrap.set_current(None)


def test_callers_follow_moves_only_where_replicas_move() -> None:
    assert type(build_caller({}, Silent(), "token")) is Caller
    assert isinstance(build_caller({"_ng_directory": DOCUMENT}, Silent(), "token"), MovingCaller)


def test_only_a_replica_that_can_move_has_a_name_of_its_own(given: Bootstrap) -> None:
    assert own_name() is None
    bootstrap.set_current(given)
    assert own_name() is None
    bootstrap.set_current(replace(given, generation=3))
    assert own_name() == "agent/2/3"


async def test_a_call_names_the_generation_that_it_means_and_its_sender(given: Bootstrap) -> None:
    bootstrap.set_current(replace(given, generation=1))
    peer = Peer(reply(200))
    caller = MovingCaller(MovingDirectory(DOCUMENT), peer, "token")
    assert (await caller.call("env", "POST", "/add", deadline=Deadline.after(30))).status == 200
    headers = peer.calls[0][1].headers
    assert (headers["x-ng-generation"], headers["x-ng-caller"]) == ("3", "agent/2/1")


@pytest.mark.parametrize("deadline_s", [None, 60.0])
async def test_a_call_whose_replica_is_lost_fails_so_that_another_attempt_is_made(
    deadline_s: float | None,
) -> None:
    peer, directory = Silent(), MovingDirectory(DOCUMENT)
    caller = MovingCaller(directory, peer, None)
    call = Call("POST", "/verify", session="task-1", repeatable=True)
    deadline = None if deadline_s is None else Deadline.after(deadline_s)
    calling = asyncio.create_task(caller.send("env", call, deadline))
    await until(lambda: peer.calls)
    directory.update(MOVED)
    with pytest.raises(
        TransportError, match="the node of `env` at http://a was lost during POST /verify"
    ) as caught:
        await calling
    assert (caught.value.failure.code, caught.value.failure.retryable) == ("node_lost", True)
    assert "session task-1" in caught.value.failure.message


async def test_the_directory_takes_a_later_version_and_survives_a_head_that_is_gone() -> None:
    directory = MovingDirectory(DOCUMENT)
    others = (reply(503), reply(200, b"<html>"), reply(200, b"{}"))
    peer = Peer(broken("connect_refused"), *others, reply(200, orjson.dumps(MOVED)))
    caller = MovingCaller(directory, peer, "the-token")
    for version in (1, 1, 1, 1, 2):
        await caller._ask()
        assert directory.version == version
    assert directory.replicas("env") == ("http://b",)
    asked = peer.calls[0][1]
    assert (asked.path, asked.headers) == ("/_ng/directory", {"x-ng-token": "the-token"})


async def test_the_directory_is_asked_for_until_the_event_loop_ends() -> None:
    peer = Peer(reply(200, orjson.dumps(MOVED)))
    caller = MovingCaller(MovingDirectory(DOCUMENT), peer, None)
    for _ in range(2):
        caller.follow_moves()
    await until(lambda: caller.directory.version == 2)
    assert len(peer.calls) == 1
    assert caller._following is not None
    assert not caller._following.done()
    caller._following.cancel()
