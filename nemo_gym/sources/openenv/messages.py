"""The messages of OpenEnv's web sockets, JSON-RPC, and the schemas of actions, observations and states.

A connection has at most one attempt at a time. `reset` opens it, and the end of the connection closes it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, Literal

import orjson
from pydantic import BaseModel, ConfigDict, TypeAdapter, ValidationError

from nemo_gym.failures import GymError, InputError
from nemo_gym.rows.parts import read_params
from nemo_gym.sources.openenv.episode import (
    Action,
    ClientEpisode,
    MessageAction,
    MoveResult,
    ToolAction,
    show_tool,
)
from nemo_gym.sources.openenv.tasks import TaskSplits

Open = Callable[[Mapping[str, Any]], ClientEpisode]
"""Makes the attempt of a reset, which it does not begin. Raises `InputError` for a task that is not there."""

_INVALID, _UNKNOWN_METHOD, _INVALID_PARAMS, _SERVER = -32600, -32601, -32602, -32000


class ListTools(BaseModel):
    """Ask for the tools of the task; no step."""

    model_config = ConfigDict(extra="forbid")

    type: Literal["list_tools"]
    metadata: dict[str, Any] = {}


class CallTool(BaseModel):
    """Call a tool of the task."""

    model_config = ConfigDict(extra="forbid")

    type: Literal["call_tool"]
    tool_name: str
    arguments: dict[str, Any] = {}
    metadata: dict[str, Any] = {}


class Say(BaseModel):
    """Give the last answer, which is verified."""

    model_config = ConfigDict(extra="forbid")

    message: str
    metadata: dict[str, Any] = {}


_ACTION: TypeAdapter[ListTools | CallTool | Say] = TypeAdapter(ListTools | CallTool | Say)

SCHEMAS: Final[Mapping[str, Any]] = {
    "action": {
        "type": "object",
        "properties": {
            "type": {"enum": ["call_tool", "list_tools"], "description": "Left out in a message."},
            "tool_name": {"type": "string", "description": "The tool to call."},
            "arguments": {"type": "object", "description": "Its arguments."},
            "message": {"type": "string", "description": "The last answer, which is verified."},
            "metadata": {"type": "object", "description": "Not used."},
        },
        "additionalProperties": False,
    },
    "observation": {
        "type": "object",
        "properties": {
            "messages": {
                "type": "array",
                "description": "What the policy reads, as items of the Responses API.",
            },
            "tools": {"type": "array", "description": "The tools of the task."},
            "tool_name": {"type": "string", "description": "The tool that was called."},
            "result": {"type": "string", "description": "Its output."},
        },
    },
    "state": {
        "type": "object",
        "properties": {"episode_id": {"type": ["string", "null"]}, "step_count": {"type": "integer"}},
    },
}


class Connection:
    """One web socket of a client."""

    def __init__(self, open_episode: Open, tasks: TaskSplits) -> None:
        self._open, self._tasks = open_episode, tasks
        self._episode: ClientEpisode | None = None

    async def answer(self, text: str | bytes) -> dict[str, Any] | None:
        """Return the answer to a message; None for `close`."""
        try:
            message = orjson.loads(text)
        except orjson.JSONDecodeError as error:
            return show_error("INVALID_JSON", f"Invalid JSON: {error}")
        kind = message.get("type") if isinstance(message, dict) else None
        data = message.get("data") or {} if isinstance(message, dict) else {}
        if not isinstance(data, dict) and kind != "mcp":
            return show_error("VALIDATION_ERROR", "Invalid message: `data` is not an object")
        try:
            if kind == "reset":
                return {"type": "observation", "data": show(await self.reset(data))}
            if kind == "step":
                return {"type": "observation", "data": show(await self._step(data))}
        except ValidationError as error:
            errors = error.errors(include_url=False, include_context=False, include_input=False)
            return show_error("VALIDATION_ERROR", "Invalid message", errors=errors)
        except GymError as error:
            return show_error("EXECUTION_ERROR", str(error))
        if kind == "state":
            return {"type": "state", "data": self.state}
        if kind == "mcp":
            return {"type": "mcp", "data": await self.answer_rpc(data)}
        return None if kind == "close" else show_error("UNKNOWN_TYPE", f"Unknown message type: {kind}")

    @property
    def state(self) -> dict[str, Any]:
        episode = self._episode
        return {"episode_id": episode.id if episode else None, "step_count": episode.steps if episode else 0}

    async def reset(self, arguments: Mapping[str, Any]) -> MoveResult:
        """Begin an attempt, in the place of one that is open. Raises `GymError`."""
        await self.close()
        self._episode = self._open(arguments)
        return await self._episode.begin()

    async def close(self) -> None:
        """Close the attempt. Idempotent."""
        episode, self._episode = self._episode, None
        if episode is not None:
            await episode.close()

    async def answer_rpc(self, request: object) -> dict[str, Any]:
        """Return the answer to a JSON-RPC request."""
        asked = request if isinstance(request, dict) else {}
        number = asked.get("id")
        if asked.get("jsonrpc") != "2.0" or not isinstance(asked.get("method"), str):
            return show_rpc(number, error=(_INVALID, "Invalid Request"))
        params = asked.get("params") or {}
        if asked["method"] == "tools/list":
            tools = [{**tool, "inputSchema": tool["input_schema"]} for tool in self._list_tools()]
            return show_rpc(number, {"tools": tools})
        if asked["method"] != "tools/call":
            return show_rpc(number, error=(_UNKNOWN_METHOD, "Method not found"))
        try:
            moved = await self._take(ToolAction(params["name"], params.get("arguments") or {}))
        except (KeyError, TypeError):
            return show_rpc(number, error=(_INVALID_PARAMS, "Invalid params"))
        except GymError as error:
            return show_rpc(number, error=(_SERVER, str(error)))
        return show_rpc(number, {"content": [{"type": "text", "text": moved.observation["result"]}]})

    def _list_tools(self) -> list[dict[str, Any]]:
        """Return the tools of the open attempt, else those of the first task."""
        row = self._episode.row if self._episode is not None else self._tasks.choose({})
        return [*map(show_tool, read_params(row).get("tools") or ())]

    async def _step(self, data: Mapping[str, Any]) -> MoveResult:
        action = _ACTION.validate_python(data)
        if isinstance(action, ListTools):
            return MoveResult({"tools": self._list_tools()})
        if isinstance(action, Say):
            return await self._take(MessageAction(action.message))
        return await self._take(ToolAction(action.tool_name, action.arguments))

    async def _take(self, action: Action) -> MoveResult:
        if self._episode is None:
            raise InputError("there is no episode", code="no_episode", remedy="Reset the environment.")
        return await self._episode.take(action)


def show(moved: MoveResult) -> dict[str, Any]:
    """Return an observation as OpenEnv has it."""
    metadata = {"metadata": moved.metadata} if moved.metadata else {}
    return {"observation": moved.observation, "reward": moved.reward, "done": moved.is_done, **metadata}


def show_error(code: str, message: str, **more: Any) -> dict[str, Any]:
    return {"type": "error", "data": {"message": message, "code": code, **more}}


def show_rpc(number: Any, result: Any = None, error: tuple[int, str] | None = None) -> dict[str, Any]:
    """Return an answer of JSON-RPC."""
    told = {"result": result} if error is None else {"error": {"code": error[0], "message": error[1]}}
    return {"jsonrpc": "2.0", "id": number, **told}
