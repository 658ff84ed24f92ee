"""litellm_model: every form of a proxy's answer becomes a Responses object."""

from __future__ import annotations

from typing import Any

import pytest

from nemo_gym.failures import EngineError
from nemo_gym.transport import InMemoryTransport, Transport
from responses_api_models.litellm_model.app import LiteLLMModel
from tests.engines.upstreams import App, Canned

TEXT = {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "4"}]}
CHAT = {
    "id": "c-1",
    "object": "chat.completion",
    "created": 7,
    "model": "claude",
    "choices": [
        {"index": 0, "message": {"role": "assistant", "content": "4"}, "finish_reason": "stop"},
    ],
    "usage": {"prompt_tokens": 3, "completion_tokens": 1, "total_tokens": 4},
}


def server_over(app: App) -> LiteLLMModel:
    class Server(LiteLLMModel):
        def new_transport(self) -> Transport:
            return InMemoryTransport({"http://proxy/v1": app, "http://proxy": app})

    server = Server.standalone(
        openai_base_url="http://proxy/v1", openai_api_key="key", openai_model="claude", retry_s=0
    )
    assert isinstance(server, LiteLLMModel)
    return server


@pytest.mark.parametrize(
    "answer",
    [
        {"id": "r-1", "object": "response", "created_at": 7, "status": "completed", "output": [TEXT]},
        {"id": "r-1", "object": "chat.completion", "created": 7, "output": [TEXT]},
        CHAT,
    ],
    ids=["response", "labelled as chat", "chat"],
)
async def test_every_form_is_a_response(answer: dict[str, Any]) -> None:
    response = await server_over(Canned().add(200, answer)).respond({"input": "2 + 2"})
    assert response["object"] == "response"
    assert response["output"][-1]["content"][0]["text"] == "4"
    assert response["created_at"]


async def test_effort_none_is_null() -> None:
    answer = {"object": "response", "output": [TEXT], "reasoning": {"effort": "none", "summary": None}}
    response = await server_over(Canned().add(200, answer)).respond({"input": "2 + 2"})
    assert response["reasoning"]["effort"] is None


async def test_a_compromised_proxy_is_refused() -> None:
    listing = {"data": [{"id": "claude"}]}
    good = Canned().add(200, listing).add(200, {"litellm_version": "1.83.0"})
    assert (await server_over(good).preflight())["litellm_version"] == "1.83.0"
    silent = Canned().add(200, listing).add(404, {})
    assert (await server_over(silent).preflight())["litellm_version"] is None
    bad = Canned().add(200, listing).add(200, {"litellm_version": "1.82.7"})
    with pytest.raises(EngineError, match="steals credentials"):
        await server_over(bad).preflight()
