"""Engine failures as the client of a model server sees them: the root cause, the status, no keys.

The status determines the client's reaction: 400 for an invalid request, 429 and 503 for a later retry, and 502 for
problems that only the operator can correct, such as a refused key or an unknown model.
"""

from __future__ import annotations

import socket
from collections.abc import Callable
from typing import Any, TypeAlias

import openai
import pytest
from openai import OpenAI

from nemo_gym.serving.base import SimpleServer
from responses_api_models.azure_openai_model.app import AzureOpenAIModel
from responses_api_models.openai_model.app import OpenAIModel
from responses_api_models.vllm_model.app import VLLMModel
from tests.engines.kinds import Ground
from tests.engines.upstreams import Canned

SECRET = "sk-very-secret-0123456789"
MODEL = "mock"
OVERFLOW = (
    "This model's maximum context length is 1000 tokens. However, your request has 1234 input tokens. "
    "Please reduce the length of the input messages."
)
COMPLETION = {
    "id": "chatcmpl-1",
    "object": "chat.completion",
    "created": 0,
    "model": MODEL,
    "choices": [{"index": 0, "message": {"role": "assistant", "content": "hello"}, "finish_reason": "stop"}],
}
RESPONSE = {
    "id": "resp_1",
    "object": "response",
    "created_at": 0,
    "model": MODEL,
    "status": "completed",
    "output": [
        {
            "type": "message",
            "id": "msg_1",
            "role": "assistant",
            "status": "completed",
            "content": [{"type": "output_text", "text": "hello", "annotations": []}],
        }
    ],
}

Build: TypeAlias = Callable[[str, float], SimpleServer]


def openai_options(url: str, retry_s: float) -> dict[str, Any]:
    return {
        "openai_base_url": url,
        "openai_api_key": SECRET,
        "openai_model": MODEL,
        "retry_s": retry_s,
    }


def vllm_options(url: str, retry_s: float) -> dict[str, Any]:
    return {"base_url": url, "api_key": SECRET, "model": MODEL, "retry_s": retry_s}


KINDS: dict[str, Build] = {
    "openai": lambda url, retry_s: OpenAIModel.standalone(**openai_options(url, retry_s)),
    "openai_chat": lambda url, retry_s: OpenAIModel.standalone(
        **openai_options(url, retry_s), upstream_api="chat_completions"
    ),
    "azure": lambda url, retry_s: AzureOpenAIModel.standalone(
        **openai_options(url, retry_s), default_query={"api-version": "2025-04-01-preview"}
    ),
    "vllm": lambda url, retry_s: VLLMModel.standalone(**vllm_options(url, retry_s)),
    "vllm_native": lambda url, retry_s: VLLMModel.standalone(
        **vllm_options(url, retry_s), is_responses_native=True
    ),
}


@pytest.fixture(params=KINDS)
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def ask(ground: Ground, kind: str, connect: Callable[[str], OpenAI]) -> Callable[..., Any]:
    """Asks a server before `upstream`, an app or the URL of one; the answer's text, or what `openai` raises."""

    def asked(upstream: Any, *, retry_s: float = 0.0, **params: Any) -> str:
        url = upstream if isinstance(upstream, str) else f"{ground.servers.serve(upstream)}/v1"
        client = connect(ground.servers.serve(KINDS[kind](url, retry_s)))
        return str(client.responses.create(**{"model": MODEL, "input": "hello", **params}).output_text)

    return asked


def good_answer(kind: str) -> dict[str, Any]:
    return COMPLETION if kind in ("openai_chat", "vllm") else RESPONSE


def told(error: openai.APIStatusError) -> dict[str, Any]:
    """The envelope, after the checks that hold for every failure."""
    assert SECRET not in str(error)
    assert isinstance(error.body, dict)
    assert error.body["message"]
    return error.body


def refusal(message: str, **fields: Any) -> dict[str, Any]:
    return {
        "error": {"message": message, "type": "invalid_request_error", "param": None, "code": None, **fields}
    }


