"""A stored rollout is verified again: its row keeps what the attempt was, and takes the new verdict."""

from __future__ import annotations

from pathlib import Path

import orjson
import pytest

from nemo_gym.failures import ConfigError
from nemo_gym.json_objects import dump_json, parse_json
from nemo_gym.rollouts.lookback._reverifier import environment_of, read_modes, task_row_of, verified_row
from nemo_gym.rollouts.lookback.stored import StoredRun
from nemo_gym.rollouts.plan.identity import RolloutId
from nemo_gym.rollouts.plan.plan import PlannedAttempt
from nemo_gym.serving.rows import ReverifyMode
from nemo_gym.testing.in_process import InProcessGym
from tests.resources.test_server import Broken
from tests.rollouts.doubles import AGENT
from tests.rollouts.stored_runs import judge_failure_row, scored_row, store
from tests.serving.environments import CounterEnvironment, ScriptedModel

CONFIG = {
    "agent": {"responses_api_agents": {"simple": {"resources_server": {"name": "env"}}}},
    "alone": {"responses_api_agents": {"simple": {"port": 1}}},
}


def test_the_environment_of_an_agent_is_its_resources_server() -> None:
    assert environment_of("agent", CONFIG) == "env"
    for agent in ("alone", "unknown"):
        with pytest.raises(ConfigError, match=f"agent `{agent}` has no `resources_server`"):
            environment_of(agent, CONFIG)


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
    row = orjson.loads(task_row_of(run, RolloutId(3, 0)))
    run.close()
    assert (row["_ng_task_index"], row["_ng_rollout_index"]) == (3, 0)
    assert row["extracted"] == "old", "a field of unknown origin is kept"
    assert not {"response", "reward", "_ng_outcome"} & row.keys()


def test_the_row_of_a_failed_judge_becomes_a_scored_one() -> None:
    stored = judge_failure_row(3)
    task = PlannedAttempt(RolloutId(3, 0), AGENT, orjson.dumps({"answer": 1}))
    row = verified_row(task, stored, {"reward": 0.5, "extracted": "new"}, reward_before=None)
    assert (row["reward"], row["extracted"], row["answer"]) == (0.5, "new", 1)
    assert row["_ng_outcome"] == "completed"
    assert row["_ng_reverified"] == {"reward_before": None}
    assert row["response"] == stored["response"]
    assert not [key for key in row if key.startswith("_ng_failure")]


def test_long_integers_of_a_row_are_kept() -> None:
    stored = {**parse_json(orjson.dumps(judge_failure_row(3))), "_ng_note": 10**30}
    task = PlannedAttempt(RolloutId(3, 0), AGENT, b'{"n":1180591620717411303424}')
    row = verified_row(task, stored, {"reward": 0.5, "count": 1 << 70}, reward_before=None)
    assert (row["n"], row["count"], row["_ng_note"]) == (1 << 70, 1 << 70, 10**30)
    assert b'"count":1180591620717411303424' in dump_json(row)
