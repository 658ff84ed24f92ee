"""Attempts over the transport, against agents that are ASGI apps in memory."""

from __future__ import annotations

from typing import Any

import orjson
import pytest
from fastapi import FastAPI, Request, Response

from nemo_gym.failures import Boundary, EngineError, Failure
from nemo_gym.rollouts.run.agent_attempter import AgentAttempter
from nemo_gym.rollouts.run.answer import AgentAnswer, AttemptResult
from nemo_gym.transport import Caller, Directory, InMemoryTransport, RetryBudget
from tests.rollouts.doubles import AGENT, planned

URL = "http://agent"


def agent_answering(status: int, body: bytes, seen: list[Request] | None = None) -> FastAPI:
    app = FastAPI()

    @app.post("/run")
    async def run(request: Request) -> Response:
        await request.body()
        if seen is not None:
            seen.append(request)
        return Response(body, status)

    return app


async def attempt(app: Any, **options: Any) -> AttemptResult:
    apps = {} if app is None else {URL: app}
    caller = Caller(
        Directory({AGENT: [URL]}), InMemoryTransport(apps), budget=RetryBudget(attempts=1), token="secret"
    )
    return await AgentAttempter(caller, **options).attempt(planned(3, 1).again())


async def failure_of(app: Any) -> Failure:
    result = await attempt(app)
    assert isinstance(result, Failure)
    return result


async def test_the_agent_gets_the_row_the_deadline_and_the_token() -> None:
    seen: list[Request] = []
    result = await attempt(agent_answering(200, b'{"reward": 1}', seen), timeout_s=30.0)
    assert result == AgentAnswer({"reward": 1}, b'{"reward": 1}')
    row = orjson.loads(await seen[0].body())
    assert (row["_ng_task_index"], row["_ng_rollout_index"], row["_ng_attempt_index"]) == (3, 1, 1)
    assert seen[0].headers["x-ng-deadline"] == "28.500"
    assert seen[0].headers["x-ng-token"] == "secret"
    assert seen[0].headers["content-type"] == "application/json"


async def test_a_failure_of_ours_arrives_with_its_root_cause() -> None:
    cause = EngineError(
        "the engine is full", code="overloaded", retryable=True, remedy="Wait.", peer="http://e"
    ).failure
    failure = await failure_of(agent_answering(502, orjson.dumps(cause.to_wire())))
    assert (failure.kind, failure.message, failure.remedy) == (
        "engine:overloaded",
        "the engine is full",
        "Wait.",
    )
    assert failure.hops == (AGENT,)


@pytest.mark.parametrize(
    ("status", "retryable"), [(500, True), (503, True), (429, True), (422, False), (404, False)]
)
async def test_an_error_of_a_third_party_agent_is_quoted(status: int, retryable: bool) -> None:
    failure = await failure_of(agent_answering(status, b"Traceback: something"))
    assert failure.kind == f"agent:http_{status}"
    assert "Traceback: something" in failure.message
    assert failure.retryable is retryable


@pytest.mark.parametrize("body", [b"<html>", b"[]", b"", b'{"reward": NaN}'])
async def test_an_answer_that_is_no_row_is_a_failure(body: bytes) -> None:
    assert (await failure_of(agent_answering(200, body))).kind == "agent:not_a_row"


async def test_an_agent_out_of_reach_is_a_failure_of_the_transport() -> None:
    assert (await failure_of(None)).boundary is Boundary.TRANSPORT
