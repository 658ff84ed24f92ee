"""A stored rollout is verified again: its row keeps what the attempt was, and takes the new verdict."""

from __future__ import annotations

from pathlib import Path

import orjson
import pytest

from nemo_gym.failures import ConfigError
from nemo_gym.rollouts.lookback._reverifier import find_environment, find_task_row, read_modes
from nemo_gym.rollouts.lookback.stored import StoredRun
from nemo_gym.rows.identity import RolloutId
from nemo_gym.rows.models import ReverifyMode
from nemo_gym.testing.in_process import InProcessGym
from tests.resources.test_server import Broken
from tests.rollouts.stored_runs import scored_row, store
from tests.serving.environments import CounterEnvironment, ScriptedModel

CONFIG = {
    "agent": {"responses_api_agents": {"simple": {"resources_server": {"name": "env"}}}},
    "alone": {"responses_api_agents": {"simple": {"port": 1}}},
}


def test_the_environment_of_an_agent_is_its_resources_server() -> None:
    assert find_environment("agent", CONFIG) == "env"
    for agent in ("alone", "unknown"):
        with pytest.raises(ConfigError, match=f"agent `{agent}` has no `resources_server`"):
            find_environment(agent, CONFIG)


async def test_the_mode_is_unknown_without_the_route() -> None:
    gym = InProcessGym()
    gym.add(CounterEnvironment, "env")
    gym.add(Broken, "stateless")
    gym.add(ScriptedModel, "model")
    assert await read_modes(gym.client().caller(), ["stateless", "model", "env", "env"]) == {
        "env": ReverifyMode.UNKNOWN,
        "model": ReverifyMode.UNKNOWN,
        "stateless": ReverifyMode.STATELESS,
    }


def test_a_row_without_its_task_row_loses_the_results_of_its_verifier(tmp_path: Path) -> None:
    path = store(tmp_path / "run.jsonl", [scored_row(3, extracted="old")], tasks=False)
    run = StoredRun(path)
    row = orjson.loads(find_task_row(run, RolloutId(3, 0)))
    run.close()
    assert (row["_ng_task_index"], row["_ng_rollout_index"]) == (3, 0)
    assert row["extracted"] == "old", "a field of unknown origin is kept"
    assert not {"response", "reward", "_ng_outcome"} & row.keys()
