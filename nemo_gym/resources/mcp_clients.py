"""Tools of MCP servers as the tools of an environment (`mcp_servers`).

Each session has one client per MCP server, which is opened with the session and closed with it. A `stdio` server is a
process of its session; its working folder is the session's own and begins with the files of the task row. A tool is
called like any other, by `POST /<tool>` with its arguments.
"""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import Mapping
from contextlib import AsyncExitStack
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, NamedTuple, Self

from pydantic import BaseModel, Field, model_validator

from nemo_gym.failures import ConfigError, GymError, ToolError, VerifierError
from nemo_gym.resources._standard_error import StandardErrorCopy
from nemo_gym.resources.mcp_tools import MCPTool, check_tools

if TYPE_CHECKING:
    from mcp import Client
    from mcp.types import CallToolResult

log = logging.getLogger(__name__)

_FOLDER = "{folder}"
_LEAVE_OUT = "Name those to offer in `tools` of each server in mcp_servers."
_CRASH = re.compile(r"(Error executing tool \S+(: |$))+")
"""The answer of the Python SDK to an exception that a tool did not expect; its text stays at the server."""


class McpServerOptions(BaseModel, extra="forbid"):
    """An MCP server: a program that speaks over its standard streams, or an endpoint of streamable HTTP."""

    command: list[str] | None = Field(None, min_length=1)
    """The program and its arguments. It runs in the session's folder, whose path replaces `{folder}`."""
    environment: dict[str, str] = Field(default_factory=dict)
    """Variables of the program, beside `PATH`, `HOME` and a few others of the same kind."""
    url: str | None = None
    headers: dict[str, str] = Field(default_factory=dict)
    """Headers of every request to `url`."""
    tools: list[str] | None = None
    """The names of the tools to offer; None for all."""
    timeout_s: float = Field(60.0, gt=0, allow_inf_nan=False)
    """Seconds for its start, and for each call."""

    @model_validator(mode="after")
    def _is_program_or_endpoint(self) -> Self:
        if (self.command is None) == (self.url is None):
            raise ValueError("an MCP server needs either `command` or `url`")
        return self


class _ServedTool(NamedTuple):
    client: Client
    tool: MCPTool
    printed: StandardErrorCopy | None
    """The standard error of its server, if that is a program."""


class McpClients:
    """The clients of a server's open sessions."""

    def __init__(self, name: str, servers: Mapping[str, McpServerOptions]) -> None:
        """Raises `ConfigError` if the package `mcp` is not installed. `name` is the resources server's."""
        try:
            import mcp  # noqa: F401 - it takes a second, which a session should not wait for
        except ImportError as error:
            raise ConfigError(
                f"`{name}` takes its tools from MCP servers, and the package `mcp` cannot be imported: {error}",
                code="mcp_not_installed",
                remedy="Install the gym's extra `mcp`; `gym doctor` shows the command for extras.",
            ) from error
        self._name = name
        self._servers = servers
        self._sessions: dict[str, _SessionClients] = {}

    async def open(self, session: str, files: Mapping[str, str]) -> None:
        """Connect a session to every MCP server. `files` (path → text) are put into its folder.

        A second opening begins anew. Raises `VerifierError` for a server that does not start, and `ConfigError` for
        tools with illegal or equal names.
        """
        await self.close(session)
        clients = self._sessions[session] = _SessionClients(self._name, self._servers, files)
        try:
            await clients.opened
        except BaseException:
            await self.close(session)
            raise

    async def close(self, session: str) -> None:
        """Close the clients of a session, and end its programs. No effect on a session without clients."""
        clients = self._sessions.pop(session, None)
        if clients is not None:
            await clients.close()

    def tools(self, session: str) -> list[MCPTool]:
        """Return the tools of a session; none if it is not open."""
        clients = self._sessions.get(session)
        return [served.tool for served in clients.served.values()] if clients is not None else []

    def folder(self, session: str) -> Path | None:
        """Return the folder in which the programs of a session run; None if it is not open."""
        clients = self._sessions.get(session)
        return clients.folder if clients is not None else None

    async def call(self, session: str, name: str, arguments: dict[str, Any]) -> str:
        """Return the text that a tool answers.

        Raises `ToolError` for an unknown tool and for an error of the tool; `VerifierError` if its server has ended.
        """
        clients = self._sessions.get(session)
        served = clients.served.get(name) if clients is not None else None
        if served is None:
            known = ", ".join(tool.name for tool in self.tools(session)) or "none"
            raise _build_failed_error(
                f"there is no tool named {name!r}; the tools of the session are: {known}"
            )
        return _read_result_text(await _call_tool(served, name, arguments), name)


