"""The messages of a web socket, and JSON-RPC, on a connection without a socket."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pytest

from nemo_gym.sources.openenv.episode import ClientEpisode
from nemo_gym.sources.openenv.messages import Connection
from tests.sources.openenv.environments import build_gym, build_tasks


@pytest.fixture
def connection() -> Connection:
    gym, _ = build_gym()
    tasks = build_tasks()

    def open_episode(arguments: Mapping[str, Any]) -> ClientEpisode:
        return ClientEpisode(gym.client(), "counting", tasks.choose(arguments))

    return Connection(open_episode, tasks)


async def say(connection: Connection, kind: str, **data: Any) -> dict[str, Any]:
    told = await connection.answer(json.dumps({"type": kind, "data": data}))
    assert told is not None
    return told


async def test_an_episode_by_messages(connection: Connection) -> None:
    assert await say(connection, "state") == {
        "type": "state",
        "data": {"episode_id": None, "step_count": 0},
    }
    opened = await say(connection, "reset", index=1)
    assert opened["data"]["observation"]["messages"][0]["content"] == "count 1"
    assert (opened["data"]["reward"], opened["data"]["done"]) == (None, False)
    moved = await say(connection, "step", type="call_tool", tool_name="count", arguments={"by": 2})
    assert moved["data"]["observation"] == {"tool_name": "count", "result": '{"total":2}', "error": None}
    ended = await say(connection, "step", message="2")
    assert (ended["data"]["reward"], ended["data"]["done"]) == (1.0, True)
    assert ended["data"]["metadata"] == {"counted": 2}
    assert (await say(connection, "state"))["data"]["step_count"] == 2
    assert await connection.answer('{"type": "close"}') is None


async def test_a_reset_begins_anew(connection: Connection) -> None:
    first = await say(connection, "reset")
    await say(connection, "step", type="call_tool", tool_name="count", arguments={"by": 2})
    assert await say(connection, "reset") == first
    assert (await say(connection, "step", message="0"))["data"]["reward"] == 1.0


async def test_tools_are_listed_before_a_reset_and_cost_no_step(connection: Connection) -> None:
    for _ in range(2):
        listed = await say(connection, "step", type="list_tools")
        assert [tool["name"] for tool in listed["data"]["observation"]["tools"]] == ["count"]
        await say(connection, "reset")
    assert (await say(connection, "state"))["data"]["step_count"] == 0


@pytest.mark.parametrize(
    ("text", "code", "told"),
    [
        ("{no", "INVALID_JSON", "Invalid JSON"),
        ("[1]", "UNKNOWN_TYPE", "None"),
        ('{"type": "jump"}', "UNKNOWN_TYPE", "jump"),
        ('{"type": "step", "data": {}}', "VALIDATION_ERROR", "Invalid message"),
        ('{"type": "step", "data": {"message": "a", "more": 1}}', "VALIDATION_ERROR", "Invalid message"),
        ('{"type": "step", "data": {"type": "call_tool"}}', "VALIDATION_ERROR", "Invalid message"),
        ('{"type": "step", "data": [1]}', "VALIDATION_ERROR", "Invalid message"),
        ('{"type": "step", "data": {"message": "a"}}', "EXECUTION_ERROR", "there is no episode"),
        ('{"type": "reset", "data": {"split": "dev"}}', "EXECUTION_ERROR", "no split 'dev'"),
        ('{"type": "reset", "data": [1]}', "VALIDATION_ERROR", "Invalid message"),
    ],
)
async def test_a_wrong_message_is_told(text: str, code: str, told: str, connection: Connection) -> None:
    answer = await connection.answer(text)
    assert answer is not None
    assert (answer["type"], answer["data"]["code"]) == ("error", code)
    assert told in answer["data"]["message"]


async def ask(connection: Connection, method: str, **params: Any) -> dict[str, Any]:
    told = await say(connection, "mcp", jsonrpc="2.0", id=7, method=method, params=params)
    assert (told["type"], told["data"]["id"], told["data"]["jsonrpc"]) == ("mcp", 7, "2.0")
    answer: dict[str, Any] = told["data"]
    return answer


async def test_tools_by_json_rpc(connection: Connection) -> None:
    (tool,) = (await ask(connection, "tools/list"))["result"]["tools"]
    assert (tool["name"], tool["inputSchema"]["required"]) == ("count", ["by"])
    refused = await ask(connection, "tools/call", name="count", arguments={"by": 1})
    assert "there is no episode" in refused["error"]["message"]
    await say(connection, "reset")
    called = await ask(connection, "tools/call", name="count", arguments={"by": 1})
    assert called["result"] == {"content": [{"type": "text", "text": '{"total":1}'}]}
    assert (await ask(connection, "tools/call"))["error"]["code"] == -32602
    assert (await ask(connection, "resources/list"))["error"]["code"] == -32601


@pytest.mark.parametrize(
    "request_", [None, [], {}, {"jsonrpc": "1.0", "method": "tools/list"}, {"jsonrpc": "2.0"}]
)
async def test_what_is_no_json_rpc_is_told(request_: Any, connection: Connection) -> None:
    assert (await connection.answer_rpc(request_))["error"]["code"] == -32600
