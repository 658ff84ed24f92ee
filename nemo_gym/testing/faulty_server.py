"""A resources server with a fault plan, for tests of the components around it.

Its one tool counts, its reward is the count, and it reports its requests and effects:

    POST /add    {"amount": 2}  → {"count": 2}          adds to the session's count
    POST /verify                → reward: the session's count
    GET  /_ng/saw               → requests, executions, faults, disconnects; sessions; the sum of all effects

In a gym, three lines in an `app.py` start it (`FaultyServer.run_webserver()`). In tests,
`FaultyServer.standalone(faults=[...])` is served on a port or in memory. `nemo_gym.testing._faulty_app` describes
the plan.
"""

from __future__ import annotations

from typing import Any

from fastapi import FastAPI, Request
from pydantic import BaseModel, ConfigDict, Field

from nemo_gym.mock_engine.fault_plan import read_plan
from nemo_gym.resources.server import BaseResourcesServerConfig, SimpleResourcesServer
from nemo_gym.rows.models import (
    BaseSeedSessionRequest,
    BaseSeedSessionResponse,
    BaseVerifyRequest,
    BaseVerifyResponse,
)
from nemo_gym.serving.app import GymApp
from nemo_gym.serving.sessions import SESSION_ID_KEY
from nemo_gym.testing._faulty_app import FaultyApp, ServerFaultRule

ADD_TOOL: dict[str, Any] = {
    "type": "function",
    "name": "add",
    "parameters": {
        "type": "object",
        "properties": {"amount": {"type": "integer"}},
        "required": ["amount"],
        "additionalProperties": False,
    },
}
"""The tool's declaration for tasks."""


class FaultyServerConfig(BaseResourcesServerConfig):
    faults: list[dict[str, Any]] | str | None = None
    """The rules, or a YAML file of rules."""
    fault_seed: int = 0


class Amount(BaseModel):
    amount: int


class CountedRequest(BaseVerifyRequest):
    model_config = ConfigDict(extra="allow")


class CountedResponse(BaseVerifyResponse):
    model_config = ConfigDict(extra="allow")


class FaultyServer(SimpleResourcesServer):
    """Counts amounts by session, with faults around the handlers."""

    config: FaultyServerConfig
    counts: dict[str, int] = Field(default_factory=dict)
    """Counts by open session."""
    effects: int = 0
    """The sum of all executed tool calls."""
    closed: int = 0
    """The number of freed sessions."""

    def new_app(self) -> GymApp:
        plan = read_plan(self.config.faults, ServerFaultRule, self.config.fault_seed)
        app = FaultyApp(self.middleware, plan, self.config.fault_seed, title=self.config.name)
        self.add_common_routes(app)

        async def saw() -> dict[str, Any]:
            sessions = {
                "open": len(self.middleware.access.sessions),
                "closed": self.closed,
                "kept": len(self.counts),
            }
            return {**vars(app.counters), "sessions": sessions, "effects": self.effects}

        app.get("/_ng/saw")(saw)
        return app

    def setup_webserver(self) -> FastAPI:
        app = super().setup_webserver()
        app.post("/add")(self.add)
        return app

    async def seed_session(  # type: ignore[override]
        self, request: Request, body: BaseSeedSessionRequest
    ) -> BaseSeedSessionResponse:
        self.counts[request.session[SESSION_ID_KEY]] = 0
        return BaseSeedSessionResponse()

    async def add(self, request: Request, body: Amount) -> dict[str, int]:
        session = request.session[SESSION_ID_KEY]
        self.counts[session] += body.amount
        self.effects += body.amount
        return {"count": self.counts[session]}

    async def verify(self, request: Request, body: CountedRequest) -> CountedResponse:  # type: ignore[override]
        reward = float(self.counts[request.session[SESSION_ID_KEY]])
        return CountedResponse(**body.model_dump(exclude_unset=True), reward=reward)

    async def release_session(self, session_id: str) -> None:
        self.closed += 1
        self.counts.pop(session_id, None)


if __name__ == "__main__":
    FaultyServer.run_webserver()
