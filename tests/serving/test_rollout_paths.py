from __future__ import annotations

import pytest
from fastapi import Request
from fastapi.testclient import TestClient

from nemo_gym.base_responses_api_model import Body, SimpleResponsesAPIModel
from nemo_gym.openai_utils import (
    NeMoGymChatCompletion,
    NeMoGymChatCompletionCreateParamsNonStreaming,
    NeMoGymResponse,
    NeMoGymResponseCreateParamsNonStreaming,
)
from nemo_gym.server_utils import SESSION_ID_KEY, apply_rollout_prefix, rollout_path_prefix
from nemo_gym.testing import InProcessGym
from responses_api_agents.simple_agent.app import SimpleAgent


class SessionTeller(SimpleResponsesAPIModel):
    """Says whose session a call is in."""

    async def responses(  # type: ignore[override]
        self, request: Request, body: NeMoGymResponseCreateParamsNonStreaming = Body()
    ) -> NeMoGymResponse:
        return NeMoGymResponse.model_validate(
            {
                "id": request.session[SESSION_ID_KEY],
                "created_at": 0,
                "model": "m",
                "object": "response",
                "output": [],
                "parallel_tool_calls": True,
                "tool_choice": "auto",
                "tools": [],
            }
        )

    async def chat_completions(
        self, body: NeMoGymChatCompletionCreateParamsNonStreaming = Body()
    ) -> NeMoGymChatCompletion:
        raise NotImplementedError


@pytest.fixture
def client() -> TestClient:
    return TestClient(SessionTeller.standalone().setup_webserver())


def test_the_prefix_is_built_as_others_build_it() -> None:
    assert rollout_path_prefix("r-1") == "/ng-rollout/r-1"
    assert rollout_path_prefix(None) == ""
    assert apply_rollout_prefix("http://h:1/", "r-1") == "http://h:1/ng-rollout/r-1"
    assert apply_rollout_prefix("http://h:1/", None) == "http://h:1/"


@pytest.mark.parametrize("token_capture", [False, True])
def test_a_call_below_the_prefix_is_in_that_rollouts_session(client: TestClient, token_capture: bool) -> None:
    url = apply_rollout_prefix("", "r-1", token_capture=token_capture) + "/v1/responses"
    assert client.post(url, json={"input": "x"}).json()["id"] == "r-1"
    answer = client.post(url, json={"input": "x"}, headers={"x-ng-session": "another"})
    assert answer.json()["id"] == "r-1", "the URL that a harness was given wins"


def test_only_the_api_can_be_reached_that_way(client: TestClient) -> None:
    assert client.get("/ng-rollout/r-1/_ng/stats").status_code == 404
    assert client.post("/ng-rollout/r-1/x/v1/responses", json={"input": "x"}).status_code == 404
    assert client.post("/ng-rollout/../v1/responses", json={"input": "x"}).json().get("id") != ".."


def test_an_agent_has_the_urls_for_a_harness() -> None:
    gym = InProcessGym()
    gym.add(SessionTeller, "policy_model")
    references = {
        "resources_server": {"type": "resources_servers", "name": "env"},
        "model_server": {"type": "responses_api_models", "name": "policy_model"},
    }
    agent = gym.add(SimpleAgent, "agent", **references)
    assert isinstance(agent, SimpleAgent)
    root = f"http://127.0.0.1:{gym.servers['policy_model'].config.port}"
    assert agent.resolve_model_base_url("policy_model") == f"{root}/v1"
    assert agent.resolve_model_base_url("policy_model", "r-1") == f"{root}/ng-rollout/r-1/v1"
    assert agent.url_path_for_run("/v1/responses", {}) == "/v1/responses"
    assert agent.base_url_for_run(root, {}) == root, "outside of a rollout there is none to name"
