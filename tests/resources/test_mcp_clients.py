"""Clients of MCP servers: real programs and endpoints, one client a session."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

import psutil
import pytest
from pydantic import ValidationError

from nemo_gym.failures import ConfigError, ToolError, VerifierError
from nemo_gym.resources.mcp_clients import McpClients, McpServerOptions, function_tools
from tests.waiting import until

NOTES = Path(__file__).with_name("mcp_notes.py")
PROGRAM = McpServerOptions(command=[sys.executable, str(NOTES)])


async def test_each_session_has_a_program_and_a_folder_of_its_own() -> None:
    clients = McpClients("notes", {"notes": PROGRAM})
    await clients.open("a", {"notes.txt": "first\n"})
    await clients.open("b", {})
    assert await clients.call("a", "add", {"text": "second"}) == "first\nsecond\n"
    assert await clients.call("b", "add", {"text": "other"}) == "other\n"
    pid, _ = (await clients.call("a", "process", {})).split()
    folder = clients.folder("a")
    assert folder is not None
    assert [file.name for file in folder.iterdir()] == ["notes.txt"]
    await clients.close("a")
    assert not psutil.pid_exists(int(pid))
    assert not folder.exists()
    assert (clients.folder("a"), clients.tools("a")) == (None, [])
    assert await clients.call("b", "add", {"text": "b"}) == "other\nb\n"
    await clients.close("b")


async def test_errors_of_tools_are_told_from_the_end_of_their_server() -> None:
    clients = McpClients("notes", {"notes": PROGRAM.model_copy(update={"timeout_s": 20.0})})
    await clients.open("a", {})
    with pytest.raises(ToolError, match="Error executing tool fail") as crashed:
        await clients.call("a", "fail", {})
    assert (crashed.value.failure.code, crashed.value.failure.http_status) == ("tool_crashed", 500)
    with pytest.raises(ToolError, match="Field required") as refused:
        await clients.call("a", "add", {})
    assert (refused.value.failure.code, refused.value.failure.http_status) == ("tool_failed", 422)
    with pytest.raises(ToolError, match="no tool named 'nothing'; the tools of the session are: add, "):
        await clients.call("a", "nothing", {})
    for name in ("end", "process"):
        with pytest.raises(VerifierError, match="has ended") as caught:
            await clients.call("a", name, {})
        assert caught.value.failure.code == "session_lost"
    await clients.close("a")
    with pytest.raises(ToolError, match="none"):
        await clients.call("a", "add", {"text": "late"})


async def test_a_call_that_takes_too_long_is_an_error_of_the_tool() -> None:
    program = McpServerOptions(command=[sys.executable, str(NOTES)], timeout_s=5)
    clients = McpClients("notes", {"notes": program})
    await clients.open("a", {})
    with pytest.raises(ToolError, match="timed out"):
        await clients.call("a", "wait", {})
    await clients.close("a")


@pytest.mark.parametrize(
    "options", [{"command": ["/nowhere/server"]}, {"command": ["false"]}, {"url": "http://127.0.0.1:9/mcp"}]
)
async def test_a_server_that_does_not_start_fails_the_opening(options: dict[str, object]) -> None:
    clients = McpClients("notes", {"broken": McpServerOptions.model_validate(options)})
    with pytest.raises(
        VerifierError, match=r"cannot connect a session to its MCP servers \(broken\)"
    ) as caught:
        await clients.open("a", {})
    assert caught.value.failure.code == "mcp_server_unavailable"
    assert clients.folder("a") is None


async def test_a_session_that_is_closed_while_it_opens_fails_the_opening() -> None:
    silent = McpServerOptions(command=[sys.executable, "-c", "import sys; sys.stdin.read()"])
    clients = McpClients("notes", {"silent": silent})
    opening = asyncio.create_task(clients.open("a", {}))
    await until(lambda: clients.folder("a") not in (None, Path()))
    await clients.close("a")
    await until(opening.done)
    with pytest.raises(VerifierError, match="was closed before its MCP servers were connected"):
        await opening


async def test_two_servers_cannot_offer_tools_of_one_name() -> None:
    only = PROGRAM.model_copy(update={"tools": ["add"]})
    with pytest.raises(ConfigError, match=r"given twice: \['add'\]"):
        await McpClients("notes", {"one": only, "other": PROGRAM}).open("a", {})


async def test_the_tools_of_a_server_can_be_declared_by_rows() -> None:
    (tool,) = await function_tools({"notes": PROGRAM.model_copy(update={"tools": ["add"]})})
    assert (tool["type"], tool["name"], tool["description"]) == ("function", "add", "Add a note.")
    assert tool["parameters"]["required"] == ["text"]


DIES = "import sys; sys.stderr.write('Traceback …\\nImportError: no module named notes\\n'); sys.exit(1)"


async def test_the_error_has_the_last_line_of_a_program_that_does_not_start(
    capsys: pytest.CaptureFixture[str],
) -> None:
    clients = McpClients("notes", {"broken": McpServerOptions(command=[sys.executable, "-c", DIES])})
    with pytest.raises(VerifierError, match=r"; its last line: ImportError: no module named notes\. Run"):
        await clients.open("a", {})
    assert "Traceback …\nImportError: no module named notes\n" in capsys.readouterr().err


async def test_the_error_of_a_call_has_the_last_line_of_its_program() -> None:
    clients = McpClients("notes", {"notes": PROGRAM})
    await clients.open("a", {})
    with pytest.raises(VerifierError, match=r"the tool end has ended: .*; its last line: disk is full$"):
        await clients.call("a", "end", {})
    await clients.close("a")


@pytest.mark.parametrize("options", [{}, {"command": ["a"], "url": "http://b"}, {"command": []}])
def test_options_name_a_program_or_an_endpoint(options: dict[str, object]) -> None:
    with pytest.raises(ValidationError):
        McpServerOptions.model_validate(options)