@pytest.mark.parametrize(
    ("status", "body", "answered", "code"),
    [
        (401, refusal(f"Incorrect API key provided: {SECRET}."), 502, "unauthorized"),
        (403, {"error": f"no access for Bearer {SECRET}"}, 502, "unauthorized"),
        (404, refusal("The model `mock` does not exist.", code="model_not_found"), 502, "model_not_found"),
        (400, refusal(OVERFLOW), 400, "context_overflow"),
        (400, {"object": "error", "message": "top_k must be -1 or more", "code": 400}, 400, "bad_request"),
        (500, refusal("CUDA out of memory"), 502, "engine_error"),
        (200, b'{"id": "resp_1", "output": [{"ty', 502, "malformed_answer"),
        (200, b"[1, 2]", 502, "malformed_answer"),
        (200, refusal("the worker died", code=500), 502, "engine_error"),
    ],
)
def test_an_engine_s_refusal(
    ask: Callable[..., str], status: int, body: Any, answered: int, code: str
) -> None:
    upstream = Canned().add(status, body)
    with pytest.raises(openai.APIStatusError) as raised:
        ask(upstream)
    error = told(raised.value)
    assert raised.value.status_code == answered
    assert error["code"] == code
    assert error["type"] == "engine"
    assert error["peer"].startswith("http://127.0.0.1:")
    assert upstream.count == 1


def test_a_context_overflow_is_a_bad_request(ask: Callable[..., str]) -> None:
    with pytest.raises(openai.BadRequestError, match="1234 input tokens"):
        ask(Canned().add(400, refusal(OVERFLOW)))


def test_a_rate_limit_is_waited_out(ask: Callable[..., str], kind: str) -> None:
    upstream = Canned().add(429, refusal("slow down"), retry_after="0.05").add(200, good_answer(kind))
    assert ask(upstream, retry_s=5.0) == "hello"
    assert upstream.count == 2


def test_a_rate_limit_that_lasts_is_a_rate_limit_error(ask: Callable[..., str]) -> None:
    upstream = Canned().add(429, refusal("slow down"), retry_after="59.5")
    with pytest.raises(openai.RateLimitError, match="slow down") as raised:
        ask(upstream, retry_s=1.0)
    assert upstream.count == 1
    assert raised.value.response.headers["retry-after"] == "60"
    assert "x-should-retry" not in raised.value.response.headers


def test_an_engine_that_stays_away_is_given_up(ask: Callable[..., str]) -> None:
    page = b"<html><head><title>503 Service Unavailable</title></head><body>nginx</body></html>"
    upstream = Canned().add(503, page)
    with pytest.raises(openai.InternalServerError) as raised:
        ask(upstream, retry_s=0.3)
    error = told(raised.value)
    assert (raised.value.status_code, error["code"], error["retryable"]) == (503, "unavailable", True)
    assert "503 Service Unavailable" in error["message"]
    assert 1 <= upstream.count <= 8


def test_an_engine_that_is_not_there_is_named(ask: Callable[..., str]) -> None:
    with socket.socket() as deaf:
        deaf.bind(("127.0.0.1", 0))  # held, so that no other test listens there
        url = f"http://127.0.0.1:{deaf.getsockname()[1]}/v1"
        with pytest.raises(openai.InternalServerError) as raised:
            ask(url, retry_s=0.1)
    error = told(raised.value)
    assert (raised.value.status_code, error["code"], error["peer"]) == (502, "connect_refused", url)
    assert url in error["message"]
    assert "Check that the server runs" in error["remedy"]


@pytest.mark.parametrize("body", [b"{", b"[]", b'"text"'])
def test_a_request_that_is_no_json_object_is_a_bad_request(
    ground: Ground, kind: str, connect: Callable[[str], OpenAI], body: bytes
) -> None:
    client = connect(ground.servers.serve(KINDS[kind]("http://127.0.0.1:9/v1", 0.0)))
    for path in ("/responses", "/chat/completions", "/messages"):
        with pytest.raises(openai.BadRequestError):
            client.post(path, content=body, cast_to=object)


@pytest.mark.parametrize(
    ("status", "error", "asked"),
    [
        (401, refusal("wrong key"), 1),
        (429, refusal("the quota is used up", code="insufficient_quota"), 1),
        (500, refusal("CUDA out of memory"), 2),
    ],
)
def test_a_client_that_retries_by_status_does_so_only_where_it_is_of_use(
    ground: Ground, connect: Callable[[str], OpenAI], status: int, error: Any, asked: int
) -> None:
    """All three are answered with 502, after which the `openai` client would try again."""
    upstream = Canned().add(status, error)
    server = KINDS["vllm"](f"{ground.servers.serve(upstream)}/v1", 0.0)
    client = connect(ground.servers.serve(server)).with_options(max_retries=1)
    with pytest.raises(openai.APIStatusError) as raised:
        client.responses.create(model=MODEL, input="hello")
    assert raised.value.status_code == 502
    assert upstream.count == asked


def test_a_failure_comes_before_a_stream_begins(ask: Callable[..., str]) -> None:
    with pytest.raises(openai.BadRequestError):
        ask(Canned().add(400, refusal(OVERFLOW)), stream=True)
