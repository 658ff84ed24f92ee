"""A gym in one event loop: the same servers in memory and on loopback ports."""

from __future__ import annotations

import pytest
from pydantic import Field

from nemo_gym.base_resources_server import SimpleResourcesServer
from nemo_gym.testing.in_process import InProcessGym, find_server_kind
from nemo_gym.transport.upstream_error import UpstreamError
from responses_api_agents.simple_agent.app import SimpleAgent
from tests.serving.environments import CounterEnvironment, ScriptedModel, call, task_row, text


class Watched(CounterEnvironment):
    steps: list[str] = Field(default_factory=list)

    async def on_start(self) -> None:
        self.steps.append("start")

    async def on_stop(self) -> None:
        self.steps.append("stop")


def gym_with(*turns: object) -> InProcessGym:
    gym = InProcessGym()
    gym.add(Watched, "env")
    model = gym.add(ScriptedModel, "policy_model")
    assert isinstance(model, ScriptedModel)
    model.turns = list(turns)
    gym.add(
        SimpleAgent,
        "agent",
        resources_server={"type": "resources_servers", "name": "env"},
        model_server={"type": "responses_api_models", "name": "policy_model"},
    )
    return gym


@pytest.mark.parametrize("over_http", [False, True])
async def test_an_attempt_is_scored_in_memory_and_on_ports(over_http: bool) -> None:
    gym = gym_with([call("add", '{"amount": 2}')], [text("two")])
    environment = gym.servers["env"]
    assert isinstance(environment, Watched)
    async with gym.running(over_http=over_http):
        assert (await gym.run("agent", task_row()))["reward"] == 2.0
        assert environment.steps == ["start"]
    assert environment.steps == ["start", "stop"]


async def test_a_failed_attempt_raises_its_root_cause() -> None:
    with pytest.raises(UpstreamError, match="the context is full"):
        await gym_with("overflow").run("agent", task_row())


def test_the_kind_of_a_server_is_its_key_in_the_configuration() -> None:
    kinds = [
        find_server_kind(each)
        for each in (SimpleAgent, ScriptedModel, CounterEnvironment, SimpleResourcesServer)
    ]
    assert kinds == ["responses_api_agents", "responses_api_models", *["resources_servers"] * 2]
