"""The routes of sessions, and the likeliest mistakes with their messages."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import aiohttp
import orjson
import pytest

from nemo_gym.names import ROLLOUT_SESSIONS_ROUTE, TOKEN_HEADER
from tests.client.gyms import TOKEN, LoopbackGym, rows, running_gym
from tests.waiting import until


class Caller:
    """Makes requests to the head server."""

    def __init__(self, gym: LoopbackGym, http: aiohttp.ClientSession) -> None:
        self._url = gym.url + ROLLOUT_SESSIONS_ROUTE
        self._http = http

    async def __call__(
        self, method: str, path: str = "", body: Any = None, **headers: str
    ) -> tuple[int, Any]:
        content = body if isinstance(body, bytes) else orjson.dumps(body) if body is not None else None
        sent = {TOKEN_HEADER: TOKEN, "content-type": "application/json", **headers}
        async with self._http.request(method, self._url + path, data=content, headers=sent) as answer:
            return answer.status, await answer.json()

    async def open(self, **options: Any) -> str:
        status, told = await self("POST", "", {"group_size": 1, **options})
        assert status == 200, told
        return f"/{told['id']}"

    async def submit(self, session: str, count: int, **fields: Any) -> tuple[int, Any]:
        lines = [orjson.dumps({"row": row, **fields}) for row in rows(count)]
        return await self("POST", f"{session}/tasks", b"\n".join(lines))


@pytest.fixture
async def gym() -> AsyncIterator[LoopbackGym]:
    async with running_gym() as gym:
        yield gym


@pytest.fixture
async def call(gym: LoopbackGym) -> AsyncIterator[Caller]:
    async with aiohttp.ClientSession() as http:
        yield Caller(gym, http)


def message(told: Any) -> str:
    return f"{told['error']['message']} {told['error']['remedy']}"


MISTAKES: dict[str, tuple[str, Any, int, str]] = {
    "an unknown option": ("", {"group_sise": 8}, 422, "group_sise: there is no such field; fields are "),
    "an option of a wrong kind": (
        "",
        {"group_size": "many"},
        422,
        "group_size: Input should be a valid integer",
    ),
    "all problems at once": (
        "",
        {"group_size": 0, "order": "lifo"},
        422,
        "order: Input should be 'ready_first' or 'fifo'",
    ),
    "options that contradict each other": (
        "",
        {"group_size": 2, "min_members": 3},
        422,
        "min_members 3 is more",
    ),
    "a policy that does not exist": (
        "",
        {"staleness": {"bound": 1, "of": "token", "then": "drop"}},
        422,
        "`then: drop` does not go with `of: token`, whose ways are `mask`",
    ),
    "a body that is not JSON": ("", b"{", 422, "the body is not JSON"),
    "a state that is damaged": (
        "",
        {"state": {"schema": 1}},
        422,
        "the state is damaged: KeyError: 'version'",
    ),
    "a state of another version": (
        "",
        {"state": {"schema": 2}},
        422,
        "the state has schema 2, and this gym reads 1",
    ),
    "a session that is gone": ("/session-0/consumed", {}, 404, "there is no session 'session-0'"),
    "a row without its wrapper": (
        "{}/tasks",
        rows(1)[0],
        422,
        "line 1: there is no field 'responses_create_params'",
    ),
    "an agent that does not exist": (
        "{}/tasks",
        {"row": {**rows(1)[0], "agent_ref": {"name": "agnet"}}},
        422,
        "no agent is named `agnet`",
    ),
    "a key that stands for two tasks": (
        "{}/tasks",
        {"key": "a", "row": rows(2)[1]},
        409,
        "with another task",
    ),
    "a cursor that was not delivered": (
        "{}/consumed",
        {"cursors": [9]},
        422,
        "the cursor 9 was not delivered",
    ),
    "a version that the session was not told": (
        "{}/consumed",
        {"cursors": [], "version": 9},
        409,
        "consumed at version 9, and the session's version is 5",
    ),
    "a version that goes back": (
        "{}/version",
        {"version": 4},
        409,
        "version 4 is older than the session's, 5",
    ),
    "a version that is no number": (
        "{}/version",
        {"version": "six"},
        422,
        "version: Input should be a valid integer",
    ),
    "a group that is out already": (
        "{}/control",
        {"verb": "cancel", "key": "z"},
        409,
        "no group of the key 'z'",
    ),
    "a key for a verb without one": (
        "{}/control",
        {"verb": "pause", "key": "a"},
        422,
        "`pause` has no `key`",
    ),
    "an unknown verb": ("{}/control", {"verb": "stop"}, 422, "verb: Input should be 'pause', 'resume'"),
    "a route that does not exist": ("{}/group", {}, 404, "a session has no route POST group"),
}


@pytest.mark.parametrize("mistake", MISTAKES)
async def test_a_mistake_is_named(call: Caller, mistake: str) -> None:
    path, body, status, told = MISTAKES[mistake]
    session = await call.open()
    await call.submit(session, 1, key="a")
    await call("POST", f"{session}/version", {"version": 5})
    found, answer = await call("POST", path.format(session), body)
    assert (found, told) == (status, told if told in message(answer) else message(answer))


async def test_without_the_token_nothing_is_reached(call: Caller, gym: LoopbackGym) -> None:
    session = await call.open()
    for method, path in (("POST", ""), ("GET", session), ("POST", f"{session}/control"), ("DELETE", session)):
        status, _ = await call(method, path, {}, **{TOKEN_HEADER: "wrong"})
        assert status == 401


async def test_a_tool_cannot_have_the_name_of_a_session_route() -> None:
    from nemo_gym.transport.control import is_control_route

    assert is_control_route("rollout-sessions")
    assert is_control_route("/rollout-sessions/x/../x/control")


async def test_a_dry_run_changes_nothing(call: Caller) -> None:
    session = await call.open()
    await call("POST", f"{session}/control", {"verb": "pause"})
    await call.submit(session, 1, key="a")
    before = (await call("GET", session))[1]
    for body in ({"verb": "cancel", "key": "a"}, {"verb": "requeue", "key": "a"}, {"verb": "resume"}):
        status, told = await call("POST", f"{session}/control", {**body, "dry_run": True})
        assert (status, told["dry_run"]) == (200, True)
        assert told["changes"]
    assert (await call("GET", session))[1] == before


async def test_sessions_are_listed_and_ended(call: Caller, gym: LoopbackGym) -> None:
    session = await call.open()
    _, told = await call("GET")
    assert [f"/{each['id']}" for each in told["sessions"]] == [session]
    assert (await call("DELETE", session))[0] == 200
    await until(lambda: not gym.head._runs)
    assert (await call("GET", session))[0] == 404


async def test_a_session_that_nobody_asks_for_ends(call: Caller, gym: LoopbackGym) -> None:
    await call.open(grace_s=0.01)
    await until(lambda: not gym.head._runs)


async def test_a_reader_that_leaves_gives_the_stream_free(gym: LoopbackGym, call: Caller) -> None:
    session = await call.open()
    await call.submit(session, 1)
    headers = {TOKEN_HEADER: TOKEN}
    url = f"{gym.url}{ROLLOUT_SESSIONS_ROUTE}{session}/groups"

    async def read(reader: str) -> bytes:
        async with (
            aiohttp.ClientSession(headers=headers) as http,
            http.get(f"{url}?reader={reader}") as answer,
        ):
            return await answer.content.readline()

    first = await read("one")
    await until(lambda: not gym.head._sessions._sessions[session[1:]].reading.is_active)
    assert await read("two") == first
