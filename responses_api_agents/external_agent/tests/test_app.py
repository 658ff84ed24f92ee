"""Attempts of programs as agents: their calls, their files, their bounds and the way in which they end."""

from __future__ import annotations

from typing import Any

import orjson
import pytest

from nemo_gym.isolation.confinement import isolations
from nemo_gym.isolation.execution import ConfinedRunner, IsolationKind
from nemo_gym.transport.upstream_error import UpstreamError
from responses_api_agents.external_agent.attempt import ConfinedSandbox
from responses_api_agents.external_agent.tests.agents import ASK, AgentGym, folder_row, said_in
from tests.serving.environments import CounterEnvironment, task_row, text


async def play(
    program: str, *turns: Any, row: dict[str, Any] | None = None, **options: Any
) -> dict[str, Any]:
    return await AgentGym(program, *turns, **options).run("agent", row or folder_row())


def runner_of(gym: AgentGym) -> ConfinedRunner:
    assert isinstance(gym.agent._sandbox, ConfinedSandbox)
    return gym.agent._sandbox._runner


async def test_a_program_calls_the_model_and_its_output_is_the_response() -> None:
    gym = AgentGym("ask('hi'); print('all done')", [text("hello")])
    row = await gym.run("agent", folder_row())
    assert gym.model.requests[0]["input"] == "hi"
    assert said_in(row) == "all done"
    assert (row["_ng_outcome"], row["_ng_end_reason"]) == ("completed", "final_answer")
    assert (row["external_agent"]["calls"], row["external_agent"]["status"]) == (1, 0)


async def test_files_go_in_and_come_out_by_the_row() -> None:
    program = """
text = open("src/a.txt").read()
open("src/b.txt", "w").write(text.upper())
open("other.txt", "w").write("not asked for")
ask()
"""
    row = await play(program, [text("")], row=folder_row({"src/a.txt": "text"}, "src/*"))
    assert row["folder_files"] == {"src/a.txt": "text", "src/b.txt": "TEXT"}
    assert row["reward"] == 2.0


async def test_the_command_and_its_surroundings_are_filled_in() -> None:
    program = """
import json, os, sys
print(json.dumps([sys.argv[1:], sys.stdin.read(), os.environ["MARK"], open(os.environ["HOME"] + "/.conf").read()]))
ask()
"""
    gym = AgentGym(program, [text("")], stdin="{prompt}!", environment={"MARK": "{model}", "LANG": None})
    gym.agent.config.command.append("{prompt} {braces}")
    gym.agent.config.files[".conf"] = '{"url": "{base_url}"}'
    row = await gym.run("agent", folder_row())
    prompt = task_row()["responses_create_params"]["input"]
    said = said_in(row)
    assert f"{prompt} {{braces}}" in said
    assert f"{prompt}!" in said
    assert "policy" in said
    assert "http://127.0.0.1" in said


async def test_an_agent_over_its_time_is_truncated_and_verified() -> None:
    row = await play("import time; ask(); time.sleep(60)", [text("")], timeout_s=3)
    assert (row["_ng_outcome"], row["_ng_end_reason"], row["reward"]) == ("truncated", "timed_out", 0.0)


async def test_an_agent_that_exits_with_an_error_after_a_call_is_truncated() -> None:
    row = await play("ask(); sys.exit(3)", [text("")])
    assert (row["_ng_outcome"], row["_ng_end_reason"]) == ("truncated", "agent_exited")
    assert row["external_agent"]["status"] == 3


async def test_an_agent_that_ends_before_its_first_call_is_a_failure() -> None:
    with pytest.raises(UpstreamError, match="no such configuration"):
        await play("sys.exit('no such configuration')")


async def test_a_command_that_does_not_exist_is_a_failure() -> None:
    with pytest.raises(UpstreamError, match="cannot be started"):
        await play("", command=["/no/such/agent"])


async def test_an_agent_that_ends_because_the_model_failed_is_a_failure() -> None:
    with pytest.raises(UpstreamError, match="list index out of range"):
        await play("status, _ = ask(); sys.exit(status != 200)")


async def test_calls_beyond_the_budget_are_refused() -> None:
    gym = AgentGym("print([ask()[0] for _ in range(4)])", [text("")], [text("")], [text("")], max_calls=2)
    row = await gym.run("agent", folder_row())
    assert said_in(row) == "[200, 200, 400, 400]"
    assert (row["_ng_outcome"], row["_ng_end_reason"], len(gym.model.requests)) == (
        "truncated",
        "max_steps",
        2,
    )


