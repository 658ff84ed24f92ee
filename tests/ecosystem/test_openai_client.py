from collections.abc import Callable
from typing import Any

import aiohttp
import orjson
import pytest
from multidict import CIMultiDict

from nemo_gym.engine_client import EngineClient
from nemo_gym.failures import DeadlineError, EngineError, TransportError
from nemo_gym.openai_utils import NeMoGymAsyncOpenAI, NeMoGymEasyInputMessage
from nemo_gym.transport import Call, Deadline, Reply
from nemo_gym.transport.context import RequestContext, current_context

URL = "http://engine:8000/v1"


class ScriptedTransport:
    """Answers each call with the next reply of a script and remembers the calls."""

    def __init__(self, *script: Reply | TransportError) -> None:
        self._script = list(script)
        self.calls: list[tuple[str, Call]] = []

    async def send(self, base_url: str, call: Call) -> Reply:
        self.calls.append((base_url, call))
        reply = self._script.pop(0)
        if isinstance(reply, TransportError):
            raise reply
        return reply

    async def close(self) -> None:
        self._script.clear()


def reply(status: int = 200, body: bytes = b'{"ok": true}') -> Reply:
    headers = CIMultiDict({"Retry-After": "0"})
    return Reply(status, headers, body)


def client_over(transport: ScriptedTransport, **fields: Any) -> EngineClient:
    return EngineClient.from_transport(transport, **{"base_url": URL, "api_key": "key", **fields})


@pytest.mark.parametrize(
    ("call", "method", "url"),
    [
        (lambda client: client.create_response(input="x"), "POST", f"{URL}/responses"),
        (lambda client: client.create_chat_completion(messages=[]), "POST", f"{URL}/chat/completions"),
        (lambda client: client.create_completion(prompt="x"), "POST", f"{URL}/completions"),
        (lambda client: client.create_models(), "GET", f"{URL}/models"),
        (lambda client: client.create_tokenize(prompt="x"), "POST", "http://engine:8000/tokenize"),
    ],
)
async def test_every_method_calls_its_endpoint(
    call: Callable[[EngineClient], Any], method: str, url: str
) -> None:
    transport = ScriptedTransport(reply())
    assert await call(client_over(transport)) == {"ok": True}
    base_url, sent = transport.calls[0]
    assert (sent.method, base_url + sent.path) == (method, url)
    assert sent.headers["Authorization"] == "Bearer key"
    assert (sent.body is None) == (method == "GET")


async def test_params_and_default_headers_are_sent_and_models_are_dumped() -> None:
    transport = ScriptedTransport(reply())
    client = client_over(transport, base_url=f"{URL}/", default_headers={"X-Team": "gym"})
    await client.create_response(input=[NeMoGymEasyInputMessage(role="user", content="hi")], temperature=0.5)
    base_url, sent = transport.calls[0]
    assert base_url == URL
    assert sent.headers["X-Team"] == "gym"
    assert orjson.loads(sent.body or b"") == {
        "input": [{"role": "user", "content": "hi"}],
        "temperature": 0.5,
    }


async def test_a_busy_engine_is_asked_again() -> None:
    transport = ScriptedTransport(reply(429), reply(503), reply())
    assert await client_over(transport).create_models() == {"ok": True}
    assert len(transport.calls) == 3


async def test_a_sustained_rate_limit_ends_with_the_last_answer() -> None:
    transport = ScriptedTransport(*[reply(429, b"slow down")] * 3)
    with pytest.raises(aiohttp.ClientResponseError) as raised:
        await client_over(transport, attempts=3).create_models()
    assert raised.value.status == 429
    assert len(transport.calls) == 3


async def test_an_error_answer_raises_with_its_status_and_body() -> None:
    transport = ScriptedTransport(reply(400, b'{"error": {"message": "bad"}}'))
    with pytest.raises(aiohttp.ClientResponseError) as raised:
        await client_over(transport).create_response(input="x")
    assert raised.value.status == 400
    assert raised.value.response_content == b'{"error": {"message": "bad"}}'  # type: ignore[attr-defined]


async def test_an_engine_that_cannot_be_reached_is_an_engine_failure() -> None:
    refused = TransportError("refused", code="connect_refused", retryable=True, peer=URL)
    with pytest.raises(EngineError, match="refused") as raised:
        await client_over(ScriptedTransport(refused), attempts=1).create_models()
    assert raised.value.failure.kind == "engine:connect_refused"
    assert raised.value.failure.retryable


@pytest.mark.parametrize("body", [b"<html>", b"[]"])
async def test_an_answer_that_is_no_json_object_is_an_engine_failure(body: bytes) -> None:
    with pytest.raises(EngineError) as raised:
        await client_over(ScriptedTransport(reply(body=body))).create_models()
    assert raised.value.failure.kind == "engine:malformed_answer"
    assert raised.value.failure.peer == URL


async def test_calls_end_with_the_rollout_s_deadline() -> None:
    held = current_context.set(RequestContext("session", Deadline(0.0)))
    try:
        with pytest.raises(DeadlineError):
            await client_over(ScriptedTransport(*[reply(503)] * 9)).create_models()
    finally:
        current_context.reset(held)


def test_environments_construct_it_under_the_ecosystem_s_name() -> None:
    client = NeMoGymAsyncOpenAI(base_url=URL, api_key="key", internal=True)
    assert (client.base_url, client.default_headers) == (URL, {})


def test_secrets_are_not_shown() -> None:
    client = EngineClient(base_url=URL, api_key="s3cret", default_headers={"X-Key": "t0ken"})
    assert "s3cret" not in repr(client)
    assert "t0ken" not in repr(client)
