"""An environment whose tool counts, for tests: each turn's answer must be the count."""

from __future__ import annotations

from typing import Any

from fastapi import FastAPI, Request
from pydantic import BaseModel, ConfigDict

from nemo_gym.agents.policy import user_message
from nemo_gym.base_resources_server import (
    BaseResourcesServerConfig,
    BaseVerifyRequest,
    BaseVerifyResponse,
    SimpleResourcesServer,
)
from nemo_gym.names import NEXT_TURN_KEY, TURN_KEY
from nemo_gym.rows.forms import TaskRow
from nemo_gym.sources.openenv.tasks import TaskSplits
from nemo_gym.testing import InProcessGym
from nemo_gym.verify.answers import final_text

COUNT_TOOL: dict[str, Any] = {
    "type": "function",
    "name": "count",
    "description": "Count on.",
    "parameters": {"type": "object", "properties": {"by": {"type": "integer"}}, "required": ["by"]},
    "strict": False,
}


class CountRequest(BaseModel):
    by: int


class CountVerifyRequest(BaseVerifyRequest):
    model_config = ConfigDict(extra="allow")

    turns: int = 1
    is_broken: bool = False


class CountVerifyResponse(BaseVerifyResponse):
    model_config = ConfigDict(extra="allow")

    counted: int


class CountServer(SimpleResourcesServer):
    config: BaseResourcesServerConfig

    def setup_webserver(self) -> FastAPI:
        app = super().setup_webserver()
        app.post("/count")(self.count)
        return app

    async def count(self, body: CountRequest, request: Request) -> dict[str, int]:
        request.session["total"] = request.session.get("total", 0) + body.by
        return {"total": request.session["total"]}

    async def verify(self, body: CountVerifyRequest, request: Request) -> CountVerifyResponse:  # type: ignore[override]
        total = request.session.get("total", 0)
        said = final_text(body.response)
        if body.is_broken:
            raise RuntimeError("the verifier is broken")
        turn = (body.model_extra or {}).get(TURN_KEY, 0) + 1
        following = {NEXT_TURN_KEY: {"input": [user_message("go on")]}} if turn < body.turns else {}
        return CountVerifyResponse(
            responses_create_params=body.responses_create_params,
            response=body.response,
            reward=float(said == str(total)),
            counted=total,
            **following,
        )


def build_row(text: str, **fields: Any) -> TaskRow:
    return TaskRow({"responses_create_params": {"input": text, "tools": [COUNT_TOOL]}, **fields})


def build_gym() -> tuple[InProcessGym, CountServer]:
    gym = InProcessGym()
    server = gym.add(CountServer, "counting")
    assert isinstance(server, CountServer)
    return gym, server


def build_tasks() -> TaskSplits:
    train = [build_row(f"count {index}", level=index) for index in range(3)]
    return TaskSplits({"train": train, "mine": [build_row("mine", turns=2)]})
