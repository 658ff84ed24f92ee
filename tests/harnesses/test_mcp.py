"""MCP in both directions with public packages: the official inspector as a client, and a public server as tools."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from pathlib import Path
from random import Random
from typing import Any

import pytest
from httpx2 import AsyncClient

from nemo_gym.mock_engine import EngineOptions, MockEngine, ModelReply
from nemo_gym.mock_engine.conversation import Message, Tool, last_tool_output
from nemo_gym.resources.mcp_clients import McpServerOptions, function_tools
from nemo_gym.testing.in_process import InProcessGym
from nemo_gym.testing.serving import serving
from resources_servers.code_repair.app import CodeRepairResourcesServer
from resources_servers.string_match.app import StringMatchResourcesServer
from responses_api_agents.simple_agent.app import SimpleAgent
from responses_api_models.vllm_model.app import VLLMModel
from tests.harnesses.policies import FILE, call
from tests.harnesses.repairs import INSTALLED, ROW, skip_unless_installed

pytestmark = pytest.mark.harnesses
PROGRAMS = INSTALLED / "node_modules" / ".bin"


async def inspect(url: str, headers: dict[str, str], *arguments: str) -> Any:
    """Run the inspector's command line, and return the result that it prints."""
    given = [part for name, value in headers.items() for part in ("--header", f"{name}: {value}")]
    command = [
        str(PROGRAMS / "mcp-inspector"),
        "--cli",
        f"{url}/mcp",
        "--transport",
        "http",
        *given,
        *arguments,
    ]
    process = await asyncio.create_subprocess_exec(
        *command, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE
    )
    output, errors = await asyncio.wait_for(process.communicate(), 120)
    assert process.returncode == 0, (output, errors)
    return json.loads(output)


async def test_the_inspector_lists_and_calls_the_tools_of_an_environment() -> None:
    skip_unless_installed("inspector")
    environment = CodeRepairResourcesServer.standalone(name="code_repair", expose_tools_over_mcp=True)
    async with serving(environment) as url, AsyncClient() as client:
        opened = (await client.post(f"{url}/seed_session", json=ROW)).json()["mcp"]["headers"]
        listed = await inspect(url, opened, "--method", "tools/list")
        names = [tool["name"] for tool in listed["tools"]]
        assert names == ["list_files", "read_file", "write_file", "run_tests"]
        calling = ("--method", "tools/call", "--tool-name", "read_file", "--tool-arg", f"path={FILE}")
        read = await inspect(url, opened, *calling)
        assert json.loads(read["content"][0]["text"]) == {"content": ROW["folder"]["files"][FILE]}


class ReadPolicy:
    """Reads the note, and says its text."""

    def reply(self, conversation: Sequence[Message], tools: Sequence[Tool], rng: Random) -> ModelReply:
        output = last_tool_output(conversation)
        return (
            call("read_text_file", {"path": "note.txt"})
            if output is None
            else ModelReply(f"Answer: {output}")
        )


async def test_a_public_server_has_the_tools_of_an_environment(tmp_path: Path) -> None:
    skip_unless_installed("filesystem")
    command = [str(PROGRAMS / "mcp-server-filesystem"), "{folder}"]
    server = McpServerOptions(command=command, tools=["read_text_file", "write_file"])
    tools = await function_tools({"files": server})
    assert {tool["name"] for tool in tools} == {"read_text_file", "write_file"}
    row = {
        "responses_create_params": {"input": "Which animal is in note.txt?", "tools": tools},
        "expected_answer": "heron",
        "folder": {"files": {"note.txt": "heron"}},
    }
    gym = InProcessGym()
    async with MockEngine(EngineOptions(model="mock"), policy=ReadPolicy()) as engine:
        gym.add(VLLMModel, "policy_model", base_url=engine.base_url, api_key="none", model="mock")
        gym.add(StringMatchResourcesServer, "string_match", mcp_servers={"files": server.model_dump()})
        names = {"resources_server": "string_match", "model_server": "policy_model"}
        kinds = {"resources_server": "resources_servers", "model_server": "responses_api_models"}
        gym.add(SimpleAgent, "agent", **{key: {"type": kinds[key], "name": names[key]} for key in names})
        async with gym.running():
            scored = await gym.run("agent", row)
    assert (scored["reward"], scored["_ng_outcome"]) == (1.0, "completed")
