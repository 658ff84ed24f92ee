import asyncio
import inspect
from typing import Any
from unittest.mock import AsyncMock, MagicMock

import orjson
import pytest
from fastapi import FastAPI, Request
from fastapi.testclient import TestClient
from pydantic import BaseModel, ConfigDict

from nemo_gym import failures
from nemo_gym.failures import DeadlineError, EngineError
from nemo_gym.judge import JudgeError, call_judge, judge_failsafe, reraise_judge_errors
from nemo_gym.transport import InMemoryTransport
from nemo_gym.transport.server_client import ServerClient

JUDGE_URL = "http://127.0.0.1:9000"
CONFIG = {"judge": {"responses_api_models": {"any": {"host": "127.0.0.1", "port": 9000}}}}


class Verdict(BaseModel):
    verdict: str


class VerifyRequest(BaseModel):
    model_config = ConfigDict(extra="allow")

    response: dict[str, Any]


class VerifyResponse(VerifyRequest):
    reward: float


def client_of(status: int, body: bytes) -> ServerClient:
    """A client in whose gym the server `judge` gives one answer."""

    async def app(scope: Any, receive: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": status, "headers": []})
        await send({"type": "http.response.body", "body": body})

    return ServerClient.connect(CONFIG, transport=InMemoryTransport({JUDGE_URL: app}), token=None)


async def ask(client: Any) -> Verdict:
    return await call_judge(
        client, server_name="judge", url_path="/v1/responses", json={}, response_model=Verdict
    )


# --- Calling


async def test_a_verdict_is_parsed() -> None:
    assert (await ask(client_of(200, b'{"verdict": "CORRECT"}'))).verdict == "CORRECT"


async def test_an_error_answer_is_reported_as_such_and_not_as_an_unreadable_verdict() -> None:
    with pytest.raises(JudgeError, match=r"401.*invalid key"):
        await ask(client_of(401, b'{"error": {"message": "invalid key"}}'))


async def test_the_root_cause_behind_the_judge_s_server_is_kept() -> None:
    cause = EngineError("the engine is loading", code="busy", retryable=False, remedy="Wait.", peer="vllm")
    with pytest.raises(JudgeError) as raised:
        await ask(client_of(500, orjson.dumps(cause.failure.to_wire())))
    failure = raised.value.failure
    assert (failure.kind, failure.message) == ("judge:judge_failed", "the engine is loading")
    assert (failure.retryable, failure.remedy, failure.peer) == (False, "Wait.", "vllm")


async def test_an_unreachable_judge_is_a_judge_failure() -> None:
    client = ServerClient.connect({}, transport=InMemoryTransport(), token=None)
    with pytest.raises(JudgeError, match="no server is named `judge`"):
        await ask(client)


@pytest.mark.parametrize("body", [b"<html>", b'{"other": 1}'])
async def test_an_answer_of_another_shape_is_a_judge_failure(body: bytes) -> None:
    with pytest.raises(JudgeError, match=r"JSONDecodeError|ValidationError"):
        await ask(client_of(200, body))


async def test_environments_test_with_a_client_of_their_own() -> None:
    answer = MagicMock(ok=True, status=200)
    answer.read = AsyncMock(return_value=b'{"verdict": "YES"}')
    client = MagicMock(spec=ServerClient)
    client.post = AsyncMock(return_value=answer)
    assert (await ask(client)).verdict == "YES"
    client.post.assert_awaited_once_with(server_name="judge", url_path="/v1/responses", json={})


async def raising(error: BaseException) -> None:
    raise error


async def test_whatever_a_judge_call_raises_becomes_a_judge_error() -> None:
    with pytest.raises(JudgeError, match="RuntimeError: judge timeout"):
        await reraise_judge_errors(raising(RuntimeError("judge timeout")))
    given = JudgeError("no score")
    with pytest.raises(JudgeError) as raised:
        await reraise_judge_errors(raising(given))
    assert raised.value is given


@pytest.mark.parametrize("error", [DeadlineError("late", code="rollout_deadline"), asyncio.CancelledError()])
async def test_the_rollout_s_end_is_not_the_judge_s_fault(error: BaseException) -> None:
    with pytest.raises(type(error)):
        await reraise_judge_errors(raising(error))


# --- Failing safe


def test_a_message_is_enough_to_raise_it() -> None:
    error = JudgeError("no score")
    assert JudgeError is failures.JudgeError
    assert (str(error), error.failure.retryable) == ("no score", True)


async def test_a_verify_that_succeeds_is_left_alone() -> None:
    async def verify(body: VerifyRequest) -> VerifyResponse:
        return VerifyResponse(response=body.response, reward=1.0)

    answer = await judge_failsafe(verify)(VerifyRequest(response={}))
    assert isinstance(answer, VerifyResponse)
    assert answer.reward == 1.0


@pytest.mark.parametrize("by_keyword", [False, True])
async def test_a_judge_error_becomes_a_row_that_says_so(by_keyword: bool) -> None:
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


async def test_other_errors_are_not_the_judge_s() -> None:
    async def verify(body: VerifyRequest) -> VerifyResponse:
        raise KeyError("prompt")

    with pytest.raises(KeyError):
        await judge_failsafe(verify)(VerifyRequest(response={}))


def test_a_wrapped_method_is_served_with_its_own_parameters() -> None:
    class Server:
        async def verify(self, request: Request, body: VerifyRequest) -> VerifyResponse:
            if body.response["answer"] == request.headers["x-expected"]:
                return VerifyResponse(response=body.response, reward=1.0)
            raise failures.JudgeError("judge offline", code="other")

    wrapped = judge_failsafe(Server().verify)
    assert list(inspect.signature(wrapped).parameters) == ["request", "body"]
    app = FastAPI()
    app.post("/verify")(wrapped)
    client = TestClient(app, headers={"x-expected": "4"})
    assert client.post("/verify", json={"response": {"answer": "4"}}).json()["reward"] == 1.0
    failed = client.post("/verify", json={"response": {"answer": "5"}})
    assert failed.status_code == 200
    assert failed.json()["_ng_failure_judge_error"] == "judge offline"
