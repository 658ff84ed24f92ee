import inspect
from typing import Any

import orjson
import pytest
from fastapi import FastAPI, Request
from fastapi.testclient import TestClient
from pydantic import BaseModel, ConfigDict

from nemo_gym.failures import JudgeError
from nemo_gym.resources.judge_failsafe import judge_failsafe


class VerifyRequest(BaseModel):
    model_config = ConfigDict(extra="allow")

    response: dict[str, Any]


class VerifyResponse(VerifyRequest):
    reward: float


async def test_a_successful_verify_is_returned_unchanged() -> None:
    async def verify(body: VerifyRequest) -> VerifyResponse:
        return VerifyResponse(response=body.response, reward=1.0)

    answer = await judge_failsafe(verify)(VerifyRequest(response={}))
    assert isinstance(answer, VerifyResponse)
    assert answer.reward == 1.0


@pytest.mark.parametrize("by_keyword", [False, True])
async def test_a_judge_error_becomes_a_row_marked_as_failed(by_keyword: bool) -> None:
    async def verify(body: VerifyRequest) -> VerifyResponse:
        raise JudgeError("judge offline " + "x" * 3000)

    request = VerifyRequest.model_validate({"response": {"final": "answer"}, "task": 3, "mask_sample": False})
    failsafe = judge_failsafe(verify)
    answer: Any = await (failsafe(body=request) if by_keyword else failsafe(request))
    row = orjson.loads(answer.body)
    assert row["response"] == {"final": "answer"}
    assert (row["task"], row["reward"], row["mask_sample"]) == (3, 0.0, True)
    assert row["_ng_failure_class"] == row["failure_kind"] == "judge_failed"
    assert row["_ng_failure_judge_error"].startswith("judge offline")
    assert len(row["_ng_failure_judge_error"]) == 2000
    assert request.model_dump() == {"response": {"final": "answer"}, "task": 3, "mask_sample": False}


async def test_other_errors_are_not_caught() -> None:
    async def verify(body: VerifyRequest) -> VerifyResponse:
        raise KeyError("prompt")

    with pytest.raises(KeyError):
        await judge_failsafe(verify)(VerifyRequest(response={}))


def test_a_wrapped_method_keeps_its_parameters() -> None:
    class Server:
        async def verify(self, request: Request, body: VerifyRequest) -> VerifyResponse:
            if body.response["answer"] == request.headers["x-expected"]:
                return VerifyResponse(response=body.response, reward=1.0)
            raise JudgeError("judge offline", code="other")

    wrapped = judge_failsafe(Server().verify)
    assert list(inspect.signature(wrapped).parameters) == ["request", "body"]
    app = FastAPI()
    app.post("/verify")(wrapped)
    client = TestClient(app, headers={"x-expected": "4"})
    assert client.post("/verify", json={"response": {"answer": "4"}}).json()["reward"] == 1.0
    failed = client.post("/verify", json={"response": {"answer": "5"}})
    assert failed.status_code == 200
    assert failed.json()["_ng_failure_judge_error"] == "judge offline"
