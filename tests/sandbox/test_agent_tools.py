"""Calls of an agent whose harness runs in a sandbox."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import orjson
import pytest
from pydantic import BaseModel

from nemo_gym.config.current import set_global_config_dict
from nemo_gym.config.types import ResourcesServerRef
from nemo_gym.sandbox.agent_tools import (
    restricted_network_policy,
    sandbox_server_url,
    seed_mcp_servers,
    verify_agent_response,
)

TOOLS = ResourcesServerRef(type="resources_servers", name="tools")


class Row(BaseModel, extra="allow"):
    """A row of a task, or a response."""


BODY = Row.model_validate({"responses_create_params": {"input": "Solve"}, "answer": "4"})


@pytest.fixture(autouse=True)
def configuration() -> Iterator[None]:
    block = {"resources_servers": {"any": {"entrypoint": "app.py", "host": "10.0.0.3", "port": 8000}}}
    local = {"resources_servers": {"any": {"entrypoint": "app.py", "host": "127.0.0.1", "port": 8001}}}
    set_global_config_dict({"tools": block, "near": local})
    yield
    set_global_config_dict(None)


class Reply:
    ok = True

    def __init__(self, body: Any) -> None:
        self._body = orjson.dumps(body)

    async def read(self) -> bytes:
        return self._body


class Client:
    """A client of servers with a fixed answer to every call, which keeps the calls."""

    def __init__(self, answer: dict[str, Any]) -> None:
        self.answer, self.calls = answer, list[dict[str, Any]]()

    async def post(self, **call: Any) -> Any:
        self.calls.append(call)
        echo = call["json"] if call["url_path"] == "/verify" else {}
        return Reply({**echo, **self.answer})


def test_a_server_is_reachable_unless_it_listens_on_loopback() -> None:
    assert sandbox_server_url("tools", require_reachable=True) == "http://10.0.0.3:8000"
    assert sandbox_server_url("near") == "http://127.0.0.1:8001"
    with pytest.raises(ValueError, match="default_host"):
        sandbox_server_url("near", require_reachable=True)


def test_a_restricted_network_allows_the_hosts_of_servers_only() -> None:
    policy = restricted_network_policy(
        "opensandbox", ["http://b.example:1/v1", "http://a.example", "http://a.example"]
    )
    assert policy == {
        "defaultAction": "deny",
        "egress": [{"action": "allow", "target": "a.example"}, {"action": "allow", "target": "b.example"}],
    }
    with pytest.raises(ValueError, match="OpenSandbox"):
        restricted_network_policy("docker", [])


@pytest.mark.parametrize("host", ["localhost", "127.0.0.2", "0.0.0.0", "[::1]", "[::]", ""])
def test_a_policy_for_the_callers_own_machine_is_refused(host: str) -> None:
    with pytest.raises(ValueError, match="not reachable"):
        restricted_network_policy("opensandbox", [f"http://{host}:80"])


async def test_tools_are_reached_with_the_sessions_token() -> None:
    client: Any = Client({"mcp": {"url_path": "/mcp", "headers": {"X-NeMo-Gym-Session-Token": "scoped"}}})
    entries = await seed_mcp_servers(client, [TOOLS], BODY, {"session": "1"}, timeout_s=2.5)
    headers = {"X-NeMo-Gym-Session-Token": "scoped"}
    assert entries == {
        "tools": {"url": "http://10.0.0.3:8000/mcp", "headers": headers, "enabled": True, "timeout": 2500}
    }
    assert client.calls[0]["cookies"] == {"session": "1"}
    assert client.calls[0]["json"]["answer"] == "4"


async def test_tools_without_a_token_are_refused() -> None:
    client: Any = Client({})
    with pytest.raises(ValueError, match="no authenticated MCP endpoint"):
        await seed_mcp_servers(client, [TOOLS], BODY, {}, timeout_s=1)


@pytest.mark.parametrize("failed", [True, False])
async def test_a_failed_agent_is_scored_without_its_output_and_keeps_it(failed: bool) -> None:
    response = Row.model_validate({"id": "r", "output": [{"text": "4"}]})
    client: Any = Client({"reward": 0.5, "accuracy": 0.0})
    verdict = await verify_agent_response(client, TOOLS, BODY, response, {}, force_zero_reward=failed)
    given = client.calls[0]["json"]["response"]["output"]
    assert given == ([] if failed else [{"text": "4"}])
    assert verdict["response"]["output"] == [{"text": "4"}]
    assert (verdict["reward"], verdict["accuracy"]) == (0.0 if failed else 0.5, 0.0)
    assert verdict.get("failure_kind") == ("agent_run_error" if failed else None)
