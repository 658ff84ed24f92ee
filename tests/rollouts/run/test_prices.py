"""Model servers with their roles and prices, and prices that are missing."""

from __future__ import annotations

from typing import Any

import pytest

from nemo_gym.config.problems import ConfigErrors
from nemo_gym.rollouts.run.options import BudgetOptions
from nemo_gym.rollouts.run.prices import list_model_servers, require_prices
from nemo_gym.transport.budget import Price


def refer(name: str, kind: str = "responses_api_models") -> dict[str, str]:
    return {"type": kind, "name": name}


def model(name: str) -> dict[str, Any]:
    return {"responses_api_models": {"vllm_model": {"entrypoint": "app.py", "model": name}}}


CONFIG: dict[str, Any] = {
    "agent": {
        "responses_api_agents": {
            "user_simulation_agent": {
                "resources_server": refer("env", "resources_servers"),
                "model_server": refer("policy_model"),
                "user_model_server": refer("user_model"),
            }
        }
    },
    "env": {"resources_servers": {"env": {"judge_model_server": refer("judge_model")}}},
    "policy_model": model("qwen"),
    "user_model": model("small"),
    "judge_model": model("strict"),
    "another": model("not asked"),
}


def check(**options: Any) -> None:
    keys = BudgetOptions.model_validate(options)
    require_prices(keys, list_model_servers(["agent"], CONFIG, keys.prices))


def test_a_role_is_that_of_the_key_that_refers_to_the_server() -> None:
    keys = BudgetOptions.model_validate({"prices": {"qwen": {"input": 1, "output": 4}}})
    found = {
        each.name: (each.model, each.role) for each in list_model_servers(["agent"], CONFIG, keys.prices)
    }
    assert found == {
        "judge_model": ("strict", "judge"),
        "policy_model": ("qwen", "policy"),
        "user_model": ("small", "user"),
    }


def test_a_model_that_policy_and_judge_share_is_the_policys_and_cached_tokens_cost_as_others_by_default() -> (
    None
):
    config = {**CONFIG, "env": {"resources_servers": {"env": {"judge_model_server": refer("policy_model")}}}}
    keys = BudgetOptions.model_validate({"prices": {"qwen": {"input": 1, "output": 4}}})
    found = {each.name: each for each in list_model_servers(["agent"], config, keys.prices)}
    assert (found["policy_model"].role, found["policy_model"].price) == ("policy", Price(1, 1, 4))


def test_every_unknown_price_is_named_with_its_role() -> None:
    with pytest.raises(ConfigErrors) as refused:
        check(budget={"rollout": {"cost": 0.1}}, prices={"qwen": {"input": 1, "output": 4}})
    messages = [problem.message for problem in refused.value.problems]
    assert messages == [
        "the price of the model 'strict' of `judge_model` (judge) is unknown",
        "the price of the model 'small' of `user_model` (user) is unknown",
    ]
    assert "0 for an engine of your own" in str(refused.value.problems[0].remedy)


def test_a_price_of_no_model_of_the_run_is_named_with_a_hint() -> None:
    price = {"input": 1, "output": 4}
    with pytest.raises(ConfigErrors) as refused:
        check(prices=dict.fromkeys(("qwen", "strict", "small", "quen"), price))
    (problem,) = refused.value.problems
    assert (problem.message, "qwen" in str(problem.remedy)) == (
        "+prices has 'quen', which no model server of the run asks",
        True,
    )


def test_tokens_and_seconds_need_no_prices() -> None:
    check(budget={"run": {"tokens": 10, "seconds": 1.5}})
