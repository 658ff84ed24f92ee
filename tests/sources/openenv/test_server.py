"""The routes of an OpenEnv server, on a real socket."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import aiohttp
import pytest
from aiohttp import web

from nemo_gym.sources.openenv.server import OpenEnvServer
from tests.sources.openenv.environments import CountServer, build_gym, build_tasks


@asynccontextmanager
async def running(token: str | None = None) -> AsyncIterator[tuple[aiohttp.ClientSession, CountServer]]:
    """Serve on a free port, and return a client of it."""
    gym, counting = build_gym()
    server = OpenEnvServer(gym.client(), "counting", build_tasks(), version="1.2.3", token=token)
    runner = web.AppRunner(server.build_app())
    await runner.setup()
    try:
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        port = runner.addresses[0][1]
        async with aiohttp.ClientSession(f"http://127.0.0.1:{port}") as client:
            yield client, counting
    finally:
        await runner.cleanup()


async def get(client: aiohttp.ClientSession, path: str) -> Any:
    async with client.get(path) as answer:
        assert answer.status == 200
        return await answer.json()


async def post(client: aiohttp.ClientSession, path: str, body: Any, status: int = 200) -> Any:
    async with client.post(path, json=body) as answer:
        assert answer.status == status, await answer.text()
        return await answer.json()


async def test_the_routes_that_describe_it() -> None:
    async with running() as (client, _):
        assert await get(client, "/health") == {"status": "healthy"}
        assert await get(client, "/metadata") == {
            "name": "counting",
            "description": "counting",
            "version": "1.2.3",
        }
        assert set(await get(client, "/schema")) == {"action", "observation", "state"}
        assert {"/reset", "/step", "/state"} <= set((await get(client, "/openapi.json"))["paths"])
        assert await get(client, "/state") == {"episode_id": None, "step_count": 0}


async def test_tasks_are_found_by_split_and_place() -> None:
    async with running() as (client, _):
        assert await get(client, "/list_environments") == ["counting"]
        assert [split["name"] for split in await get(client, "/counting/splits")] == ["train", "mine"]
        train = {"split": "train"}
        assert (await post(client, "/counting/num_tasks", train))["num_tasks"] == 3
        found = await post(client, "/counting/tasks", train)
        assert [task["level"] for task in found["tasks"]] == [0, 1, 2]
        assert found["env_name"] == "counting"
        one = await post(client, "/counting/task", {**train, "index": 1})
        assert one["task"]["level"] == 1
        part = await post(client, "/counting/task_range", {**train, "start": 1, "stop": None})
        assert [task["level"] for task in part["tasks"]] == [1, 2]


@pytest.mark.parametrize(
    ("path", "body", "status", "told"),
    [
        ("/counting/tasks", {"split": "dev"}, 404, "no split 'dev'"),
        ("/counting/task", {"split": "train", "index": 9}, 422, "no task 9"),
        ("/counting/task", {"split": "train"}, 422, "`index` is None"),
        ("/counting/task_range", {"split": "train", "start": "a"}, 422, "`start` is 'a'"),
        ("/counting/tasks", [1], 422, "not a JSON object"),
        ("/reset", {"split": "dev"}, 404, "no split 'dev'"),
        ("/step", {"action": {"message": "a"}}, 409, "an episode lives on a web socket"),
    ],
)
async def test_a_wrong_request_is_told(path: str, body: Any, status: int, told: str) -> None:
    async with running() as (client, _):
        assert told in (await post(client, path, body, status))["detail"]


async def test_a_reset_by_http_opens_a_session_for_its_answer_only() -> None:
    async with running() as (client, counting):
        opened = await post(client, "/reset", {"index": 2})
        assert opened["observation"]["messages"][0]["content"] == "count 2"
        assert len(counting.middleware.access.sessions) == 0


async def test_episodes_live_side_by_side_on_their_sockets() -> None:
    async with running() as (client, counting):
        async with client.ws_connect("/ws") as one, client.ws_connect("/ws") as other:
            for by, socket in ((1, one), (2, other)):
                await socket.send_json({"type": "reset", "data": {}})
                call = {"type": "call_tool", "tool_name": "count", "arguments": {"by": by}}
                await socket.receive_json()
                await socket.send_json({"type": "step", "data": call})
                assert (await socket.receive_json())["data"]["observation"]["result"] == f'{{"total":{by}}}'
            await other.send_json({"type": "step", "data": {"message": "2"}})
            assert (await other.receive_json())["data"]["reward"] == 1.0
            await one.send_json({"type": "close"})
            assert (await one.receive()).type == aiohttp.WSMsgType.CLOSE
        assert len(counting.middleware.access.sessions) == 0


async def test_json_rpc_on_a_socket_has_an_episode() -> None:
    async with running() as (client, _), client.ws_connect("/mcp?split=train&index=1") as socket:
        params = {"name": "count", "arguments": {"by": 3}}
        await socket.send_json({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params})
        assert (await socket.receive_json())["result"]["content"][0]["text"] == '{"total":3}'
        await socket.send_str("{no")
        assert (await socket.receive_json())["error"]["code"] == -32600


async def test_resets_that_name_no_task_take_one_after_the_other() -> None:
    async with running() as (client, _):
        opened = [await post(client, "/reset", {}) for _ in range(4)]
        texts = [each["observation"]["messages"][0]["content"] for each in opened]
        assert texts == ["count 0", "count 1", "count 2", "count 0"]


async def test_a_token_is_required_where_one_is_set() -> None:
    async with running(token="0123456789abcdef") as (client, _):
        assert await get(client, "/health") == {"status": "healthy"}
        for headers in ({}, {"x-ng-token": "wrong"}, {"Authorization": "Bearer no"}):
            async with client.get("/schema", headers=headers) as answer:
                assert answer.status == 401
        for headers in ({"x-ng-token": "0123456789abcdef"}, {"Authorization": "Bearer 0123456789abcdef"}):
            async with client.ws_connect("/ws", headers=headers) as socket:
                await socket.send_json({"type": "state"})
                assert (await socket.receive_json())["type"] == "state"
        with pytest.raises(aiohttp.WSServerHandshakeError):
            await client.ws_connect("/ws")


async def test_web_pages_are_refused() -> None:
    async with running() as (client, _):
        for headers in ({"Origin": "https://page.example"}, {"Host": "page.example"}):
            with pytest.raises(aiohttp.WSServerHandshakeError):
                await client.ws_connect("/ws", headers=headers)
