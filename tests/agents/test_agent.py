"""The base class of agents: its routes, the episode around `responses`, and URLs for harnesses."""

from __future__ import annotations

from typing import Any

import pytest
from fastapi import Body, FastAPI

from nemo_gym.agents.policy import Policy, Trajectory
from nemo_gym.agents.tools import ToolClient
from nemo_gym.base_responses_api_agent import SimpleResponsesAPIAgent
from nemo_gym.config_types import AggregateMetrics, AggregateMetricsRequest
from nemo_gym.episodes.driver import Act, Episode
from nemo_gym.failures import AgentError, ConfigError
from nemo_gym.openai_utils import NeMoGymResponse, NeMoGymResponseCreateParamsNonStreaming
from nemo_gym.testing.in_process import InProcessGym
from nemo_gym.transport.upstream_error import UpstreamError
from responses_api_agents.simple_agent.app import SimpleAgent
from tests.serving.environments import CounterEnvironment, ScriptedModel, task_row, text


class OneCall(SimpleResponsesAPIAgent):
    """Asks the model once, with a method that takes the body only."""

    async def responses(  # type: ignore[override]
        self, body: NeMoGymResponseCreateParamsNonStreaming = Body()
    ) -> NeMoGymResponse:
        reply = await self.server_client.post("policy_model", "/v1/responses", json=body)
        reply.raise_for_status()
        return NeMoGymResponse.model_validate(await reply.json())

    @property
    def resources_server_name(self) -> str:
        return "env"


class Homeless(SimpleResponsesAPIAgent):
    """An agent without a resources server."""

    async def responses(  # type: ignore[override]
        self, body: NeMoGymResponseCreateParamsNonStreaming = Body()
    ) -> NeMoGymResponse:
        raise NotImplementedError


class ActOnly(SimpleResponsesAPIAgent):
    """Asks the model, on plain JSON."""

    @property
    def resources_server_name(self) -> str:
        return "env"

    async def act(self, episode: Episode) -> Act:
        policy = Policy(self.server_client, "policy_model", Trajectory(episode.params))
        tools = ToolClient(self.server_client, "env", episode.params.get("tools"))
        return policy.trajectory.end(await policy.take_turn(tools, 3))


OVER_ENV = {
    "resources_server": {"type": "resources_servers", "name": "env"},
    "model_server": {"type": "responses_api_models", "name": "policy_model"},
}


class NoLoop(SimpleResponsesAPIAgent):
    """An agent whose author forgot the policy loop."""


def gym_with(agent: type[SimpleResponsesAPIAgent], turns: list[Any], **options: Any) -> InProcessGym:
    gym = InProcessGym()
    gym.add(CounterEnvironment, "env")
    model = gym.add(ScriptedModel, "policy_model")
    assert isinstance(model, ScriptedModel)
    model.turns = turns
    gym.add(agent, "agent", **options)
    return gym


async def test_the_episode_is_run_around_the_author_s_method() -> None:
    row = await gym_with(OneCall, [[text("hello")]]).run("agent", task_row())
    assert (row["reward"], row["_ng_outcome"]) == (0.0, "completed")
    assert row["response"]["output"][0]["content"][0]["text"] == "hello"


async def test_a_policy_loop_on_plain_data_is_enough() -> None:
    gym = gym_with(ActOnly, [[text("hello")], [text("again")]])
    row = await gym.run("agent", task_row())
    assert (row["_ng_end_reason"], row["response"]["output"][0]["content"][0]["text"]) == (
        "final_answer",
        "hello",
    )
    reply = await gym.post("agent", "/v1/responses", {"input": "hi"})
    assert (await reply.json())["output"][0]["content"][0]["text"] == "again"


def test_an_agent_without_a_policy_loop_says_what_to_write() -> None:
    with pytest.raises(ConfigError, match=r"`NoLoop` has no policy loop.*act\(\) or responses\(\)"):
        gym_with(NoLoop, [])


async def test_verification_can_be_skipped() -> None:
    gym = gym_with(OneCall, [[text("hello")]], skip_verification=True, skip_verification_reward=0.5)
    assert (await gym.run("agent", task_row()))["reward"] == 0.5


async def test_an_error_of_the_author_s_method_fails_the_attempt() -> None:
    with pytest.raises(UpstreamError, match="the context is full"):
        await gym_with(OneCall, ["overflow"]).run("agent", task_row())


async def test_an_agent_without_a_resources_server_says_how_to_add_one() -> None:
    gym = gym_with(Homeless, [[text("hello")]])
    agent = gym.servers["agent"]
    assert isinstance(agent, Homeless)
    with pytest.raises(AgentError, match="Add resources_server"):
        _ = agent.resources_server_name


async def test_metrics_are_the_standard_ones_without_an_environment_of_its_own() -> None:
    gym = gym_with(OneCall, [])
    rows = [{"reward": 1.0, "_ng_task_index": task, "_ng_rollout_index": 0} for task in range(2)]
    reply = await gym.post("agent", "/aggregate_metrics", {"verify_responses": rows})
    assert (await reply.json())["agent_metrics"]["mean/reward"] == 1.0


def test_an_agent_of_the_ecosystem_may_name_its_attempt_and_need_not_record_calls() -> None:
    agent = InProcessGym().add(OneCall, "agent")
    assert isinstance(agent, OneCall)
    assert agent._capture_correlation_enabled()
    assert not agent._model_call_capture_enabled()
    assert not agent._token_id_capture_enabled()


class Ranked(CounterEnvironment):
    def compute_metrics(self, tasks: list[list[dict[str, Any]]]) -> dict[str, Any]:
        return {"tasks": len(tasks)}


class OwnMetrics(SimpleAgent):
    async def aggregate_metrics(self, body: AggregateMetricsRequest) -> AggregateMetrics:
        return AggregateMetrics(agent_metrics={"own": 1.0})


@pytest.mark.parametrize(
    ("agent", "environment", "has_own"),
    [
        (SimpleAgent, CounterEnvironment, False),
        (SimpleAgent, Ranked, True),
        (OwnMetrics, CounterEnvironment, True),
        (OneCall, None, False),
    ],
)
async def test_an_agent_says_whether_its_metrics_are_more_than_the_standard_ones(
    agent: type[SimpleResponsesAPIAgent], environment: type[CounterEnvironment] | None, has_own: bool
) -> None:
    gym = InProcessGym()
    if environment is not None:
        gym.add(environment, "env")
    gym.add(agent, "agent", **(OVER_ENV if environment else {}))
    reply = await gym.client().get("agent", "/aggregate_metrics")
    assert await reply.json() == {"has_own": has_own}


async def test_of_an_environment_that_does_not_say_the_metrics_are_asked_for() -> None:
    gym = InProcessGym()
    env = gym.add(CounterEnvironment, "env")
    gym.add(SimpleAgent, "agent", **OVER_ENV)
    gym.transport.apps[f"http://127.0.0.1:{env.config.port}"] = FastAPI()  # without the route
    reply = await gym.client().get("agent", "/aggregate_metrics")
    assert await reply.json() == {"has_own": True}
