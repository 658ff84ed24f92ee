"""Tools of a resources server over MCP, through the app and as the official client calls them."""

from __future__ import annotations

from typing import Any

import pytest
from fastapi import FastAPI, Request
from fastapi.testclient import TestClient
from pydantic import BaseModel

from nemo_gym.config import bootstrap
from nemo_gym.config.bootstrap import Bootstrap
from nemo_gym.failures import ConfigError
from nemo_gym.names import MCP_TOKEN_HEADER
from nemo_gym.resources.mcp import maybe_auto_expose
from nemo_gym.resources.mcp_tools import CatchAllRoute, MCPTool
from nemo_gym.resources.server import SimpleResourcesServer
from nemo_gym.rows.models import BaseVerifyRequest, BaseVerifyResponse
from tests.serving.environments import VERIFY


class Note(BaseModel):
    text: str


class Notebook(SimpleResourcesServer):
    """Keeps notes by session, and scores 1 if a call of `write` is in the response."""

    def setup_webserver(self) -> FastAPI:
        app = super().setup_webserver()
        app.post("/write")(self.write)
        app.post("/tools/{name}")(self.named)
        return app

    def mcp_tools(self, harvested: list[MCPTool], catchall: CatchAllRoute | None) -> list[MCPTool] | None:
        assert catchall is not None
        return [*harvested, catchall.tool("erase", {"type": "object"}, "Erase all notes.")]

    def mcp_allowed_tools_for_session(self, seed_body: dict[str, Any]) -> list[str] | None:
        return seed_body.get("allowed")

    async def write(self, request: Request, body: Note) -> dict[str, Any]:
        """Write a note."""
        notes = request.session.setdefault("notes", [])
        notes.append(body.text)
        return {"notes": list(notes)}

    async def named(self, name: str) -> str:
        return name

    async def verify(self, body: BaseVerifyRequest) -> BaseVerifyResponse:
        names = [getattr(item, "name", "") for item in body.response.output]
        return BaseVerifyResponse(**body.model_dump(), reward=float("write" in names))


class Number(BaseModel):
    n: int


class Doubling(Notebook):
    def setup_webserver(self) -> FastAPI:
        app = super().setup_webserver()
        app.post("/double")(self.double)
        return app

    async def double(self, body: Number) -> Number:
        return Number(n=body.n * 2)


def client_of(**options: Any) -> TestClient:
    notebook = Notebook.standalone(name="notebook", expose_tools_over_mcp=True, **options)
    return TestClient(notebook.finish_app(), base_url="http://127.0.0.1")


def token_of(client: TestClient, row: dict[str, Any] | None = None) -> str:
    metadata = client.post("/seed_session", json=row or {}).json()["mcp"]
    assert (metadata["server_name"], metadata["url_path"], metadata["transport"]) == (
        "notebook",
        "/mcp",
        "http",
    )
    token: str = metadata["headers"][MCP_TOKEN_HEADER]
    client.cookies.clear()
    return token


def rpc(client: TestClient, method: str, token: str | None = None, **params: Any) -> Any:
    headers = {MCP_TOKEN_HEADER: token} if token else {}
    body = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
    reply = client.post("/mcp", json=body, headers=headers)
    assert reply.status_code == 200, reply.text
    answer = reply.json()
    return answer.get("result", answer.get("error"))


def test_a_client_learns_the_tools_and_calls_one_in_its_session() -> None:
    client = client_of()
    token = token_of(client)
    assert rpc(client, "initialize", protocolVersion="2025-03-26")["protocolVersion"] == "2025-03-26"
    assert (
        client.post("/mcp", json={"jsonrpc": "2.0", "method": "notifications/initialized"}).status_code == 202
    )
    write, erase = rpc(client, "tools/list", token)["tools"]
    assert (write["name"], write["description"]) == ("write", "Write a note.")
    assert write["inputSchema"]["required"] == ["text"]
    assert erase == {"name": "erase", "description": "Erase all notes.", "inputSchema": {"type": "object"}}
    rpc(client, "tools/call", token, name="write", arguments={"text": "a"})
    result = rpc(client, "tools/call", token, name="write", arguments={"text": "b"})
    assert (result["structuredContent"], result["isError"]) == ({"notes": ["a", "b"]}, False)
    other = rpc(client, "tools/call", token_of(client), name="write", arguments={"text": "c"})
    assert other["structuredContent"] == {"notes": ["c"]}
    assert rpc(client, "tools/call", token, name="erase")["content"][0]["text"] == '"erase"'


def test_a_session_lists_tools_as_its_row_describes_them() -> None:
    client = client_of()
    schema = {"type": "object", "properties": {"text": {"type": "string", "pattern": "^[a-z]+$"}}}
    declared = {"type": "function", "name": "write", "description": "Write a word.", "parameters": schema}
    token = token_of(client, {"responses_create_params": {"input": "hi", "tools": [declared]}})
    write, erase = rpc(client, "tools/list", token)["tools"]
    assert (write["description"], write["inputSchema"]) == ("Write a word.", schema)
    assert erase["description"] == "Erase all notes."
    (plain, _) = rpc(client, "tools/list", token_of(client))["tools"]
    assert plain["description"] == "Write a note."


