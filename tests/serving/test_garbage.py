"""Garbage collection while a gym serves."""

from __future__ import annotations

import gc
import subprocess
import sys
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from nemo_gym.mock_engine import EngineOptions
from nemo_gym.mock_engine.process import EngineProcess
from nemo_gym.serving.garbage import collected_rarely
from nemo_gym.testing.in_process import InProcessGym
from nemo_gym.transport.pools import process_transport
from perf.episodes import EPISODES
from resources_servers.example_single_tool_call.app import ExampleSingleToolCallResourcesServer
from responses_api_agents.simple_agent.app import SimpleAgent
from responses_api_models.vllm_model.app import VLLMModel

ROW = EPISODES["tool-calling"].row


def test_it_is_collected_rarely_within_the_block_and_as_before_after_it() -> None:
    before = gc.get_threshold()
    with collected_rarely():
        assert gc.get_threshold()[0] > before[0]
        assert gc.get_freeze_count() > 0
        assert gc.isenabled()
    assert gc.get_threshold() == before
    assert gc.get_freeze_count() == 0


def test_nothing_is_collected_at_the_exit() -> None:
    program = """
from nemo_gym.serving.garbage import collected_rarely

class Node:
    def __del__(self):
        print("collected")

with collected_rarely():
    node = Node()
    node.itself = node
    del node
print("exit")
"""
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert ended.stdout == "exit\n"


@pytest.mark.parametrize("over_http", [False, True], ids=["inline", "over sockets"])
async def test_a_rollout_leaves_nothing_for_the_collector(over_http: bool) -> None:
    gym = InProcessGym()
    gym.add(ExampleSingleToolCallResourcesServer, "weather")
    with EngineProcess(EngineOptions()) as engine:
        gym.add(VLLMModel, "policy_model", base_url=engine.base_url, api_key="none", model="mock")
        references = {
            "resources_server": {"type": "resources_servers", "name": "weather"},
            "model_server": {"type": "responses_api_models", "name": "policy_model"},
        }
        gym.add(SimpleAgent, "agent", **references)
        async with gym.running(over_http=over_http):
            assert (await gym.run("agent", ROW))["reward"] == 1.0  # connections and caches come up once
            assert await garbage_of(20, lambda: gym.run("agent", ROW)) < 20, "less than one object a rollout"
            assert await garbage_of(20, lambda: leaving_a_cycle(gym)) >= 20, "it would have been seen"
            await process_transport().close()


async def leaving_a_cycle(gym: InProcessGym) -> Any:
    cycle: list[Any] = []
    cycle.append(cycle)
    return await gym.run("agent", ROW)


async def garbage_of(rollouts: int, play: Callable[[], Awaitable[Any]]) -> int:
    """Count the objects of some rollouts that only the cyclic collector can free."""
    gc.collect()
    gc.disable()
    try:
        for _ in range(rollouts):
            assert (await play())["reward"] == 1.0
        return gc.collect()
    finally:
        gc.enable()