class _SessionClients:
    """The clients of one session. One task opens and closes them, because the client library requires it."""

    def __init__(self, name: str, servers: Mapping[str, McpServerOptions], files: Mapping[str, str]) -> None:
        self.served: dict[str, _ServedTool] = {}
        self.folder = Path()
        self.opened: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._name = name
        self._servers = servers
        self._files = files
        self._printed: StandardErrorCopy | None = None
        """The standard error of the program that was started last."""
        self._closing = asyncio.Event()
        self._owner = asyncio.create_task(self._own())

    async def close(self) -> None:
        self._closing.set()
        if not self.opened.done() or self.opened.cancelled():
            self._owner.cancel()
        await asyncio.wait({self._owner})

    async def _own(self) -> None:
        try:
            with TemporaryDirectory(prefix="nemo_gym_mcp_", ignore_cleanup_errors=True) as folder:
                self.folder = Path(folder)
                _write(self.folder, self._files)
                async with AsyncExitStack() as stack:
                    await self._connect(stack)
                    self.opened.set_result(None)
                    await self._closing.wait()
        except asyncio.CancelledError:
            if not self.opened.done():
                self.opened.set_exception(
                    _session_lost("the session was closed before its MCP servers were connected")
                )
            raise
        except Exception as error:  # noqa: BLE001 - the client library raises groups of errors of any type
            cause = _cause(error)
            if self.opened.done():
                log.warning("an MCP client of `%s` did not close cleanly: %r", self._name, cause)
            else:
                is_ours = isinstance(cause, GymError)
                self.opened.set_exception(cause if is_ours else await self._build_not_started_error(cause))

    async def _connect(self, stack: AsyncExitStack) -> None:
        found: list[_ServedTool] = []
        for options in self._servers.values():
            client = await self._connect_client(stack, options)
            found += [_ServedTool(client, tool, self._printed) for tool in await _list_tools(client, options)]
        checked = check_tools(self._name, [served.tool for served in found], _LEAVE_OUT)
        self.served = dict(zip(checked, found, strict=True))

    async def _connect_client(self, stack: AsyncExitStack, options: McpServerOptions) -> Client:
        """Return a connected client, which closes with `stack`."""
        import httpx2
        from mcp import Client, StdioServerParameters, stdio_client
        from mcp.client.streamable_http import streamable_http_client

        self._printed = None
        if options.command is not None:
            program, *arguments = (part.replace(_FOLDER, str(self.folder)) for part in options.command)
            started = StdioServerParameters(
                command=program, args=arguments, env=options.environment, cwd=self.folder
            )
            self._printed, errors = await StandardErrorCopy.open()
            stack.push_async_callback(self._printed.close)
            with errors:  # the program has it, too, once it has started
                client = Client(stdio_client(started, errors), read_timeout_seconds=options.timeout_s)
                return await stack.enter_async_context(client)
        assert options.url is not None
        http = httpx2.AsyncClient(headers=options.headers, timeout=options.timeout_s)
        endpoint = streamable_http_client(options.url, http_client=await stack.enter_async_context(http))
        return await stack.enter_async_context(Client(endpoint, read_timeout_seconds=options.timeout_s))

    async def _build_not_started_error(self, cause: BaseException) -> VerifierError:
        servers, reason = ", ".join(self._servers), str(cause) or repr(cause)
        return VerifierError(
            f"`{self._name}` cannot connect a session to its MCP servers ({servers}): "
            + await _add_last_line(reason, self._printed),
            code="mcp_server_unavailable",
            remedy="Run the `command`, or call the `url`, of its mcp_servers by hand.",
        )


async def function_tools(servers: Mapping[str, McpServerOptions]) -> list[dict[str, Any]]:
    """Return the tools of MCP servers as a task row declares them, in `responses_create_params.tools`."""
    clients = McpClients("mcp_servers", servers)
    await clients.open("", {})
    try:
        return [
            {
                "type": "function",
                "name": tool.name,
                "description": tool.description,
                "parameters": dict(tool.input_schema),
                "strict": False,
            }
            for tool in clients.tools("")
        ]
    finally:
        await clients.close("")


def _write(folder: Path, files: Mapping[str, str]) -> None:
    for path, text in files.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(text, encoding="utf-8", newline="")


async def _add_last_line(reason: str, printed: StandardErrorCopy | None) -> str:
    """Return the reason with the last line of the program that has ended, which most often tells the cause."""
    line = await printed.read_last_line() if printed is not None else ""
    return f"{reason}; its last line: {line}" if line else reason


async def _list_tools(client: Client, options: McpServerOptions) -> list[MCPTool]:
    tools, cursor = [], None
    while True:
        page = await client.list_tools(cursor=cursor)
        tools += [
            MCPTool(tool.name, f"/{tool.name}", tool.description or "", tool.input_schema)
            for tool in page.tools
            if options.tools is None or tool.name in options.tools
        ]
        cursor = page.next_cursor
        if cursor is None:
            return tools


async def _call_tool(served: _ServedTool, name: str, arguments: dict[str, Any]) -> CallToolResult:
    import httpx2
    from mcp import MCPError
    from mcp.types import CONNECTION_CLOSED, REQUEST_TIMEOUT

    try:
        return await served.client.call_tool(name, arguments)
    except MCPError as error:
        if error.code == REQUEST_TIMEOUT:
            raise _build_crashed_error(
                f"{name} did not answer in time: {error.message}", retryable=True
            ) from error
        if error.code != CONNECTION_CLOSED:
            raise _build_crashed_error(error.message) from error
        raise _build_lost_error(name, await _add_last_line(error.message, served.printed)) from error
    except (httpx2.HTTPError, OSError) as error:
        raise _build_lost_error(name, repr(error)) from error


def _read_result_text(result: CallToolResult, name: str) -> str:
    """Return the text of a result. Parts of other types are named. Raises `ToolError` for an error of the tool."""
    parts = [part.text if part.type == "text" else f"[{part.type}]" for part in result.content]
    text = "\n".join(parts)
    if result.is_error:
        if _CRASH.fullmatch(text.strip()):
            raise _build_crashed_error(text)
        raise _build_failed_error(text or f"{name} failed")
    return text


def _build_failed_error(message: str) -> ToolError:
    return ToolError(message, code="tool_failed", status=422)


def _build_crashed_error(message: str, *, retryable: bool = False) -> ToolError:
    """Return the error for a server that failed itself: by its protocol, or by an exception in the tool's code."""
    return ToolError(message, code="tool_crashed", retryable=retryable)


def _build_lost_error(name: str, reason: str) -> VerifierError:
    return _session_lost(f"the MCP server of the tool {name} has ended: {reason}")


def _session_lost(message: str) -> VerifierError:
    return VerifierError(message, code="session_lost", retryable=True, status=409)


def _cause(error: BaseException) -> BaseException:
    """Return the first error in a group of errors."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error
