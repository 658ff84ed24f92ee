"""A collection through the gym's own agent, environment and model server, in one event loop."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import orjson

from nemo_gym.rollouts.plan.dataset import DatasetFile
from nemo_gym.rollouts.run.collect import collect
from nemo_gym.rollouts.run.collector import RunLimits
from nemo_gym.rollouts.run.discovery import DiscoveredGym
from nemo_gym.rollouts.run.settings import CollectSettings
from nemo_gym.rows.identity import RolloutId, identity_at
from nemo_gym.testing.in_process import InProcessGym
from nemo_gym.transport import Caller, Directory
from responses_api_agents.simple_agent.app import SimpleAgent
from tests.rollouts.doubles import read_rows
from tests.serving.environments import CounterEnvironment, ScriptedModel, call, task_row, text


def gym_answering(turns: list[Any]) -> InProcessGym:
    gym = InProcessGym()
    environment, model = gym.add(CounterEnvironment, "env"), gym.add(ScriptedModel, "policy_model")
    assert isinstance(environment, CounterEnvironment)
    assert isinstance(model, ScriptedModel)
    model.turns = turns
    gym.add(
        SimpleAgent,
        "agent",
        resources_server={"type": "resources_servers", "name": "env"},
        model_server={"type": "responses_api_models", "name": "policy_model"},
    )
    return gym


async def test_rows_of_our_agents_are_kept_and_measured_and_their_failures_name_the_root_cause(
    tmp_path: Path,
) -> None:
    turns = [
        [call("add", '{"amount": 2}')],
        [text("two")],
        {"output": [text("cut")], "incomplete_details": {"reason": "max_output_tokens"}},
        "overflow",
    ]
    gym = gym_answering(turns)
    (tmp_path / "tasks.jsonl").write_bytes(b"".join(orjson.dumps(task_row()) + b"\n" for _ in range(3)))
    settings = CollectSettings(
        datasets=(DatasetFile(tmp_path / "tasks.jsonl", agent_name="agent"),),
        output=tmp_path / "out.jsonl",
        limits=RunLimits(in_parallel=1),
    )
    caller = Caller(Directory.from_config(gym.config), gym.transport)
    summary = await collect(settings, caller, DiscoveredGym(gym.config))
    first, second = read_rows(tmp_path / "out.jsonl")
    (failed,) = read_rows(tmp_path / "out_failures.jsonl")
    assert (first["reward"], first["_ng_outcome"], first["uuid"]) == (2.0, "completed", "row-1")
    assert (second["reward"], second["_ng_outcome"]) == (0.0, "truncated")
    assert failed["_ng_failure_class"] == "engine:context_overflow"
    assert failed["_ng_failure"]["hops"] == ["policy_model", "agent"]
    lines = (tmp_path / "out.jsonl").read_bytes().splitlines()
    assert [identity_at(line) for line in lines] == [RolloutId(task, 0) for task in range(2)]
    (agent,) = summary.agents
    assert (agent.completed, agent.truncated, agent.failed) == (1, 1, 1)
    repeats, above = summary.notes
    assert repeats.startswith("2 of 3 rows repeat the task of an earlier one")
    assert "1 of 2 rewards are above 1" in above
    metrics = orjson.loads((tmp_path / "out_aggregate_metrics.json").read_bytes())[0]["agent_metrics"]
    assert metrics["mean/total_tokens"] > 0
