from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from nemo_gym.config.allowed import check_allowed
from nemo_gym.config.problems import Location, Problems
from nemo_gym.config.servers import ServerInstance
from nemo_gym.names import ServerKind


def server(name: str, kind: ServerKind, implementation: str, **config: Any) -> ServerInstance:
    return ServerInstance(name, kind, implementation, Path(), "app.py", config, Location("gym.yaml"))


def problems_of(**options: Any) -> list[str]:
    problems = Problems()
    servers = [
        server("game", "resources_servers", "blackjack", **options),
        server("policy", "responses_api_models", "openai_model"),
        server(
            "player",
            "responses_api_agents",
            "simple_agent",
            resources_server={"type": "resources_servers", "name": "game"},
            model_server={"type": "responses_api_models", "name": "policy"},
        ),
    ]
    check_allowed(servers, problems)
    return [str(problem) for problem in problems.found]


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"allowed_agents": []},
        {"allowed_agents": ["simple_agent"], "allowed_model_types": ["openai_model"]},
    ],
)
def test_an_agent_and_a_model_that_are_allowed_are_no_problem(options: dict[str, Any]) -> None:
    assert problems_of(**options) == []


@pytest.mark.parametrize(
    ("options", "used"),
    [
        ({"allowed_agents": ["gymnasium_agent"]}, "simple_agent"),
        ({"allowed_model_types": ["vllm_model"]}, "openai_model"),
    ],
)
def test_any_other_is_a_problem_that_names_the_allowed_ones(options: dict[str, Any], used: str) -> None:
    (problem,) = problems_of(**options)
    assert used in problem
    assert next(iter(options.values()))[0] in problem
