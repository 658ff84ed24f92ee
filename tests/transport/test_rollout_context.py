"""The rollout that code belongs to: by a block, by a request's path, and by a row."""

from __future__ import annotations

from typing import Any

import pytest
from fastapi import FastAPI, Request
from fastapi.testclient import TestClient

from nemo_gym.base_responses_api_agent import SimpleResponsesAPIAgent
from nemo_gym.openai_utils import NeMoGymResponse
from nemo_gym.rollout_correlation import (
    RolloutContextMiddleware,
    current_rollout_id,
    maybe_rollout_id_from_run_body,
    rollout_context,
)
from nemo_gym.transport.context import RequestContext, current_context
from nemo_gym.transport.deadline import Deadline


def test_blocks_nest_and_none_ends_the_rollout() -> None:
    assert current_rollout_id() is None
    with rollout_context("outer"):
        with rollout_context("inner"):
            assert current_rollout_id() == "inner"
        with rollout_context(None):
            assert current_rollout_id() is None
        assert current_rollout_id() == "outer"
    assert current_rollout_id() is None


def test_the_deadline_of_the_request_stays_within_a_block() -> None:
    deadline = Deadline.after(60)
    reset = current_context.set(RequestContext("request", deadline))
    try:
        with rollout_context("member"):
            context = current_context.get()
            assert context is not None
            assert context.deadline is deadline
    finally:
        current_context.reset(reset)


def test_an_authors_own_app_is_reached_below_a_rollouts_prefix() -> None:
    app = FastAPI()
    app.add_middleware(RolloutContextMiddleware)

    @app.post("/step")
    async def step() -> str | None:
        return current_rollout_id()

    client = TestClient(app)
    assert client.post("/ng-rollout/3-2-a1/step").json() == "3-2-a1"
    assert client.post("/ng-rollout/3-2/training-token-capture/step").json() == "3-2"
    assert client.post("/step").json() is None
    assert client.post("/ng-rollout/3-2/verify").status_code == 404, "control routes have no other name"


def test_an_agent_reads_the_rollout_of_its_route() -> None:
    class Agent(SimpleResponsesAPIAgent):
        async def responses(self, request: Request) -> NeMoGymResponse:  # type: ignore[override]
            return NeMoGymResponse.model_validate(
                {
                    "id": f"{request.path_params['rollout_id']} {current_rollout_id()}",
                    "created_at": 0,
                    "model": "m",
                    "object": "response",
                    "output": [],
                    "parallel_tool_calls": True,
                    "tool_choice": "auto",
                    "tools": [],
                }
            )

    client = TestClient(Agent.standalone().setup_webserver())
    answer = client.post("/ng-rollout/3-2/v1/responses", json={"input": "x"})
    assert answer.json()["id"] == "3-2 3-2"


@pytest.mark.parametrize(
    ("row", "expected"),
    [
        ({}, None),
        ({"_ng_task_index": 3}, None),
        ({"_ng_task_index": 3, "_ng_rollout_index": 0}, "3-0"),
        ({"_ng_task_index": 3, "_ng_rollout_index": 0, "_ng_attempt_index": 2}, "3-0-a2"),
        ({"_ng_rollout_id": "mine", "_ng_attempt_index": 1}, "mine-a1"),
    ],
)
def test_a_row_names_its_rollout(row: dict[str, Any], expected: str | None) -> None:
    assert maybe_rollout_id_from_run_body(row) == expected
