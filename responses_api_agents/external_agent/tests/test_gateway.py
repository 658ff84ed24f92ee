"""Nothing answers in an agent's sandbox but its own gateway, and the gateway answers for one attempt only."""

from __future__ import annotations

import asyncio
import json
import socket
import tempfile
from pathlib import Path
from typing import Any

import pytest

from nemo_gym.isolation.execution import IsolationKind
from responses_api_agents.external_agent.tests.agents import (
    AgentGym,
    folder_row,
    names_in,
    python_command,
    said_in,
)
from tests.serving.environments import CounterEnvironment, text


async def report_of(program: str, *turns: Any, gym: AgentGym | None = None, **options: Any) -> Any:
    """Run a program that calls `report(value)` once, over sockets, and return the value."""
    end = "\ndef report(value): print(json.dumps(value))\n"
    gym = gym or AgentGym("", *turns, **options)
    gym.agent.config.command = python_command(end + program)
    async with gym.running(over_http=True):
        row = await gym.run("agent", folder_row())
    return json.loads(said_in(row))


async def test_no_other_address_answers() -> None:
    listener = socket.create_server(("0.0.0.0", 0))
    gym = AgentGym("", [text("")])
    async with gym.running(over_http=True):
        ports = [server.config.port for server in gym.servers.values()] + [
            listener.getsockname()[1],
            11000,
            22,
            53,
        ]
        program = f"""
import socket
import tempfile
def reaches(host, port, kind=socket.SOCK_STREAM):
    try:
        socket.create_connection((host, port), 1).close()
        return True
    except OSError:
        return False
hosts = ["127.0.0.1", "127.0.0.2", "::1", {socket.gethostbyname(socket.gethostname())!r}, "1.1.1.1", "example.com"]
interfaces = [line.split(":")[0].strip() for line in open("/proc/net/dev").readlines()[2:]]
report([[host, port] for host in hosts for port in {ports} if reaches(host, port)] + [interfaces])
ask()
"""
        gym.agent.config.command = python_command("\ndef report(value): print(json.dumps(value))\n" + program)
        row = await gym.run("agent", folder_row())
    listener.setblocking(False)
    with pytest.raises(BlockingIOError):
        listener.accept()
    listener.close()
    assert json.loads(said_in(row)) == [["lo"]]


TRICKS = [
    "/verify",
    "/seed_session",
    "/close_session",
    "/rollouts",
    "/ng-rollouts",
    "/ng-rollouts/other",
    "/ng-rollout/other/v1/responses",
    "/v1/../verify",
    "/v1/..%2fverify",
    "/v1/responses/../../verify",
    "//v1/responses",
    "/v1/responses/",
    "/v1/Responses",
    "/v1/%72esponses",
    "/mcp/",
    "/mcp/../verify",
    "/global_config_dict_yaml",
    "/server_instances",
    "/_ng/stats",
    "/metrics",
    "/add",
    "/openapi.json",
    "http://127.0.0.1:11000/v1/models",
    "http://policy_model/v1/responses",
]


async def test_the_gateway_has_no_path_but_those_of_the_attempt() -> None:
    program = f"""
import http.client
def status(path, method="POST"):
    connection = http.client.HTTPConnection("127.0.0.1", 8080, timeout=20)
    connection.putrequest(method, path, )
    connection.putheader("authorization", "Bearer " + os.environ["OPENAI_API_KEY"])
    connection.putheader("content-length", "2")
    connection.endheaders(b"{{}}")
    return connection.getresponse().status
report([status(path) for path in {TRICKS}] + [status("/", "HEAD"), status("/mcp")])
ask()
"""
    assert await report_of(program, [text("")]) == [404] * len(TRICKS) + [200, 404]


async def test_a_call_needs_the_key_of_the_attempt() -> None:
    program = """
url = "/v1/responses"
report([send(url, {"input": "x"}, authorization=key)[0] for key in ("", "Bearer", "Bearer none", "Bearer ")]
    + [send(url, {"input": "x"}, authorization="", **{"x-api-key": os.environ["OPENAI_API_KEY"]})[0]])
"""
    assert await report_of(program, [text("")]) == [401, 401, 401, 401, 200]


async def test_headers_cannot_name_another_session_or_deadline() -> None:
    gym = AgentGym("", [text("")], env=CounterEnvironment, env_options={"expose_tools_over_mcp": True})
    program = """
tool = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "add", "arguments": {"amount": 3}}}
forged = {"x-ng-session": "other", "x-ng-token": "t", "x-ng-deadline": "0", "cookie": "ng_session_env=other.x",
          "X-NeMo-Gym-Session-Token": "forged"}
report([send("/mcp", tool, **forged)[0], send("/v1/responses", {"input": "x"}, **forged)[0]])
"""
    assert await report_of(program, gym=gym) == [200, 200]
    env = gym.servers["env"]
    assert isinstance(env, CounterEnvironment)
    assert "other" not in env.closed


async def test_attempts_do_not_reach_each_others_gateways() -> None:
    program = """
import glob, socket, time
ask()
found = glob.glob("/tmp/nemo_gym_sandbox_*/*") + [line.split()[-1] for line in open("/proc/net/unix") if "/" in line]
report([path for path in found if os.path.exists(path) and not path.startswith("/attempt/")])
"""
    gym = AgentGym("", 0.5, 0.5)
    gym.agent.config.command = python_command("\ndef report(value): print(json.dumps(value))\n" + program)
    async with gym.running(over_http=True):
        rows = await asyncio.gather(
            *(gym.run("agent", folder_row() | {"_ng_task_index": n}) for n in range(2))
        )
    if rows[0]["external_agent"]["isolation"] != IsolationKind.BUBBLEWRAP:
        pytest.skip("bubblewrap does not work on this machine")
    assert [json.loads(said_in(row)) for row in rows] == [[], []]


async def test_nothing_of_an_attempt_is_left_and_long_paths_are_no_problem(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / ("long" * 20)
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    row = await AgentGym("ask()", [text("")]).run("agent", folder_row())
    assert row["external_agent"]["calls"] == 1
    assert names_in(folder) == []
