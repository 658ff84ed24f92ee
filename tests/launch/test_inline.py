"""Every server of a configuration in one event loop: the same rows as in the process placement."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from nemo_gym import PARENT_DIR
from nemo_gym.config import bootstrap
from nemo_gym.config.loading import GlobalConfig, load
from nemo_gym.failures import ConfigError
from nemo_gym.launch._implementation import load_server_class
from nemo_gym.launch.inline import gym_inline, inline
from nemo_gym.transport import Call
from nemo_gym.transport.directory import base_url
from nemo_gym.transport.upstream_error import UpstreamError

ENVIRONMENT = "example_session_state_mgmt"
AGENT = f"{ENVIRONMENT}_simple_agent"
CONFIGS = (
    f"resources_servers/{ENVIRONMENT}/configs/{ENVIRONMENT}.yaml,"
    "responses_api_models/scripted_model/configs/scripted_model.yaml"
)
EXAMPLES = PARENT_DIR / f"resources_servers/{ENVIRONMENT}/data/example.jsonl"


@pytest.fixture
def config() -> GlobalConfig:
    script = "++policy_model.responses_api_models.scripted_model.engine"
    return load(
        [
            f"+config_paths=[{CONFIGS}]",
            f"{script}.policy=script",
            f"{script}.script=configs/demo/counter_script.yaml",
        ],
        env_path=None,
    )


@pytest.fixture
def rows() -> list[dict[str, Any]]:
    return [json.loads(line) for line in EXAMPLES.read_text().splitlines()]


async def test_attempts_are_made_and_scored(config: GlobalConfig, rows: list[dict[str, Any]]) -> None:
    async with inline(config) as gym:
        scored = await asyncio.gather(*(gym.run(AGENT, row) for row in rows))
        assert [row["reward"] for row in scored] == [1.0, 1.0, 1.0, 1.0, 0.0]
        assert {row["_ng_outcome"] for row in scored} == {"completed"}
        assert len(gym.servers[ENVIRONMENT].middleware.access.sessions) == 0
    assert bootstrap.current() is None


async def test_the_head_server_and_the_token_are_there_too(config: GlobalConfig) -> None:
    async with inline(config) as gym:
        head = gym.config["head_server"]
        answer = await gym.transport.send(
            base_url(head["host"], head["port"]), Call("GET", "/server_instances")
        )
        assert {instance["name"] for instance in answer.json()} == {ENVIRONMENT, AGENT, "policy_model"}
        gym.token = "wrong"
        refused = await gym.client().post(ENVIRONMENT, "/verify", json={})
        assert refused.status == 401


def test_blocking_code_can_use_an_inline_gym(config: GlobalConfig, rows: list[dict[str, Any]]) -> None:
    with gym_inline(config) as gym:
        assert gym.run(AGENT, rows[0])["reward"] == 1.0
        assert gym.run(AGENT, rows[-1])["reward"] == 0.0
        with pytest.raises(UpstreamError, match="responses_create_params"):
            gym.run(AGENT, {})


def test_a_file_that_runs_no_server_is_named(tmp_path: Path) -> None:
    script = tmp_path / "app.py"
    script.write_text("x = 1\n")
    with pytest.raises(ConfigError, match="run_webserver"):
        load_server_class(script)
