"""A disconnecting client cancels all work for it, over real sockets from the collector to the engine."""

from __future__ import annotations

import asyncio
from pathlib import Path

import orjson
import pytest

from nemo_gym.mock_engine import EngineOptions, MockEngine
from nemo_gym.rollouts.plan.dataset import DatasetFile
from nemo_gym.rollouts.run.collect import collect
from nemo_gym.rollouts.run.collector import RunLimits
from nemo_gym.rollouts.run.discovery import DiscoveredGym
from nemo_gym.rollouts.run.settings import CollectSettings
from nemo_gym.rollouts.run.stopping import Stop
from nemo_gym.testing.in_process import InProcessGym
from nemo_gym.transport.upstream_error import UpstreamError
from responses_api_agents.simple_agent.app import SimpleAgent
from responses_api_models.openai_model.app import OpenAIModel
from tests.serving.environments import CounterEnvironment, task_row
from tests.waiting import TIMEOUT_S, until

ATTEMPTS = 100
SILENT = EngineOptions(faults=[{"do": "hang"}])


def gym_on(engine: MockEngine) -> tuple[InProcessGym, CounterEnvironment]:
    gym = InProcessGym()
    environment = gym.add(CounterEnvironment, "env")
    assert isinstance(environment, CounterEnvironment)
    options = {"openai_base_url": engine.base_url, "openai_api_key": "none", "openai_model": "mock"}
    gym.add(OpenAIModel, "policy_model", **options)
    gym.add(
        SimpleAgent,
        "agent",
        resources_server={"type": "resources_servers", "name": "env"},
        model_server={"type": "responses_api_models", "name": "policy_model"},
    )
    return gym, environment


async def test_a_hundred_cancelled_attempts_are_a_hundred_disconnects_at_the_engine() -> None:
    async with MockEngine(SILENT) as engine:
        gym, environment = gym_on(engine)
        async with gym.running(over_http=True):
            client = gym.client()
            attempts = [
                asyncio.create_task(client.post("agent", "/run", json=task_row())) for _ in range(ATTEMPTS)
            ]
            await until(lambda: engine.stats.in_flight == ATTEMPTS)
            assert len(environment.middleware.access.sessions) == ATTEMPTS
            for attempt in attempts:
                attempt.cancel()
            await until(lambda: engine.stats.disconnects == ATTEMPTS)
            assert engine.stats.in_flight == 0
            await until(lambda: len(environment.closed) == ATTEMPTS)
            assert len(environment.middleware.access.sessions) == 0


async def test_a_run_that_is_cut_off_leaves_nothing_running(tmp_path: Path) -> None:
    (tmp_path / "tasks.jsonl").write_bytes(b"".join(orjson.dumps(task_row()) + b"\n" for _ in range(20)))
    stop = Stop()
    async with MockEngine(SILENT) as engine:
        gym, environment = gym_on(engine)
        async with gym.running(over_http=True):
            settings = CollectSettings(
                datasets=(DatasetFile(tmp_path / "tasks.jsonl", agent_name="agent"),),
                output=tmp_path / "out.jsonl",
                limits=RunLimits(in_parallel=20),
            )
            running = asyncio.create_task(
                collect(settings, gym.client().caller(), DiscoveredGym(gym.config), stop=stop)
            )
            await until(lambda: engine.stats.in_flight == 20)
            stop.interrupt()
            stop.interrupt()
            summary = await asyncio.wait_for(running, TIMEOUT_S)
            assert summary.counters.cancelled == 20
            await until(lambda: engine.stats.disconnects == 20)
            await until(lambda: len(environment.middleware.access.sessions) == 0)


async def test_a_passed_deadline_ends_the_engine_s_work_too() -> None:
    async with MockEngine(SILENT) as engine:
        gym, environment = gym_on(engine)
        async with gym.running(over_http=True):
            reply = await gym.client().post(
                "agent", "/run", json=task_row(), headers={"x-ng-deadline": "0.5"}
            )
            with pytest.raises(UpstreamError) as caught:
                reply.raise_for_status()
            assert caught.value.failure is not None
            assert caught.value.failure.code == "rollout_deadline"
            await until(lambda: engine.stats.disconnects == 1)
            assert len(environment.middleware.access.sessions) == 0
