"""An environment whose tools are those of an MCP server, as agents of both kinds call them."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from typing import Any

import httpx2
import orjson
import pytest
from fastapi import FastAPI, Request
from mcp import Client
from mcp.client.streamable_http import streamable_http_client

from nemo_gym.failures import ConfigError
from nemo_gym.resources.server import SimpleResourcesServer
from nemo_gym.rows.models import BaseVerifyRequest, BaseVerifyResponse
from nemo_gym.serving.sessions import SESSION_ID_KEY
from nemo_gym.testing.in_process import InProcessGym
from nemo_gym.testing.serving import serving
from tests.ports import free_port, until_accepts
from tests.resources.test_mcp_clients import NOTES
from tests.serving.environments import VERIFY

SERVERS = {"notes": {"command": [sys.executable, str(NOTES)]}}
ADD = {"type": "function", "name": "add", "parameters": {"type": "object"}}


class NotesEnvironment(SimpleResourcesServer):
    """Scores 1 if the session's folder has a note."""

    async def verify(self, request: Request, body: BaseVerifyRequest) -> BaseVerifyResponse:  # type: ignore[override]
        folder = self.mcp_folder(request.session[SESSION_ID_KEY])
        assert folder is not None
        return BaseVerifyResponse(**body.model_dump(), reward=float((folder / "notes.txt").exists()))


class WithRouteForAll(NotesEnvironment):
    def setup_webserver(self) -> FastAPI:
        app = super().setup_webserver()
        app.post("/{anything}")(self.anything)
        return app

    async def anything(self, anything: str) -> str:
        return anything


async def asked(gym: InProcessGym, path: str, body: Any, **options: Any) -> dict[str, Any]:
    reply = await gym.post("notes", path, body, **options)
    answer: dict[str, Any] = orjson.loads(reply.body)
    return answer


def row(*tools: dict[str, Any], **fields: Any) -> dict[str, Any]:
    return {"responses_create_params": {"input": "note it", "tools": list(tools)}, **fields}


async def test_a_session_calls_the_tools_and_its_folder_is_verified() -> None:
    gym = InProcessGym()
    gym.add(NotesEnvironment, "notes", mcp_servers=SERVERS)
    async with gym.running():
        opened = await gym.post("notes", "/seed_session", row(ADD))
        cookies = {"cookies": opened.cookies}
        assert (await asked(gym, "/verify", VERIFY, **cookies))["reward"] == 0.0
        assert (await gym.post("notes", "/add", {"text": "a"}, **cookies)).body == b"a\n"
        assert (await asked(gym, "/verify", VERIFY, **cookies))["reward"] == 1.0
        assert (await asked(gym, "/add", {}, **cookies))["error"]["code"] == "tool_failed"
        assert (await asked(gym, "/close_session", {}, **cookies))["was_open"] is True


async def test_a_row_that_declares_an_unknown_tool_is_refused() -> None:
    gym = InProcessGym()
    server = gym.add(NotesEnvironment, "notes", mcp_servers=SERVERS)
    error = (await asked(gym, "/seed_session", row(ADD, {**ADD, "name": "subtract"})))["error"]
    assert (error["type"], error["code"]) == ("input", "unknown_tool")
    assert "['subtract'], which `notes` does not serve; its tools are: add, " in error["message"]
    await server.before_stop()


async def test_a_client_at_mcp_has_the_tools_of_the_row(tmp_path: Path) -> None:
    port = free_port()
    program = await asyncio.create_subprocess_exec(sys.executable, str(NOTES), str(port), cwd=tmp_path)
    try:
        await until_accepts(port)
        options = {"notes": {"url": f"http://127.0.0.1:{port}/mcp"}}
        notes = NotesEnvironment.standalone(name="notes", expose_tools_over_mcp=True, mcp_servers=options)
        async with serving(notes) as url, httpx2.AsyncClient() as http:
            opened = (await http.post(f"{url}/seed_session", content=orjson.dumps(row(ADD)))).json()["mcp"]
            http.headers.update(opened["headers"])
            async with Client(streamable_http_client(f"{url}/mcp", http_client=http)) as client:
                assert [tool.name for tool in (await client.list_tools()).tools] == ["add"]
                assert (await client.call_tool("process", {})).is_error
                assert not (await client.call_tool("add", {"text": "a"})).is_error
    finally:
        program.terminate()
        await program.wait()


def test_a_route_for_every_tool_excludes_mcp_servers() -> None:
    with pytest.raises(ConfigError, match="has a route for every tool"):
        WithRouteForAll.standalone(name="notes", mcp_servers=SERVERS).finish_app()
