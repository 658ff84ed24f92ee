"""Forks estimate the value of a turn: a thousand parents in an environment whose values are known.

NEMO_GYM_TEST_SEEDS is the number of parents; each is a task of its own with a seed of its own.
"""

from __future__ import annotations

import math
import os
from collections import defaultdict
from pathlib import Path
from typing import Any

import orjson
import pytest
import yaml

from nemo_gym.config.loading import load
from nemo_gym.launch.inline import inline
from nemo_gym.metrics.estimators import mean
from nemo_gym.mock_engine import EngineOptions, MockEngine
from nemo_gym.rollouts.lookback.fork_values import read_values
from nemo_gym.rollouts.lookback.forks import ForkSettings, find_parents, fork
from nemo_gym.rollouts.lookback.stored import StoredRun
from nemo_gym.rollouts.plan.dataset import DatasetFile
from nemo_gym.rollouts.run.collect import collect
from nemo_gym.rollouts.run.discovery import DiscoveredGym
from nemo_gym.rollouts.run.options import DurabilityOptions
from nemo_gym.rollouts.run.settings import CollectSettings
from tests.chaos.faulty_gym import tell
from tests.chaos.toy_choices import STEPS, CoinPolicy, compute_value

SEEDS = int(os.environ.get("NEMO_GYM_TEST_SEEDS", "1000"))
TURN, FORKS = 2, 8
KEEPS: dict[str, Any] = {"durability": "process", "keep_attempts": "all"}
_APP = """from tests.chaos.toy_choices import ToyChoices

if __name__ == "__main__":
    ToyChoices.run_webserver()
"""
_AGENT = {
    "entrypoint": "app.py",
    "resources_server": {"type": "resources_servers", "name": "toy"},
    "model_server": {"type": "responses_api_models", "name": "policy_model"},
    "max_steps": STEPS,
}


def write_toy(folder: Path) -> list[str]:
    """Write the environment and its tasks as a user's folder, and return what configures the gym."""
    app = folder / "resources_servers" / "toy" / "app.py"
    app.parent.mkdir(parents=True)
    app.write_text(_APP)
    servers = {
        "toy": {"resources_servers": {"toy": {"entrypoint": "app.py"}}},
        "toy_agent": {"responses_api_agents": {"gymnasium_agent": _AGENT}},
    }
    (folder / "toy.yaml").write_text(yaml.safe_dump(servers))
    tasks = (
        {
            "responses_create_params": {
                "input": f"Game {seed}",
                "metadata": {"extra_body": f'{{"seed": {seed}}}'},
            }
        }
        for seed in range(SEEDS)
    )
    (folder / "tasks.jsonl").write_bytes(b"".join(orjson.dumps(task) + b"\n" for task in tasks))
    files = [str(folder / "toy.yaml"), "responses_api_models/vllm_model/configs/vllm_model.yaml"]
    return [
        f"+config_paths=[{','.join(files)}]",
        "+policy_api_key=none",
        "+policy_model_name=mock",
        "++policy_model.responses_api_models.vllm_model.return_token_id_information=true",
    ]


def read_choices(row: dict[str, Any]) -> list[str]:
    return [
        item["content"][0]["text"]
        for item in row["response"]["output"]
        if item.get("type") == "message" and item.get("role") == "assistant"
    ]


def read_rows(path: Path) -> list[dict[str, Any]]:
    return [orjson.loads(line) for line in path.read_bytes().splitlines()]


async def test_forks_estimate_known_values_within_their_intervals(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    given, output, forked = write_toy(tmp_path), tmp_path / "out.jsonl", tmp_path / "forks.jsonl"
    async with (
        MockEngine(EngineOptions(model="mock"), policy=CoinPolicy()) as engine,
        inline(load([*given, f"+policy_base_url={engine.base_url}"], env_path=None)) as served,
    ):
        gym = DiscoveredGym(served.config, served.token, served.transport)
        settings = CollectSettings(
            datasets=(DatasetFile(tmp_path / "tasks.jsonl", 1, "toy_agent"),), output=output, **KEEPS
        )
        collected = await collect(settings, gym.caller(), gym)
        assert collected.exit_code == 0, collected.to_json()
        run = StoredRun(output)
        options = DurabilityOptions(**KEEPS, on_mismatch="fail")
        summary = await fork(
            ForkSettings(TURN, FORKS, forked, options=options),
            run,
            find_parents(run, TURN),
            gym.caller(),
            gym,
        )
        assert summary.exit_code == 0, summary.to_json()
    assert any(note.startswith("mean reward after the shared calls") for note in summary.notes)
    parents = {f"{row['_ng_task_index']}.0@{TURN}": read_choices(row)[:TURN] for row in read_rows(output)}
    forks = read_rows(forked)
    assert all(read_choices(row)[:TURN] == parents[row["_ng_fork"]["group"]] for row in forks)
    values = read_values(forked)
    assert len(values) == SEEDS
    assert len(forks) == SEEDS * FORKS
    covered, by_value = 0, defaultdict[float, list[float]](list)
    for value in values:
        known = compute_value(parents[value.group])
        covered += value.low <= known <= value.high
        by_value[known].append(value.mean)
    tell(
        "forks of known values",
        parents=SEEDS,
        forks=len(forks),
        covered=covered / SEEDS,
        means={known: round(mean(found), 4) for known, found in by_value.items()},
    )
    assert covered >= 0.95 * SEEDS - 3 * math.sqrt(0.05 * 0.95 * SEEDS)
    for known, found in by_value.items():
        error = math.sqrt(known * (1 - known) / (FORKS * len(found)))
        assert abs(mean(found) - known) <= 4 * error
