import asyncio
from typing import Any
from unittest.mock import AsyncMock, MagicMock

import orjson
import pytest
from pydantic import BaseModel

from nemo_gym.failures import DeadlineError, EngineError, JudgeError
from nemo_gym.transport import InMemoryTransport
from nemo_gym.transport.server_client import ServerClient
from nemo_gym.verify.judge_calls import call_judge, reraise_judge_errors

JUDGE_URL = "http://127.0.0.1:9000"
CONFIG = {"judge": {"responses_api_models": {"any": {"host": "127.0.0.1", "port": 9000}}}}


class Verdict(BaseModel):
    verdict: str


def client_of(status: int, body: bytes) -> ServerClient:
    """Return a client of a gym whose server `judge` gives one answer."""

    async def app(scope: Any, receive: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": status, "headers": []})
        await send({"type": "http.response.body", "body": body})

    return ServerClient.connect(CONFIG, transport=InMemoryTransport({JUDGE_URL: app}), token=None)


async def ask(client: Any) -> Verdict:
    return await call_judge(
        client, server_name="judge", url_path="/v1/responses", json={}, response_model=Verdict
    )


async def test_a_verdict_is_parsed() -> None:
    assert (await ask(client_of(200, b'{"verdict": "CORRECT"}'))).verdict == "CORRECT"


async def test_an_error_status_is_reported_as_a_failed_call() -> None:
    with pytest.raises(JudgeError, match=r"invalid key.*HTTP 401"):
        await ask(client_of(401, b'{"error": {"message": "invalid key"}}'))


async def test_the_root_cause_reported_by_the_judge_server_is_kept() -> None:
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


async def test_environments_can_test_with_a_mock_client() -> None:
    answer = MagicMock(ok=True, status=200)
    answer.read = AsyncMock(return_value=b'{"verdict": "YES"}')
    client = MagicMock(spec=ServerClient)
    client.post = AsyncMock(return_value=answer)
    assert (await ask(client)).verdict == "YES"
    client.post.assert_awaited_once_with(server_name="judge", url_path="/v1/responses", json={})


async def raising(error: BaseException) -> None:
    raise error


async def test_every_error_of_a_judge_call_becomes_a_judge_error() -> None:
    with pytest.raises(JudgeError, match="RuntimeError: judge timeout"):
        await reraise_judge_errors(raising(RuntimeError("judge timeout")))
    given = JudgeError("no score")
    with pytest.raises(JudgeError) as raised:
        await reraise_judge_errors(raising(given))
    assert raised.value is given


@pytest.mark.parametrize("error", [DeadlineError("late", code="rollout_deadline"), asyncio.CancelledError()])
async def test_the_end_of_a_rollout_is_not_a_judge_failure(error: BaseException) -> None:
    with pytest.raises(type(error)):
        await reraise_judge_errors(raising(error))


def test_a_judge_error_needs_only_a_message() -> None:
    error = JudgeError("no score")
    assert (str(error), error.failure.retryable) == ("no score", True)
