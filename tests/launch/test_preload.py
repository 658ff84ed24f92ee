"""The modules that a gym's processes load at the start do not include heavy, rarely needed ones."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

HEAVY = ("aiohttp", "httpx", "hydra", "jsonschema", "numpy", "omegaconf", "openai", "pandas", "psutil", "ray", "rich",
         "torch", "transformers")  # fmt: skip


@pytest.mark.parametrize(
    "statement",
    [
        "import nemo_gym.launch._preload",
        "import nemo_gym.launch._inline_spawner, nemo_gym.launch.serving",
        "import nemo_gym.rollouts.run.collect, nemo_gym.rollouts.run.discovery",
        "import nemo_gym.server_utils, nemo_gym.launch.inline",
        "import responses_api_models.vllm_model.app, responses_api_agents.simple_agent.app",
        "from nemo_gym.config.loading import load; load(['+policy_base_url=http://127.0.0.1:1', '+policy_api_key=none',"
        " '+policy_model_name=m', '+config_paths=[responses_api_models/vllm_model/configs/vllm_model.yaml]'])",
    ],
)
def test_nothing_heavy_is_loaded_before_it_is_needed(statement: str) -> None:
    program = f"import sys, json; {statement}; print(json.dumps([m for m in {HEAVY} if m in sys.modules]))"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert json.loads(done.stdout) == []
