"""The configuration that a command line means."""

from __future__ import annotations

from nemo_gym.sources.foreign.blocks import build_blocks, name_agent
from nemo_gym.sources.foreign.kinds import read_name


def test_an_environment_is_a_server_and_an_agent() -> None:
    named = read_name("textarena:Nim-v0")
    assert named is not None
    blocks = build_blocks(named, options={"players": 2}, opponent="frozen", max_steps=7, venvs="/venvs")
    server = blocks["textarena_nim_v0"]["resources_servers"]["foreign"]
    assert (server["source"], server["options"], server["venvs"]) == (
        "textarena:Nim-v0",
        {"players": 2},
        "/venvs",
    )
    assert server["opponent_model_server"] == {"type": "responses_api_models", "name": "frozen"}
    agent = blocks[name_agent(named)]["responses_api_agents"]["gymnasium_agent"]
    assert (agent["max_steps"], agent["reward"]) == (7, "sum")
    assert agent["resources_server"] == {"type": "resources_servers", "name": "textarena_nim_v0"}


def test_the_policy_plays_all_seats_by_default() -> None:
    named = read_name("textarena:Nim-v0")
    assert named is not None
    server = build_blocks(named)["textarena_nim_v0"]["resources_servers"]["foreign"]
    assert server["opponent_model_server"]["name"] == "policy_model"
    assert "options" not in server
