"""A gym in which an installed agent, with its ready configuration, plays code_repair."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import pytest
import yaml

from nemo_gym import PARENT_DIR
from nemo_gym.engines.gateway.reading import RecordedRollout
from nemo_gym.engines.record.files import read_record
from nemo_gym.engines.record.store import CAPTURE_DIR_KEY
from nemo_gym.mock_engine import EngineOptions, MockEngine
from nemo_gym.testing.environment import read_rows
from nemo_gym.testing.in_process import InProcessGym
from resources_servers.code_repair.app import CodeRepairResourcesServer
from responses_api_agents.external_agent.app import ExternalAgent
from responses_api_models.vllm_model.app import VLLMModel
from tests.harnesses.policies import RepairPolicy

INSTALLED = PARENT_DIR / ".venvs" / "harnesses"
CONFIGS = PARENT_DIR / "responses_api_agents" / "external_agent" / "configs"
ROW = read_rows(PARENT_DIR / "resources_servers" / "code_repair" / "data" / "example.jsonl")[2]
ENGINE = EngineOptions(model="mock", max_model_len=1_000_000)
OTHER_VENVS = {"langgraph": "mcp1", "smolagents": "mcp1", "mini_swe_agent": "litellm"}
"""Agents that need other versions of `mcp` or `openai`, and the folders of their venvs."""


class Played(NamedTuple):
    """One attempt."""

    row: dict[str, Any]
    """The scored row."""
    record: dict[str, Any]
    """The record of its calls, as the control route answers it."""
    line_bytes: dict[str, int]
    """Call → the size of its line in the record."""


def skip_unless_installed(name: str) -> None:
    """Skip the test with the error of the installation."""
    if not (INSTALLED / "errors" / f"{name}.none").exists():
        error = INSTALLED / "errors" / name
        reason = error.read_text(errors="replace")[-500:] if error.exists() else "run `make test-harnesses`"
        pytest.skip(f"{name} is not installed: {reason}")


def options_of(harness: str) -> dict[str, Any]:
    """Return the options of the ready configuration."""
    folder = INSTALLED / OTHER_VENVS.get(harness, "")
    text = (CONFIGS / f"{harness}.yaml").read_text(encoding="utf-8")
    written = yaml.safe_load(text.replace("${harness_folder}", str(folder)))
    options: dict[str, Any] = written[harness]["responses_api_agents"]["external_agent"]
    del options["entrypoint"]
    options["resources_server"]["name"] = "code_repair"
    return options


async def play(harness: str, records: Path, policy: RepairPolicy, **changed: Any) -> Played:
    """Play one attempt. `changed` options replace those of the configuration."""
    gym = InProcessGym()
    gym.config[CAPTURE_DIR_KEY] = str(records)
    async with MockEngine(ENGINE, policy=policy) as engine:
        model = {"base_url": engine.base_url, "api_key": "none", "model": "mock"}
        gym.add(
            VLLMModel, "policy_model", **model, return_token_id_information=True, uses_reasoning_parser=True
        )
        add_player(gym, harness, **changed)
        row = await gym.run(harness, dict(ROW))
    return Played(row, *record_in(records))


def add_player(gym: InProcessGym, harness: str, **changed: Any) -> None:
    """Add the environment, and the agent with its ready configuration."""
    gym.add(CodeRepairResourcesServer, "code_repair", expose_tools_over_mcp=True)
    gym.add(ExternalAgent, harness, **{**options_of(harness), "timeout_s": 900, **changed})


def record_in(records: Path) -> tuple[dict[str, Any], dict[str, int]]:
    """Return the record of the one rollout in a folder, and the sizes of its lines by call."""
    (folder,) = records.iterdir()
    lines = read_record(folder).lines
    sizes = [len(line) for path in folder.glob("*.jsonl") for line in path.read_bytes().splitlines()]
    names = [line["model_call_id"] for line in lines]
    return RecordedRollout(lines).to_json(), dict(zip(names, sizes, strict=True))