async def test_the_budget_of_a_run_counts_and_refuses_the_calls_of_the_program() -> None:
    gym = AgentGym("print([ask()[0] for _ in range(3)])", *[[text("")]] * 4)
    left = {"x-ng-budget": '{"tokens": 1}'}
    reply = await gym.post("agent", "/run", folder_row(), headers=left)
    row = orjson.loads(reply.body)
    assert said_in(row) == "[200, 402, 402]"
    assert (row["_ng_outcome"], row["_ng_end_reason"], len(gym.model.requests)) == ("truncated", "budget", 1)
    (counts,) = orjson.loads(reply.headers["x-ng-spent"]).values()
    assert counts[0] == 1
    assert counts[1] + counts[3] >= 1
    counted = await gym.post("agent", "/run", folder_row(), headers={"x-ng-budget": "{}"})
    (counts,) = orjson.loads(counted.headers["x-ng-spent"]).values()
    assert counts[0] == 3


async def test_an_agent_that_fills_its_folder_is_ended() -> None:
    program = "ask()\nfor n in range(10000): open(str(n), 'wb').write(b'x' * (1 << 20))\nimport time; time.sleep(60)"
    row = await play(program, [text("")], max_folder_mib=8)
    assert (row["_ng_outcome"], row["_ng_end_reason"]) == ("truncated", "resource_limit")


async def test_an_agent_that_prints_without_end_is_ended() -> None:
    row = await play("ask()\nwhile True: print('x' * 1000)", [text("")], max_output_mib=1)
    assert (row["_ng_outcome"], row["_ng_end_reason"]) == ("truncated", "resource_limit")
    assert len(said_in(row)) <= 1 << 20


async def test_the_tools_of_the_environment_are_at_the_mcp_address() -> None:
    program = """
def rpc(method, **params):
    return send(os.environ["NEMO_GYM_MCP_URL"], {"jsonrpc": "2.0", "id": 1, "method": method, "params": params})
print(rpc("tools/call", name="add", arguments={"amount": 3}))
ask()
"""
    gym = AgentGym(program, [text("")], env=CounterEnvironment, env_options={"expose_tools_over_mcp": True})
    row = await gym.run("agent", folder_row())
    assert row["reward"] == 3.0


async def test_tools_that_fail_over_mcp_are_in_the_row() -> None:
    program = """
for name in ("crash", "crash", "refuse"):
    params = {"name": name, "arguments": {}}
    send(os.environ["NEMO_GYM_MCP_URL"], {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params})
print("done")
ask()
"""
    gym = AgentGym(program, [text("")], env=CounterEnvironment, env_options={"expose_tools_over_mcp": True})
    row = await gym.run("agent", folder_row())
    assert [(error["tool"], error["kind"], error["count"]) for error in row["_ng_tool_errors"]] == [
        ("crash", "raised", 2),
        ("refuse", "rejected", 1),
    ]


async def test_a_row_whose_paths_lead_out_of_the_folder_is_refused() -> None:
    with pytest.raises(UpstreamError, match="not a plain relative path"):
        await play("", row=folder_row({"../x": ""}))


async def test_an_agent_runs_as_a_user_of_its_own_without_bubblewrap() -> None:
    gym = AgentGym("", [text("")], command=["/usr/bin/python3", "-c", ASK + "ask(); print('done')"])
    runner = runner_of(gym)
    ways = isolations((), python=runner._python, own_network=True)
    runner._candidates = [way for way in ways if way.kind is IsolationKind.OWN_USER]
    if not runner._candidates:
        pytest.skip("this machine has no users for sandboxes")
    row = await gym.run("agent", folder_row())
    assert row["external_agent"]["isolation"] == "own_user"
    assert said_in(row) == "done"


async def test_an_agent_without_isolation_gets_a_gateway_on_a_port() -> None:
    gym = AgentGym("ask(); print('done')", [text("")])
    runner = runner_of(gym)
    ways = isolations((), python=runner._python, allow_unsandboxed=True, own_network=True)
    runner._candidates = [way for way in ways if way.kind is IsolationKind.UNSANDBOXED]
    row = await gym.run("agent", folder_row())
    assert row["external_agent"]["isolation"] == "unsandboxed"
    assert said_in(row) == "done"