@pytest.mark.parametrize("token", [None, "forged", "notebook.0123"])
def test_a_call_needs_the_token_of_a_session(token: str | None) -> None:
    client = client_of()
    token_of(client)
    assert rpc(client, "tools/call", token, name="write", arguments={"text": "a"})["isError"] is True


def test_a_session_cookie_is_no_token() -> None:
    client = client_of()
    client.post("/seed_session", json={})
    (cookie,) = client.cookies.values()
    assert rpc(client, "tools/call", cookie, name="write", arguments={"text": "a"})["isError"] is True


def test_a_session_may_be_limited_to_some_tools() -> None:
    client = client_of()
    token = token_of(client, {"allowed": ["erase"]})
    assert [tool["name"] for tool in rpc(client, "tools/list", token)["tools"]] == ["erase"]
    assert rpc(client, "tools/call", token, name="write", arguments={"text": "a"})["isError"] is True


def test_long_integers_in_arguments_and_rows_are_kept() -> None:
    client = TestClient(Doubling.standalone(name="notebook", expose_tools_over_mcp=True).finish_app())
    token = token_of(client, {"n": 1 << 70})
    result = rpc(client, "tools/call", token, name="double", arguments={"n": 1 << 70})
    assert result["structuredContent"] == {"n": 1 << 71}
    assert str(1 << 71) in result["content"][0]["text"]


def test_invalid_arguments_are_a_result_for_the_model() -> None:
    client = client_of()
    result = rpc(client, "tools/call", token_of(client), name="write", arguments={})
    assert result["isError"] is True
    assert "text" in result["content"][0]["text"]


def test_an_unknown_method_is_an_error() -> None:
    assert rpc(client_of(), "resources/list")["code"] == -32601


def test_control_routes_are_no_tools() -> None:
    client = client_of()
    assert rpc(client, "tools/call", token_of(client), name="verify", arguments={})["isError"] is True


def test_the_verifier_sees_the_names_of_the_routes_and_the_row_those_of_the_client() -> None:
    called = {"type": "function_call", "name": "mcp__notebook__write", "arguments": "{}", "call_id": "c"}
    row = {**VERIFY, "response": {**VERIFY["response"], "output": [called]}}
    scored = client_of().post("/verify", json=row).json()
    assert scored["reward"] == 1.0
    assert scored["response"]["output"][0]["name"] == "mcp__notebook__write"


def test_an_environment_server_gets_the_endpoint_in_its_own_field() -> None:
    seed = {
        "resources_session_id": "s",
        "episode_id": {"rollout_id": "r"},
        "task_id": {"taskset": "t", "task_id": "0"},
        "task_data": {"allowed": []},
    }
    client = client_of()
    metadata = client.post("/seed_session", json=seed).json()["resources_tools"]
    assert rpc(client, "tools/list", metadata["headers"][MCP_TOKEN_HEADER])["tools"] == []


def test_a_server_that_other_machines_reach_needs_the_session_for_every_method() -> None:
    run = Bootstrap("notebook", {"head_server": {"host": "0.0.0.0", "port": 1}}, "the-run-token", "key", [])
    bootstrap.set_current(run)
    try:
        client = client_of(host="0.0.0.0")
        client.headers["x-ng-token"] = "the-run-token"
        token = token_of(client)
        del client.headers["x-ng-token"]
        body = {"jsonrpc": "2.0", "id": 1, "method": "tools/list"}
        assert client.post("/mcp", json=body).status_code == 401
        result = rpc(client, "tools/call", token, name="write", arguments={"text": "a"})
        assert result["structuredContent"] == {"notes": ["a"]}
    finally:
        bootstrap.set_current(None)


def test_the_endpoint_is_there_only_if_it_is_asked_for() -> None:
    app = Notebook.standalone(name="notebook").finish_app()
    assert TestClient(app).post("/mcp", json={}).status_code == 404


@pytest.mark.parametrize("app", [FastAPI(), None])
def test_an_app_that_cannot_have_it_is_refused(app: FastAPI | None) -> None:
    notebook = Notebook.standalone(name="notebook", expose_tools_over_mcp=True)
    assert isinstance(notebook, Notebook)
    with pytest.raises(ConfigError, match="over MCP"):
        maybe_auto_expose(notebook, app or notebook.finish_app())


def test_a_failed_call_has_the_status_of_its_route() -> None:
    client = client_of()
    token = token_of(client)
    failed = rpc(client, "tools/call", token, name="write", arguments={})
    assert failed["isError"] is True
    assert failed["_meta"]["nemo-gym/status"] == 422
    assert "_meta" not in rpc(client, "tools/call", token, name="write", arguments={"text": "a"})
