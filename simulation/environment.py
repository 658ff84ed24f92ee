"""The environment that the simulation plays in, and the policy that plays it: both know what is right.

A task names amounts to be added with a tool, one call each, and the total that this gives. The environment keeps
the count of every session and tells the witness of everything that it really did. A task may tell the policy to
state a wrong total, so that rewards differ.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from random import Random
from typing import Any

import orjson
from fastapi import FastAPI, Request
from pydantic import BaseModel, PrivateAttr

from nemo_gym.mock_engine import Reply, ToolCall
from nemo_gym.mock_engine.conversation import Message, Tool, last_user_text, since_last_user
from nemo_gym.resources.server import BaseResourcesServerConfig, SimpleResourcesServer
from nemo_gym.serving.rows import (
    BaseSeedSessionRequest,
    BaseSeedSessionResponse,
    BaseVerifyRequest,
    BaseVerifyResponse,
)
from nemo_gym.serving.sessions import SESSION_ID_KEY
from simulation.events import Kind, ToolRun, Verdict
from simulation.faults import AGENT, ENVIRONMENT
from simulation.processes import attempt_at_work, require_alive
from simulation.witness import Witness

TOTAL_IS_RIGHT, TOTAL_IS_MISSTATED, NOTHING_IS_RIGHT = 1.0, 0.5, 0.0
_SHORT_S, _LONG_S = (0.0005, 0.05), (0.1, 2.5)
"""What a handler takes. The long ones end before a session's closing stops waiting for them."""
_LONG_SHARE = 0.15
"""How often tools and verifiers take long."""

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
    """A task row."""
    amounts = [rng.randint(1, 99) for _ in range(rng.choice((0, 1, 1, 2, 3)))]
    plan = {"number": number, "amounts": amounts, "lies": rng.random() < 0.3}
    return {
        "responses_create_params": {"input": orjson.dumps(plan).decode(), "tools": [_ADD]},
        "agent_ref": {"type": "responses_api_agents", "name": AGENT},
        "total": sum(amounts),
    }


def right_reward(row: Mapping[str, Any]) -> float:
    """What an attempt at a task is worth when nothing comes between the policy and its tools."""
    plan = orjson.loads(row["responses_create_params"]["input"])
    return TOTAL_IS_MISSTATED if plan["lies"] else TOTAL_IS_RIGHT


class AddingPolicy:
    """Does what the task says, one call at a time, whatever the tools answer."""

    def reply(self, conversation: Sequence[Message], tools: Sequence[Tool], rng: Random) -> Reply:
        plan = orjson.loads(last_user_text(conversation))
        step = sum(message.get("role") == "tool" for message in since_last_user(conversation))
        if step < len(plan["amounts"]):
            arguments = orjson.dumps({"amount": plan["amounts"][step], "step": step}).decode()
            return Reply(tool_calls=(ToolCall("add", arguments),))
        return Reply(f"The total is {sum(plan['amounts']) + plan['lies']}.")


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
    """The session that was scored: by it the row is held against what really happened."""


class SimulatedEnvironment(SimpleResourcesServer):
    """Counts, and tells the witness."""

    config: BaseResourcesServerConfig
    _counts: dict[str, int] = PrivateAttr(default_factory=dict)
    _witness: Witness | None = PrivateAttr(default=None)
    _rng: Random = PrivateAttr(default_factory=Random)

    def attach(self, witness: Witness, rng: Random) -> None:
        """Tell `witness` from now on; how long things take is drawn from `rng`."""
        self._witness, self._rng = witness, rng

    @property
    def states_held(self) -> int:
        """Sessions whose state is kept."""
        return len(self._counts)

    def setup_webserver(self) -> FastAPI:
        app = super().setup_webserver()
        app.post("/add")(self.add)
        return app

    async def seed_session(  # type: ignore[override]  # with the request, for its session
        self, request: Request, body: SeedRequest
    ) -> BaseSeedSessionResponse:
        await self._work()
        session = request.session[SESSION_ID_KEY]
        self._counts[session] = 0
        self._tell(Kind.OPENED, session)
        return BaseSeedSessionResponse()

    async def add(self, request: Request, body: Addition) -> dict[str, int]:
        await self._work(_LONG_SHARE)
        session = request.session[SESSION_ID_KEY]
        self._tell(Kind.TOOL, ToolRun(session, body.step, session in self._counts))
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
        self._tell(Kind.SCORED, Verdict(session, reward))
        return VerifyResponse(**body.model_dump(), reward=reward, session=session)

    async def close_session(self, session_id: str) -> None:
        await self._work()
        self._counts.pop(session_id, None)
        self._tell(Kind.CLOSED, session_id)

    async def _work(self, long_share: float = 0.0) -> None:
        is_long = self._rng.random() < long_share
        await asyncio.sleep(self._rng.uniform(*(_LONG_S if is_long else _SHORT_S)))

    def _tell(self, kind: Kind, detail: Any) -> None:
        require_alive()
        if self._witness is not None:
            self._witness.note(kind, ENVIRONMENT, attempt=attempt_at_work(), detail=detail)
