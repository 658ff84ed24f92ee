"""External agents in the sandbox that an environment has started for the task."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest

from nemo_gym.sandbox import AsyncSandbox, SandboxSpec
from nemo_gym.transport.upstream_error import UpstreamError
from responses_api_agents.external_agent.tests.agents import (
    AgentGym,
    folder_row,
    said_in,
)
from tests.sandbox.rootless_images import HOST_IMAGE, READABLE, host_provider, needs_rootless
from tests.serving.environments import task_row, text
from tests.sources.task_folders.sandbox_environment import (
    CHANGES,
    CONNECTED_AS,
    SANDBOX,
    SandboxEnvironment,
    TwoTurns,
)

pytestmark = needs_rootless
ASK = """
import json, os, urllib.request
def ask(text="hello"):
    url, key = os.environ["OPENAI_BASE_URL"] + "/responses", os.environ["OPENAI_API_KEY"]
    headers = {"authorization": "Bearer " + key, "content-type": "application/json"}
    request = urllib.request.Request(url, json.dumps({"input": text}).encode(), headers)
    with urllib.request.urlopen(request, timeout=20) as reply:
        return reply.read().decode()
"""


@pytest.fixture(autouse=True)
async def sandbox() -> AsyncIterator[None]:
    """A running sandbox of this machine's programs, whose working folder is /tmp."""
    with host_provider() as provider:
        spec = SandboxSpec(image=HOST_IMAGE, workdir="/tmp", provider_options={"readable": READABLE})
        async with await AsyncSandbox(provider).start(spec) as started:
            SANDBOX.append(started)
            try:
                yield
            finally:
                SANDBOX.clear()
                CHANGES.clear()
                CONNECTED_AS[0] = "rootless"


def make_gym(program: str, *turns: Any, **options: Any) -> AgentGym:
    command = ["/usr/bin/python3", "-c", ASK + program, "{prompt}", "{work}", "{home}"]
    return AgentGym("", *turns, **{"command": command, "env": SandboxEnvironment, **options})


async def test_the_command_works_in_the_tasks_folder_and_its_calls_go_out() -> None:
    program = """
import sys
text = ask("in the sandbox")
open("answer", "w").write("0.25")
print(os.getcwd(), sys.argv[2:], os.environ["HOME"], "hello" in text, os.path.exists("/work"))
print(open(os.environ["HOME"] + "/.conf").read(), sys.stdin.read())
"""
    gym = make_gym(program, [text("hello")], stdin="in", files={".conf": "model={model}"})
    row = await gym.run("agent", folder_row())
    assert gym.model.requests[0]["input"] == "in the sandbox"
    home = "/attempt/home"
    assert said_in(row) == f"/tmp ['/tmp', '{home}'] {home} True False\nmodel=policy in"
    assert row["reward"] == 0.25
    assert row["external_agent"]["isolation"] == "rootless"
    left = await SANDBOX[0].exec("ls -A /attempt")
    assert left.stdout == ""


async def test_the_home_folder_is_the_agents_own_for_every_user_of_the_task() -> None:
    CHANGES["user"] = "worker"
    row = await make_gym("ask(); print(os.environ['HOME'], os.environ['USER'])", [text("")]).run(
        "agent", folder_row()
    )
    assert said_in(row) == "/attempt/home worker"


async def test_the_time_of_the_task_and_a_missing_program_end_an_attempt() -> None:
    row = {**folder_row(), "agent_timeout_s": 3}
    ended = await make_gym("import time; ask(); time.sleep(60)", [text("")]).run("agent", row)
    assert (ended["_ng_outcome"], ended["_ng_end_reason"]) == ("truncated", "timed_out")
    with pytest.raises(UpstreamError, match=r"/no/such/agent ended without a model call"):
        await make_gym("", command=["/no/such/agent"]).run("agent", folder_row())


async def test_a_sandbox_that_is_gone_is_a_failure_and_no_verdict() -> None:
    gym = make_gym("ask()", [text("")])
    await SANDBOX[0].stop()
    with pytest.raises(UpstreamError):
        await gym.run("agent", folder_row())


async def test_a_sandbox_of_another_provider_and_a_second_folder_are_refused() -> None:
    with pytest.raises(UpstreamError, match="with files, and its task has a sandbox"):
        await make_gym("ask()").run("agent", folder_row({"a": "b"}))
    CONNECTED_AS[0] = "docker"
    CHANGES["bridge"] = None
    with pytest.raises(UpstreamError, match="cannot run in a sandbox of docker"):
        await make_gym("ask()").run("agent", folder_row())


async def test_each_turn_runs_the_command_with_a_record_of_its_own() -> None:
    gym = make_gym("import sys; ask(sys.argv[1])", [text("a")], [text("b")], env=TwoTurns)
    row = await gym.run("agent", folder_row())
    asked = [request["input"] for request in gym.model.requests]
    assert asked == [task_row()["responses_create_params"]["input"], "the second step"]
    said = [item["content"] for item in row["response"]["output"] if item["type"] == "message"]
    assert [part[0]["text"] if isinstance(part, list) else part for part in said] == [
        "a",
        "",
        "the second step",
        "b",
        "",
    ]
