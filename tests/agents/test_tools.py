"""Tool calls of a model: names and arguments are checked, and the tool's own errors go back to the model."""

from __future__ import annotations

import socket
from typing import Any

import orjson
import pytest

from nemo_gym.agents.tools import FailedToolCall, ToolClient, tool_error
from nemo_gym.failures import GymError
from nemo_gym.testing.in_process import InProcessGym
from tests.serving.environments import TOOLS, CounterEnvironment, task_row

SESSION = {"x-ng-session": "s"}


async def tools_of_an_open_session(tools: list[dict[str, Any]] = TOOLS) -> ToolClient:
    gym = InProcessGym()
    gym.add(CounterEnvironment, "env")
    client = gym.client()
    seeded = await client.post("env", "/seed_session", json=task_row(), headers=SESSION)
    cookies = {name: morsel.value for name, morsel in seeded.cookies.items()}
    send = client.post

    class WithCookies:
        async def post(self, server: str, path: str, *, data: str) -> object:
            return await send(server, path, data=data, cookies=cookies)

    return ToolClient(WithCookies(), "env", tools)  # type: ignore[arg-type]


async def test_a_call_returns_the_output_of_the_tool() -> None:
    tools = await tools_of_an_open_session()
    assert await tools.call("add", '{"amount": 2}') == '{"count":2}'
    assert await tools.call("add", '{"amount": 3}') == '{"count":5}'


@pytest.mark.parametrize(
    ("name", "arguments", "told"),
    [
        ("subtract", "{}", "there is no tool named 'subtract'; the tools are: add, refuse, crash"),
        ("Add", '{"amount": 2}', "there is no tool named 'Add'"),
        ("add", "{", "not valid JSON"),
        ("add", "[]", "must be a JSON object"),
        ("add", '{"amount": "2"}', "do not fit its parameters"),
        ("add", "", "is a required property"),
        ("refuse", "{}", "not allowed"),
        ("crash", "", "RuntimeError: a bug in the tool"),
    ],
)
async def test_a_call_that_cannot_succeed_is_a_tool_error(name: str, arguments: str, told: str) -> None:
    tools = await tools_of_an_open_session()
    assert told in await tools.call(name, arguments)
    assert await tools.call("add", '{"amount": 1}') == '{"count":1}', "the earlier call had no effect"


@pytest.mark.parametrize(
    ("name", "arguments", "kind"),
    [
        ("subtract", "{}", "unknown_tool"),
        ("add", "{", "invalid_json"),
        ("add", "[]", "invalid_arguments"),
        ("add", "", "invalid_arguments"),
        ("refuse", "{}", "rejected"),
        ("crash", "{}", "raised"),
    ],
)
async def test_a_failed_call_is_told_apart_by_whose_fault_it_is(name: str, arguments: str, kind: str) -> None:
    tools = await tools_of_an_open_session()
    with pytest.raises(FailedToolCall) as caught:
        await tools.call_or_raise(name, arguments)
    assert (caught.value.failed.tool, caught.value.failed.kind) == (name, kind)
    assert caught.value.output == await tools.call(name, arguments)


async def test_a_handler_that_refuses_what_the_row_declares_disagrees_with_it() -> None:
    tools = await tools_of_an_open_session([{"type": "function", "name": "add", "parameters": {}}])
    with pytest.raises(FailedToolCall, match="amount: Field required") as caught:
        await tools.call_or_raise("add", "{}")
    assert caught.value.failed.kind == "mismatch"


async def test_a_declared_tool_without_a_route_is_the_environments_fault() -> None:
    tools = await tools_of_an_open_session([{"type": "function", "name": "forgotten"}])
    with pytest.raises(FailedToolCall, match="has no route POST /forgotten") as caught:
        await tools.call_or_raise("forgotten", "{}")
    assert caught.value.failed.kind == "no_route"


@pytest.mark.parametrize("reference", ["http://{address}/amount.json", "#/$defs/missing"])
async def test_a_schema_that_refers_elsewhere_is_not_fetched(reference: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        listening.setblocking(False)
        address = f"127.0.0.1:{listening.getsockname()[1]}"
        amount = {"$ref": reference.format(address=address)}
        add = {"type": "function", "name": "add", "parameters": {"properties": {"amount": amount}}}
        tools = await tools_of_an_open_session([add])
        assert await tools.call("add", '{"amount": 2}') == '{"count":2}'
        with pytest.raises(BlockingIOError):
            listening.accept()


async def test_a_closed_session_ends_the_attempt() -> None:
    gym = InProcessGym()
    gym.add(CounterEnvironment, "env")
    client = gym.client()
    seeded = await client.post("env", "/seed_session", json=task_row(), headers=SESSION)
    cookies = {name: morsel.value for name, morsel in seeded.cookies.items()}
    await client.post("env", "/close_session", json={}, cookies=cookies)
    send = client.post

    class WithCookies:
        async def post(self, server: str, path: str, *, data: str) -> object:
            return await send(server, path, data=data, cookies=cookies)

    with pytest.raises(GymError) as caught:
        await ToolClient(WithCookies(), "env", TOOLS).call("add", '{"amount": 2}')  # type: ignore[arg-type]
    assert (caught.value.failure.code, caught.value.failure.hops) == ("session_closed", ("env",))


def test_a_tool_error_is_json() -> None:
    assert orjson.loads(tool_error('a "quoted" name')) == {"error": 'a "quoted" name'}


async def test_long_integers_in_arguments_reach_the_tool() -> None:
    tools = await tools_of_an_open_session()
    assert await tools.call("add", '{"amount": 123456789012345678901234567890}') == (
        '{"count":123456789012345678901234567890}'
    )
