"""Failed tool calls of an external agent: whose fault they are, by the answers of the real endpoint."""

from __future__ import annotations

from typing import Any

import orjson
import pytest
from fastapi.testclient import TestClient

from nemo_gym.failures import TransportError
from nemo_gym.names import MCP_TOKEN_HEADER
from responses_api_agents.external_agent.tool_failures import ToolFailures
from tests.serving.environments import CounterEnvironment, task_row

AMOUNT = {"type": "object", "properties": {"amount": {"type": "integer"}}, "required": ["amount"]}
TOOLS: list[dict[str, Any]] = [
    {"type": "function", "name": "add", "parameters": AMOUNT},
    {"type": "function", "name": "refuse", "parameters": {}},
    {"type": "function", "name": "crash", "parameters": {}},
    {"type": "function", "name": "forgotten", "parameters": {}},
]
LAX: list[dict[str, Any]] = [{"type": "function", "name": "add", "parameters": {}}]


def note_calls(tools: list[dict[str, Any]], *calls: tuple[str, dict[str, Any]]) -> list[tuple[str, str, str]]:
    """Return tool, culprit and kind of the failed calls of one attempt."""
    server = CounterEnvironment.standalone(name="env", expose_tools_over_mcp=True)
    client = TestClient(server.finish_app(), base_url="http://127.0.0.1")
    params = {**task_row()["responses_create_params"], "tools": tools}
    seeded = client.post("/seed_session", json={**task_row(), "responses_create_params": params}).json()
    headers = {MCP_TOKEN_HEADER: seeded["mcp"]["headers"][MCP_TOKEN_HEADER]}
    failures = ToolFailures(tools)
    for name, arguments in calls:
        asked = {
            "jsonrpc": "2.0",
            "id": 1,
            "method": "tools/call",
            "params": {"name": name, "arguments": arguments},
        }
        reply = client.post("/mcp", json=asked, headers=headers)
        failures.note_answer(orjson.dumps(asked), reply.content)
    return [(each["tool"], each["by"], each["kind"]) for each in failures.notes.get("_ng_tool_errors", [])]


@pytest.mark.parametrize(
    ("tools", "name", "arguments", "found"),
    [
        (TOOLS, "crash", {}, ("environment", "raised")),
        (TOOLS, "refuse", {}, ("model", "rejected")),
        (TOOLS, "add", {}, ("model", "invalid_arguments")),
        (LAX, "add", {}, ("environment", "mismatch")),
        ([], "add", {}, ("model", "invalid_arguments")),
        (TOOLS, "forgotten", {}, ("environment", "no_route")),
        (TOOLS, "made_up", {}, ("model", "unknown_tool")),
        ([], "made_up", {}, ("model", "unknown_tool")),
    ],
)
def test_a_failed_call_is_told_by_whose_fault_it_is(
    tools: list[dict[str, Any]], name: str, arguments: dict[str, Any], found: tuple[str, str]
) -> None:
    assert note_calls(tools, (name, arguments)) == [(name, *found)]


def test_calls_that_succeed_leave_nothing() -> None:
    assert note_calls(TOOLS, ("add", {"amount": 1}), ("add", {"amount": 2})) == []


def test_a_call_without_an_answer_is_counted() -> None:
    failures = ToolFailures(None)
    gone = TransportError("`env` is gone", code="connect_refused").failure
    failures.note_unanswered(orjson.dumps({"method": "tools/list"}), gone)
    assert failures.notes == {}
    failures.note_unanswered(orjson.dumps({"method": "tools/call", "params": {"name": "add"}}), gone)
    (error,) = failures.notes["_ng_tool_errors"]
    assert (error["tool"], error["kind"], error["cause"]) == ("add", "unavailable", "`env` is gone")


@pytest.mark.parametrize("asked", [None, b"", b"[]", b"{", b'{"method": "tools/list"}'])
def test_other_requests_are_no_calls(asked: bytes | None) -> None:
    failures = ToolFailures(None)
    failures.note_answer(asked, b'{"result":{"isError":true}}')
    assert failures.notes == {}


@pytest.mark.parametrize(
    "answer", [b"[]", b"{", b'{"result":null}', b'{"result":{"_meta":[1],"content":[{}]}}']
)
def test_odd_answers_are_no_crash(answer: bytes) -> None:
    failures = ToolFailures(TOOLS)
    call = orjson.dumps({"method": "tools/call", "params": {"name": "crash"}})
    failures.note_answer(call, answer + b' "isError":true')
    (error,) = failures.notes["_ng_tool_errors"]
    assert error["tool"] == "crash"
