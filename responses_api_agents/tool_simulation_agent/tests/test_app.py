"""One answer of the model, scored as it is: nothing that it calls is executed."""

from __future__ import annotations

from typing import Any

import pytest

from nemo_gym.base_resources_server import BaseVerifyRequest, BaseVerifyResponse, SimpleResourcesServer
from nemo_gym.openai_utils import NeMoGymResponse
from nemo_gym.testing import InProcessGym
from nemo_gym.transport.upstream_error import UpstreamError
from responses_api_agents.tool_simulation_agent.app import ToolSimulationAgent
from tests.serving.environments import ScriptedModel, call, task_row, text


class CallCounting(SimpleResourcesServer):
    """Rewards the calls in an answer, and has no tools."""

    async def verify(self, body: BaseVerifyRequest) -> BaseVerifyResponse:
        calls = [item for item in body.response.output if item.type == "function_call"]
        return BaseVerifyResponse(**body.model_dump(), reward=float(len(calls)))


class Gym(InProcessGym):
    def __init__(self, *turns: Any) -> None:
        super().__init__()
        self.add(CallCounting, "env")
        model = self.add(ScriptedModel, "policy_model")
        assert isinstance(model, ScriptedModel)
        self.model = model
        model.turns = list(turns)
        references = {
            "resources_server": {"type": "resources_servers", "name": "env"},
            "model_server": {"type": "responses_api_models", "name": "policy_model"},
        }
        self.add(ToolSimulationAgent, "agent", **references)


async def test_the_calls_of_the_one_answer_are_scored_and_not_executed() -> None:
    gym = Gym([call("add", '{"amount": 2}', "a"), call("unknown", "not even JSON", "b")])
    row = await gym.run("agent", task_row())
    assert (row["reward"], row["uuid"], len(gym.model.requests)) == (2.0, "row-1", 1)
    assert [item["type"] for item in row["response"]["output"]] == ["function_call", "function_call"]
    assert (row["_ng_outcome"], row["_ng_end_reason"]) == ("completed", "final_answer")
    assert row["_ng_usage"]["total_tokens"] == 15


async def test_an_answer_without_a_call_is_scored_too() -> None:
    row = await Gym([text("no tool fits")]).run("agent", task_row())
    assert (row["reward"], row["_ng_outcome"]) == (0.0, "completed")


async def test_an_answer_that_was_cut_counts_as_truncated() -> None:
    turn = {"output": [call("add", '{"am')], "incomplete_details": {"reason": "max_output_tokens"}}
    row = await Gym(turn).run("agent", task_row())
    assert (row["_ng_outcome"], row["_ng_end_reason"]) == ("truncated", "max_output_tokens")


async def test_a_task_that_does_not_fit_the_context_is_a_failure() -> None:
    with pytest.raises(UpstreamError) as caught:
        await Gym("overflow").run("agent", task_row())
    assert caught.value.failure is not None
    assert caught.value.failure.code == "context_overflow"


async def test_without_a_task_the_agent_passes_the_question_on() -> None:
    reply = await Gym([text("hello")]).post("agent", "/v1/responses", {"input": "hi"})
    assert NeMoGymResponse.model_validate_json(reply.body).output_text == "hello"
