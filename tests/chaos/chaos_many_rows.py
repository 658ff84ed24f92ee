"""Runs of many small tasks: memory stays flat, and a run with many rows resumes quickly."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path

import psutil

from nemo_gym.rollouts.output.journal import Existing
from nemo_gym.rollouts.plan.dataset import DatasetFile
from nemo_gym.rollouts.plan.plan import PlannedAttempt
from nemo_gym.rollouts.run.answer import AttemptResult
from nemo_gym.rollouts.run.collect import collect
from nemo_gym.rollouts.run.collector import RunLimits
from nemo_gym.rollouts.run.discovery import DiscoveredGym
from nemo_gym.rollouts.run.settings import CollectSettings
from nemo_gym.rollouts.run.summary import CollectSummary
from nemo_gym.transport import Caller, Directory, InMemoryTransport
from tests.chaos.faulty_gym import tell
from tests.rollouts.doubles import AGENT, scored, write_dataset
from tests.rollouts.killable_run import well

TASKS, RESUMED = 200_000, 100_000
WARM_AT = 20_000
"""Rollouts after which the growth of memory counts."""


class QuickAgent:
    """Answers at once, and notes when it was first asked and how much memory the process then had."""

    def __init__(self) -> None:
        self.asked = 0
        self.first_asked_at = 0.0
        self.warm_bytes = 0
        self.peak_bytes = 0

    async def attempt(self, task: PlannedAttempt) -> AttemptResult:
        if self.asked == 0:
            self.first_asked_at = time.monotonic()
        self.asked += 1
        if self.asked % 1000 == 0:
            self._weigh()
            await asyncio.sleep(0)
        return scored(task, task.identity.task % 2)

    def _weigh(self) -> None:
        weight = psutil.Process().memory_info().rss
        if self.asked == WARM_AT:
            self.warm_bytes = weight
        self.peak_bytes = max(self.peak_bytes, weight)


async def run(settings: CollectSettings, agent: QuickAgent) -> CollectSummary:
    gym = DiscoveredGym({AGENT: {"responses_api_agents": {"simple": {"host": "agent", "port": 1}}}})
    caller = Caller(Directory({AGENT: ["http://agent"]}), InMemoryTransport({"http://agent": well}))
    return await collect(settings, caller, gym, attempter=agent)


def settings_of(folder: Path, tasks: int) -> CollectSettings:
    write_dataset(folder / "tasks.jsonl", tasks)
    return CollectSettings(
        datasets=(DatasetFile(folder / "tasks.jsonl"),),
        output=folder / "out.jsonl",
        limits=RunLimits(in_parallel=64),
        environment_metrics_max_rows=0,
    )


async def test_memory_stays_flat_over_many_small_tasks(tmp_path: Path) -> None:
    agent = QuickAgent()
    started = time.monotonic()
    summary = await run(settings_of(tmp_path, TASKS), agent)
    seconds = time.monotonic() - started
    growth_mb = (agent.peak_bytes - agent.warm_bytes) / 2**20
    tell(
        "many small tasks",
        rollouts=TASKS,
        rows_per_s=round(TASKS / seconds),
        warm_mb=round(agent.warm_bytes / 2**20, 1),
        growth_mb=round(growth_mb, 1),
    )
    assert (summary.exit_code, summary.counters.scored) == (0, TASKS)
    assert growth_mb < 50


async def test_a_run_with_100_000_rows_is_resumed_within_three_seconds(tmp_path: Path) -> None:
    settings = settings_of(tmp_path, RESUMED + 10)
    rows = tmp_path / "out.jsonl"
    assert (await run(settings, QuickAgent())).exit_code == 0
    lines = rows.read_bytes().splitlines(keepends=True)
    rows.write_bytes(b"".join(lines[:RESUMED]))
    agent = QuickAgent()
    started = time.monotonic()
    summary = await run(settings.model_copy(update={"existing": Existing.RESUME}), agent)
    tell(
        "resume",
        finished_before=summary.counters.finished_before,
        first_attempt_after_s=round(agent.first_asked_at - started, 2),
        whole_s=round(time.monotonic() - started, 2),
    )
    assert (summary.counters.finished_before, summary.counters.scored) == (RESUMED, 10)
