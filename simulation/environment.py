"""The simulated environment and its policy.

A task has amounts to add with a tool, one call each, and their total. The environment keeps the count of every
session and reports all its effects to the monitor. Some tasks make the policy state a wrong total, so rewards differ.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from random import Random
from typing import Any

import orjson
from fastapi import FastAPI, Request
from pydantic import BaseModel, PrivateAttr

from nemo_gym.mock_engine import ModelReply, ToolCall
from nemo_gym.mock_engine.conversation import Message, Tool, drop_until_last_user, last_user_text
from nemo_gym.protocol.resources_sessions import (
    ResourcesCloseSessionRequest,
    ResourcesCloseSessionResponse,
    ResourcesSeedSessionRequest,
)
from nemo_gym.resources.server import BaseResourcesServerConfig, SimpleResourcesServer
from nemo_gym.rows.models import (
    BaseSeedSessionRequest,
    BaseSeedSessionResponse,
    BaseVerifyRequest,
    BaseVerifyResponse,
)
from nemo_gym.serving.sessions import SESSION_ID_KEY
from simulation.events import Kind, ToolRun, Verdict
from simulation.faults import AGENT, ENVIRONMENT
from simulation.monitor import Monitor
from simulation.processes import attempt_at_work, require_alive

TOTAL_IS_RIGHT, TOTAL_IS_MISSTATED, NOTHING_IS_RIGHT = 1.0, 0.5, 0.0
_SHORT_S, _LONG_S = (0.0005, 0.05), (0.1, 2.5)
"""Seconds of a handler. Even long ones end within the time that closing a session waits for them."""
_LONG_SHARE = 0.15
"""Share of long tool calls and verifications."""

_ADD = {
    "type": "function",
    "name": "add",
    "description": "Add an amount to the total.",
    "parameters": {
        "type": "object",
        "properties": {"amount": {"type": "integer"}, "step": {"type": "integer"}},
        "required": ["amount", "step"],
        "additionalProperties": False,
    },
    "strict": True,
}


def draw_task(rng: Random, number: int) -> dict[str, Any]:
    """Draw a task row."""
    amounts = [rng.randint(1, 99) for _ in range(rng.choice((0, 1, 1, 2, 3)))]
    plan = {"number": number, "amounts": amounts, "lies": rng.random() < 0.3}
    return {
        "responses_create_params": {"input": orjson.dumps(plan).decode(), "tools": [_ADD]},
        "agent_ref": {"type": "responses_api_agents", "name": AGENT},
        "total": sum(amounts),
    }


def right_reward(row: Mapping[str, Any]) -> float:
    """Return the reward of an undisturbed attempt at a task."""
    plan = orjson.loads(row["responses_create_params"]["input"])
    return TOTAL_IS_MISSTATED if plan["lies"] else TOTAL_IS_RIGHT


class AddingPolicy:
    """Makes the task's calls one at a time, and ignores the tools' answers."""

    def reply(self, conversation: Sequence[Message], tools: Sequence[Tool], rng: Random) -> ModelReply:
        plan = orjson.loads(last_user_text(conversation))
        step = sum(message.get("role") == "tool" for message in drop_until_last_user(conversation))
        if step < len(plan["amounts"]):
            arguments = orjson.dumps({"amount": plan["amounts"][step], "step": step}).decode()
            return ModelReply(tool_calls=(ToolCall("add", arguments),))
        return ModelReply(f"The total is {sum(plan['amounts']) + plan['lies']}.")


class Addition(BaseModel):
    amount: int
    step: int


class TaskRow(BaseModel):
    total: int


class SeedRequest(TaskRow, BaseSeedSessionRequest):
    pass


class VerifyRequest(TaskRow, BaseVerifyRequest):
    pass


class VerifyResponse(VerifyRequest, BaseVerifyResponse):
    session: str
    """The scored session, which connects the row to the recorded events."""


class SimulatedEnvironment(SimpleResourcesServer):
    """Counts amounts by session, and reports to the monitor."""

    config: BaseResourcesServerConfig
    _counts: dict[str, int] = PrivateAttr(default_factory=dict)
    _monitor: Monitor | None = PrivateAttr(default=None)
    _rng: Random = PrivateAttr(default_factory=Random)

    def attach(self, monitor: Monitor, rng: Random) -> None:
        """Report to `monitor` from now on. Durations are drawn from `rng`."""
        self._monitor, self._rng = monitor, rng

    @property
    def states_held(self) -> int:
        """The number of sessions with state."""
        return len(self._counts)

    def setup_webserver(self) -> FastAPI:
        app = super().setup_webserver()
        app.post("/add")(self.add)
        return app

    async def seed_session(  # type: ignore[override]  # with the request, for its session
        self, request: Request, body: ResourcesSeedSessionRequest | SeedRequest
    ) -> BaseSeedSessionResponse:
        await self._work()
        session = request.session[SESSION_ID_KEY]
        self._counts[session] = 0
        self._report(Kind.OPENED, session)
        if isinstance(body, ResourcesSeedSessionRequest):
            self._report(Kind.NAMED, body.resources_session_id)
        return BaseSeedSessionResponse()

    async def add(self, request: Request, body: Addition) -> dict[str, int]:
        await self._work(_LONG_SHARE)
        session = request.session[SESSION_ID_KEY]
        self._report(Kind.TOOL, ToolRun(session, body.step, session in self._counts))
        self._counts[session] = self._counts.get(session, 0) + body.amount
        return {"total": self._counts[session]}

    async def verify(  # type: ignore[override]  # with the request, for its session
        self, request: Request, body: VerifyRequest
    ) -> VerifyResponse:
        await self._work(_LONG_SHARE)
        session = request.session[SESSION_ID_KEY]
        reward = NOTHING_IS_RIGHT
        if self._counts.get(session) == body.total:
            stated = f"The total is {body.total}." == body.response.output_text
            reward = TOTAL_IS_RIGHT if stated else TOTAL_IS_MISSTATED
        self._report(Kind.SCORED, Verdict(session, reward))
        return VerifyResponse(**body.model_dump(), reward=reward, session=session)

    async def close_resources_session(
        self, body: ResourcesCloseSessionRequest
    ) -> ResourcesCloseSessionResponse:
        await self._work()
        self._report(Kind.UNNAMED, body.resources_session_id)
        return await super().close_resources_session(body)

    async def release_session(self, session_id: str) -> None:
        await self._work()
        self._counts.pop(session_id, None)
        self._report(Kind.CLOSED, session_id)

    async def _work(self, long_share: float = 0.0) -> None:
        is_long = self._rng.random() < long_share
        await asyncio.sleep(self._rng.uniform(*(_LONG_S if is_long else _SHORT_S)))

    def _report(self, kind: Kind, detail: Any) -> None:
        require_alive()
        if self._monitor is not None:
            self._monitor.record(kind, ENVIRONMENT, attempt=attempt_at_work(), detail=detail)
