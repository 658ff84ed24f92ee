"""A run whose agent dies: it is named at once, and the run ends within its budget, for any number of rollouts."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import orjson
import pytest

from nemo_gym.failures import TransportError
from nemo_gym.rollouts.plan.dataset import DatasetFile
from nemo_gym.rollouts.run.collect import collect
from nemo_gym.rollouts.run.collector import RunLimits
from nemo_gym.rollouts.run.discovery import DiscoveredGym
from nemo_gym.rollouts.run.settings import CollectSettings
from nemo_gym.rows.keys import FAILURE_CLASS_KEY
from nemo_gym.transport import Call, Caller, Directory, Reply, RetryBudget
from tests.rollouts.doubles import AGENT, read_rows, write_dataset
from tests.transport.doubles import reply

BUDGET_S = 1.0
URL = "http://agent"


class DyingAgent:
    """Answers so many rollouts, then refuses every connection."""

    def __init__(self, answers: int) -> None:
        self._answers = answers
        self.refused = 0

    async def send(self, base_url: str, call: Call) -> Reply:
        await asyncio.sleep(0.001)
        if call.method == "GET":
            return reply(200)
        if self._answers == 0:
            self.refused += 1
            raise TransportError(
                f"{URL} refuses the connection", code="connect_refused", retryable=True, peer=URL
            )
        self._answers -= 1
        row: dict[str, Any] = orjson.loads(call.body or b"{}")
        return reply(200, orjson.dumps({**row, "response": {"output": []}, "reward": 1.0}))

    async def close(self) -> None:
        self._answers = 0


@pytest.mark.parametrize(("tasks", "in_parallel"), [(10, 4), (2000, 500)])
async def test_the_run_ends_when_its_budget_is_over(
    tasks: int, in_parallel: int, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    write_dataset(tmp_path / "tasks.jsonl", tasks)
    agent = DyingAgent(answers=5)
    caller = Caller(Directory({AGENT: [URL]}), agent, budget=RetryBudget(seconds=BUDGET_S))
    settings = CollectSettings(
        datasets=(DatasetFile(tmp_path / "tasks.jsonl"),),
        output=tmp_path / "out.jsonl",
        limits=RunLimits(in_parallel=in_parallel),
        environment_metrics_max_rows=0,
    )
    gym = DiscoveredGym({AGENT: {"responses_api_agents": {"simple": {"host": "agent", "port": 1}}}})
    summary = await collect(settings, caller, gym)
    assert summary.exit_code in (1, 3)
    assert summary.counters.scored == 5
    failures = read_rows(tmp_path / "out_failures.jsonl")
    assert {failure[FAILURE_CLASS_KEY] for failure in failures} == {"transport:connect_refused"}
    assert agent.refused < in_parallel + 20, "what was in flight, and a few probes"
    told = [message for message in caplog.messages if URL in message]
    assert 1 <= len(told) <= 3
