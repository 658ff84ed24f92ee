"""Which servers take part in a run."""

from __future__ import annotations

from typing import Any

import pytest

from nemo_gym.config.problems import ConfigErrors
from nemo_gym.rollouts.run.required_servers import (
    find_required_servers,
    list_server_users,
    name_with_model,
    require_agents,
)


def server(kind: str, **options: Any) -> dict[str, Any]:
    return {kind: {"implementation": {"host": "h", "port": 1, **options}}}


CONFIG: dict[str, Any] = {
    "default_host": "127.0.0.1",
    "math_agent": server(
        "responses_api_agents",
        resources_server={"type": "resources_servers", "name": "math"},
        model_server={"type": "responses_api_models", "name": "policy_model"},
    ),
    "math": server(
        "resources_servers", judges=[{"model": {"type": "responses_api_models", "name": "judge_model"}}]
    ),
    "policy_model": server("responses_api_models"),
    "judge_model": server(
        "responses_api_models", fallback={"type": "responses_api_models", "name": "judge_model"}
    ),
    "other_agent": server("responses_api_agents"),
}


def test_an_agent_takes_part_with_all_that_it_refers_to() -> None:
    assert set(find_required_servers(["math_agent"], CONFIG)) == {
        "math_agent",
        "math",
        "policy_model",
        "judge_model",
    }


def test_agents_that_exist_are_fine() -> None:
    require_agents(["math_agent", "other_agent"], CONFIG)


def test_unknown_agents_are_named_together_with_the_nearest_known() -> None:
    with pytest.raises(ConfigErrors) as caught:
        require_agents(["math_agnet", "policy_model", "zzz"], CONFIG)
    first, second, third = map(str, caught.value.problems)
    assert "`math_agnet`" in first
    assert "Did you mean 'math_agent'" in first
    assert "`policy_model` is one of the responses_api_models" in second
    assert "The agents are: math_agent, other_agent." in third


def test_an_environment_server_runs_rows_by_its_agent() -> None:
    agent = {"type": "responses_api_agents", "name": "solver"}
    config = {
        "solver": server("responses_api_agents"),
        "episodes": {"environment_servers": {"legacy_agent": {"agent_server": agent}}},
    }
    require_agents(["episodes"], config)
    assert set(find_required_servers(["episodes"], config)) == {"episodes", "solver"}


def test_the_users_of_a_server_are_the_agents_that_refer_to_it() -> None:
    assert list_server_users(CONFIG) == {"math": ["math_agent"], "policy_model": ["math_agent"]}


def test_an_agent_of_another_gym_is_not_mistaken_for_a_misspelt_one() -> None:
    with pytest.raises(ConfigErrors) as caught:
        require_agents(["math_agnet", "matt_agent"], CONFIG, {"math_agnet": "Another gym has it."}.get)
    assert [problem.remedy for problem in caught.value.problems] == [
        "Another gym has it.",
        "Did you mean 'math_agent'?",
    ]


def test_an_agent_is_named_with_its_model() -> None:
    models = {
        "policy_model": server("responses_api_models", model="org/small"),
        "judge_model": server("responses_api_models", model="org/judge"),
    }
    config = {**CONFIG, **models}
    assert name_with_model("math_agent", config) == "math_agent (org/small)"
    assert name_with_model("math_agent", CONFIG) == "math_agent"
    assert name_with_model("other_agent", config) == "other_agent"
    assert name_with_model("elsewhere", config) == "elsewhere"
    both = [{"type": "responses_api_models", "name": name} for name in models]
    config["two"] = server("responses_api_agents", model_servers=both)
    assert name_with_model("two", config) == "two"
