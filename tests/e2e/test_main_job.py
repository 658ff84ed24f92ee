"""The main job with real processes: an engine, the gym's servers, a collection; and with a server killed in between."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from nemo_gym import PARENT_DIR
from nemo_gym.mock_engine import EngineOptions
from nemo_gym.mock_engine._distributions import parse_distribution
from nemo_gym.mock_engine.process import EngineProcess
from tests.e2e.gym_run import GymRun, check_books

pytestmark = pytest.mark.long_file

ENVIRONMENT = "example_session_state_mgmt"
CONFIGS = (
    f"resources_servers/{ENVIRONMENT}/configs/{ENVIRONMENT}.yaml,"
    "responses_api_models/vllm_model/configs/vllm_model.yaml"
)
TASKS, REPEATS = 100, 5


@pytest.fixture
def engine() -> Iterator[EngineProcess]:
    with EngineProcess(EngineOptions(latency_s=parse_distribution("uniform:0.01,0.05"))) as engine:
        yield engine


@pytest.fixture
def run(tmp_path: Path, engine: EngineProcess) -> GymRun:
    examples = PARENT_DIR / f"resources_servers/{ENVIRONMENT}/data/example.jsonl"
    example = json.loads(examples.read_text().splitlines()[0])
    tasks = tmp_path / "tasks.jsonl"
    tasks.write_text("".join(json.dumps({**example, "id": n}) + "\n" for n in range(TASKS)))
    return GymRun(
        tmp_path,
        f"+config_paths=[{CONFIGS}]",
        f"+policy_base_url={engine.base_url}",
        "+policy_api_key=none",
        "+policy_model_name=mock",
        f"+agent_name={ENVIRONMENT}_simple_agent",
        f"+input_jsonl_fpath={tasks}",
        f"+num_repeats={REPEATS}",
        "+num_samples_in_parallel=32",
    )


@pytest.mark.parametrize(
    "killed", [None, ENVIRONMENT, f"{ENVIRONMENT}_simple_agent", "policy_model", "head_server"]
)
def test_every_rollout_is_accounted_for_when_a_server_is_killed(killed: str | None, run: GymRun) -> None:
    with run:
        run.wait_for(50)
        if killed is not None:
            run.kill(killed)
        exit_code, _ = run.finish(120)
    lost = check_books(run, TASKS, REPEATS)
    assert exit_code == (3 if lost else 0), run.errors
    if killed in (None, "head_server"):
        assert not run.failures()
    else:
        assert not lost, "attempts that a restart broke off are made again"
        assert f"died: {killed}" in run.errors
