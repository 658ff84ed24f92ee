"""Faults at every stage of many rollouts: at the end no session is open, and every effect is accounted for.

`make test` makes 100 rollouts, `make chaos` 1,000.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from pathlib import Path
from typing import Any

from nemo_gym.mock_engine import EngineOptions, MockEngine
from nemo_gym.rollouts.plan.dataset import DatasetFile
from nemo_gym.rollouts.run.collect import collect
from nemo_gym.rollouts.run.collector import RunLimits
from nemo_gym.rollouts.run.discovery import DiscoveredGym
from nemo_gym.rollouts.run.settings import CollectSettings
from nemo_gym.rows.keys import FAILURE_CLASS_KEY
from nemo_gym.testing.faulty_server import FaultyServer
from nemo_gym.testing.in_process import InProcessGym
from responses_api_agents.simple_agent.app import SimpleAgent
from responses_api_models.openai_model.app import OpenAIModel
from tests.chaos.faulty_gym import task, tell, write_tasks
from tests.rollouts.doubles import identities, read_rows
from tests.samples import IS_WHOLE

ROLLOUTS = 1000 if IS_WHOLE else 100
REPEATS = 4
STAGES = ("seed_session", "add", "verify", "close_session")
FAULTS: list[dict[str, Any]] = [
    *(
        {"do": fault, "route": stage, "probability": 0.03}
        for stage in STAGES
        for fault in ("reset_before", "reset_after", "http_503", "short_body")
    ),
    {"do": "http_500", "route": ["seed_session", "verify"], "probability": 0.02},
    {"do": "hang_after", "route": "verify", "probability": 0.01},
    {"do": "broken_json", "route": "verify", "probability": 0.02},
    {"do": "reward_null", "route": "verify", "probability": 0.02},
]
ENGINE_FAULTS = [{"do": fault, "probability": 0.01} for fault in ("http_500", "reset_after", "hang")]


def gym_on(engine: MockEngine, faults: list[dict[str, Any]]) -> InProcessGym:
    gym = InProcessGym()
    gym.add(FaultyServer, "env", faults=faults)
    options = {"openai_base_url": engine.base_url, "openai_api_key": "none", "openai_model": "mock"}
    gym.add(OpenAIModel, "policy_model", **options)
    gym.add(
        SimpleAgent,
        "agent",
        resources_server={"type": "resources_servers", "name": "env"},
        model_server={"type": "responses_api_models", "name": "policy_model"},
    )
    return gym


async def saw_when_quiet(gym: InProcessGym) -> dict[str, Any]:
    """Return the environment's counters after cancelled attempts have closed their sessions."""
    for _ in range(100):
        saw: dict[str, Any] = await (await gym.client().get("env", "/_ng/saw")).json()
        if saw["sessions"]["open"] == 0:
            break
        await asyncio.sleep(0.05)
    return saw


async def test_no_session_stays_open_and_no_failure_has_a_reward(tmp_path: Path) -> None:
    tasks = write_tasks(
        tmp_path / "tasks.jsonl", [task(f"task {number}") for number in range(ROLLOUTS // REPEATS)]
    )
    settings = CollectSettings(
        datasets=(DatasetFile(tasks, agent_name="agent", num_repeats=REPEATS),),
        output=tmp_path / "out.jsonl",
        limits=RunLimits(in_parallel=32, rollout_timeout_s=2.0, first_wait_s=0.02, longest_wait_s=0.1),
        stop_after_identical_failures=0,
        environment_metrics_max_rows=0,
    )
    async with MockEngine(EngineOptions(faults=ENGINE_FAULTS)) as engine:
        gym = gym_on(engine, FAULTS)
        async with gym.running(over_http=True):
            summary = await collect(settings, gym.client().caller(), DiscoveredGym(gym.config))
            saw = await saw_when_quiet(gym)
    rows, failures = read_rows(tmp_path / "out.jsonl"), read_rows(tmp_path / "out_failures.jsonl")
    attempts = len(rows) + len(failures)
    tell(
        "faults at every stage",
        rollouts=ROLLOUTS,
        attempts=attempts,
        faults=sum(saw["faults"].values()),
        sessions=saw["sessions"],
        failures=Counter(failure[FAILURE_CLASS_KEY] for failure in failures),
        lost=summary.counters.failed,
        exit_code=summary.exit_code,
    )
    assert sum(saw["faults"].values()) > ROLLOUTS / 4
    assert saw["sessions"]["open"] == saw["sessions"]["kept"] == 0
    assert len(set(identities(rows))) == len(rows) == ROLLOUTS - summary.counters.failed
    assert all("reward" not in failure for failure in failures)
    assert summary.exit_code == (3 if summary.counters.failed else 0)


async def test_a_tool_is_executed_as_often_as_it_was_called_although_its_answers_are_lost(
    tmp_path: Path,
) -> None:
    """Every tenth answer of the tool is lost after its execution: no call is repeated, and its attempt fails."""
    async with MockEngine() as engine:
        gym = gym_on(engine, [{"do": "reset_after", "route": "add", "every": 10}])
        async with gym.running(over_http=True):
            tasks = write_tasks(
                tmp_path / "tasks.jsonl", [task(f"task {number}") for number in range(ROLLOUTS)]
            )
            settings = CollectSettings(
                datasets=(DatasetFile(tasks, agent_name="agent"),),
                output=tmp_path / "out.jsonl",
                limits=RunLimits(in_parallel=16, first_wait_s=0.02),
                environment_metrics_max_rows=0,
            )
            summary = await collect(settings, gym.client().caller(), DiscoveredGym(gym.config))
            saw = await saw_when_quiet(gym)
    failures = read_rows(tmp_path / "out_failures.jsonl")
    attempts = summary.counters.scored + len(failures)
    tell("lost answers of a tool", attempts=attempts, calls=saw["received"]["add"], executed=saw["executed"]["add"],
         ambiguous=len(failures), lost=summary.counters.failed)  # fmt: skip
    assert saw["executed"]["add"] == saw["received"]["add"] == attempts
    assert {failure[FAILURE_CLASS_KEY] for failure in failures} == {"transport:ambiguous_delivery"}
    assert len(failures) == saw["faults"]["reset_after"] == attempts // 10
    assert saw["sessions"]["open"] == 0
