"""One attempt whose policy is a client of OpenEnv: the episode driver runs it, and the client's actions are its turns.

Session, tools, verification and further turns are those of every rollout, so the reward is that of `/verify`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import orjson

from nemo_gym.agents.policy import Trajectory, input_items
from nemo_gym.agents.tools import FailedToolCall, ToolClient
from nemo_gym.clock import hex_id
from nemo_gym.episodes.driver import Act, Episode, OnTruncation, SessionBodies, drive
from nemo_gym.failures import InputError, VerifierError
from nemo_gym.rows.compose import drop_result
from nemo_gym.rows.forms import ScoredRow, TaskRow
from nemo_gym.rows.verdict import EndReason, read_reward
from nemo_gym.transport.context import RequestContext, current_context
from nemo_gym.transport.server_client import ServerClient

_POLICY = "openenv_client"


@dataclass(frozen=True, slots=True)
class ToolAction:
    """The call of a tool."""

    name: str
    arguments: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class MessageAction:
    """The last answer of a turn."""

    text: str


Action = ToolAction | MessageAction


@dataclass(frozen=True, slots=True)
class MoveResult:
    """The effect of a reset or of an action."""

    observation: dict[str, Any]
    reward: float | None = None
    is_done: bool = False
    metadata: dict[str, Any] = field(default_factory=dict)


@dataclass(slots=True)
class _Options:
    skip_verification: bool = False
    skip_verification_reward: float = 0.0
    on_truncation: OnTruncation = OnTruncation.VERIFY


class ClientEpisode:
    """An open attempt at a task row. It is an agent for the episode driver."""

    def __init__(self, client: ServerClient, resources_server: str, row: TaskRow) -> None:
        self.id = hex_id()
        self.config = _Options()
        self.steps = 0
        self.is_over = False
        self.server_client = client
        self.resources_server_name = resources_server
        self.row = row
        self._actions: asyncio.Queue[Action] = asyncio.Queue()
        self._moves: asyncio.Queue[MoveResult] = asyncio.Queue()
        self._driving: asyncio.Task[ScoredRow] | None = None

    async def begin(self) -> MoveResult:
        """Open the session, and return what the policy reads. Raises `GymError`."""
        self._driving = asyncio.create_task(self._drive())
        return await self._wait()

    async def take(self, action: Action) -> MoveResult:
        """Take an action. Raises `GymError`; after it the attempt is over."""
        if self._driving is None or self.is_over:
            raise InputError("the episode is over", code="no_episode", remedy="Reset the environment.")
        self.steps += 1
        self._actions.put_nowait(action)
        return await self._wait()

    async def close(self) -> None:
        """End the attempt, and close its session. Idempotent."""
        self.is_over = True
        if self._driving is not None:
            self._driving.cancel()
            await asyncio.gather(self._driving, return_exceptions=True)

    def session_bodies(self, episode: Episode) -> SessionBodies:
        return SessionBodies(orjson.dumps(episode.row))

    async def act(self, episode: Episode) -> Act:
        """Take the client's actions until its message. A turn begins with what the policy reads."""
        params = episode.params
        tools = ToolClient(self.server_client, self.resources_server_name, params.get("tools"))
        trajectory = Trajectory(params)
        messages = input_items(params["input"])
        self._moves.put_nowait(
            MoveResult({"messages": messages, "tools": [*map(show_tool, params.get("tools") or ())]})
        )
        while True:
            action = await self._actions.get()
            if isinstance(action, MessageAction):
                trajectory.add_answer(_answer(build_message(action.text)))
                return trajectory.end(EndReason.FINAL_ANSWER)
            self._moves.put_nowait(await self._call(tools, trajectory, action))

    async def _call(self, tools: ToolClient, trajectory: Trajectory, action: ToolAction) -> MoveResult:
        call = build_call(action)
        trajectory.add_answer(_answer(call))
        try:
            output = await tools.call_or_raise(action.name, call["arguments"])
            trajectory.add_tool_output(call["call_id"], output)
        except FailedToolCall as failed:
            output = failed.output
            trajectory.add_failed_output(call["call_id"], failed)
        return MoveResult({"tool_name": action.name, "result": output, "error": None})

    async def _drive(self) -> ScoredRow:
        current_context.set(RequestContext(self.id))
        return await drive(self, Episode(self.row))

    async def _wait(self) -> MoveResult:
        """Return the next observation, or the verdict. Raises the `GymError` of an attempt that failed."""
        assert self._driving is not None
        moving = asyncio.create_task(self._moves.get())
        try:
            await asyncio.wait({moving, self._driving}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            is_moved = moving.done() and not moving.cancelled()
            moving.cancel()
        if is_moved:
            return moving.result()
        self.is_over = True
        return self._read_verdict(self._driving.result())

    def _read_verdict(self, row: ScoredRow) -> MoveResult:
        reward = read_reward(row)
        if reward is None:
            raise VerifierError(f"`{self.resources_server_name}` gave no reward", code="no_reward")
        metrics = {
            name: value
            for name, value in drop_result(row).items()
            if isinstance(value, int | float) and name not in self.row
        }
        return MoveResult({"messages": [], "tools": []}, reward, is_done=True, metadata=metrics)


def show_tool(tool: Mapping[str, Any]) -> dict[str, Any]:
    """Return a function of the Responses API as a tool of MCP."""
    return {
        "name": tool.get("name"),
        "description": tool.get("description") or "",
        "input_schema": tool.get("parameters") or {"type": "object", "properties": {}},
    }


def build_call(action: ToolAction) -> dict[str, Any]:
    return {
        "type": "function_call",
        "id": f"fc_{hex_id()}",
        "call_id": f"call_{hex_id()}",
        "name": action.name,
        "arguments": orjson.dumps(action.arguments).decode(),
        "status": "completed",
    }


def build_message(text: str) -> dict[str, Any]:
    return {
        "type": "message",
        "id": f"msg_{hex_id()}",
        "role": "assistant",
        "status": "completed",
        "content": [{"type": "output_text", "text": text, "annotations": []}],
    }


def _answer(item: dict[str, Any]) -> dict[str, Any]:
    return {**Act.build_empty_response(_POLICY), "output": [item]}
