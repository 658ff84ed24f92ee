"""`num_samples_in_parallel=auto` against an engine that has room for so many requests and no more."""

from __future__ import annotations

from pathlib import Path

from nemo_gym import PARENT_DIR
from nemo_gym.config.loading import load
from nemo_gym.launch.inline import inline
from nemo_gym.mock_engine import EngineOptions
from nemo_gym.mock_engine._distributions import parse_distribution
from nemo_gym.mock_engine.process import EngineProcess
from nemo_gym.rollouts.plan.dataset import DatasetFile
from nemo_gym.rollouts.run.collect import collect
from nemo_gym.rollouts.run.collector import RunLimits
from nemo_gym.rollouts.run.discovery import DiscoveredGym
from nemo_gym.rollouts.run.settings import CollectSettings
from nemo_gym.rollouts.run.summary import CollectSummary

ENVIRONMENT = "example_single_tool_call"
CONFIGS = (
    f"resources_servers/{ENVIRONMENT}/configs/{ENVIRONMENT}.yaml,"
    "responses_api_models/vllm_model/configs/vllm_model.yaml"
)
EXAMPLES = PARENT_DIR / "resources_servers" / ENVIRONMENT / "data" / "example.jsonl"
ROOM = 48


async def run(folder: Path, engine: EngineProcess, repeats: int) -> CollectSummary:
    policy = [f"+policy_base_url={engine.base_url}", "+policy_api_key=none", "+policy_model_name=mock"]
    async with inline(load([f"+config_paths=[{CONFIGS}]", *policy], env_path=None)) as served:
        gym = DiscoveredGym(served.config, served.token, served.transport)
        settings = CollectSettings(
            datasets=(DatasetFile(EXAMPLES, repeats, f"{ENVIRONMENT}_simple_agent"),),
            output=folder / "out.jsonl",
            limits=RunLimits("auto"),
            environment_metrics_max_rows=0,
        )
        return await collect(settings, gym.caller(), gym)


async def test_an_engine_that_turns_calls_away_gets_fewer_of_them(tmp_path: Path) -> None:
    options = EngineOptions(latency_s=parse_distribution(0.1), max_num_seqs=ROOM, max_waiting=0)
    with EngineProcess(options) as engine:
        summary = await run(tmp_path, engine, repeats=100)
    told = summary.to_json()["auto"]
    assert (summary.exit_code, summary.counters.failed) == (0, 0)
    assert told["search"] != "climbing"
    assert 16 <= told["in_parallel"] <= 1.5 * ROOM
    assert told["measured"][0]["in_parallel"] == 32
