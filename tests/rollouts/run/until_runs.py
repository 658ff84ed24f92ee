"""Runs with `until`, on agents in memory whose rewards have known means."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from math import inf
from pathlib import Path
from typing import Any

import orjson
from fastapi import FastAPI

from nemo_gym.rollouts.output.journal import Existing
from nemo_gym.rollouts.plan.dataset import DatasetFile
from nemo_gym.rollouts.plan.plan import PlannedAttempt
from nemo_gym.rollouts.run.answer import AttemptResult
from nemo_gym.rollouts.run.collect import collect
from nemo_gym.rollouts.run.discovery import DiscoveredGym
from nemo_gym.rollouts.run.options import RunLimits
from nemo_gym.rollouts.run.settings import CollectSettings
from nemo_gym.rollouts.run.stopping import Stop
from nemo_gym.rollouts.run.summary import CollectSummary
from nemo_gym.transport import InMemoryTransport
from tests.rollouts.doubles import AGENT, failure, scored, write_dataset

OTHER = "other_agent"
_LOST_AT_MOST = 12
_LONG_S = 2.0


def gym_of(*agents: str) -> DiscoveredGym:
    """A gym of agents without model servers."""
    return DiscoveredGym(
        {
            agent: {"responses_api_agents": {"simple": {"host": "127.0.0.1", "port": 1 + number}}}
            for number, agent in enumerate(agents)
        },
        token="the-token",
    )


class RandomAgents:
    """Gives the reward 1 with a probability by task and agent, slower to wrong answers than to right ones."""

    def __init__(
        self,
        means: dict[str, list[float]],
        seed: int = 0,
        *,
        fails: float = 0.0,
        stop_after: int | None = None,
        tokens: int | None = None,
        lost: float = 0.0,
        is_killed: bool = False,
    ) -> None:
        """`tokens`: of an attempt at most. `lost`: the share of attempts whose verifier fails after the answer.

        `is_killed`: the stop loses what is in flight, which is then mostly wrong.
        """
        self._is_killed = is_killed
        self._means, self._fails, self._stop_after = means, fails, stop_after
        self._tokens, self._lost = tokens, lost
        self.spent: list[int] = []
        self._rng = random.Random(seed)
        self.attempts: Counter[tuple[int, int]] = Counter()
        self.stop = Stop()

    async def attempt(self, task: PlannedAttempt) -> AttemptResult:
        self.attempts[task.identity] += 1
        is_right = self._rng.random() < self._means[task.agent][task.identity.task]
        left = inf if self._stop_after is None else self._stop_after - len(self.attempts)
        if self._is_killed:
            await self._be_killed(is_right, left)
        await asyncio.sleep(0 if is_right else 0.0001)
        if left < 0 and not self.stop.requested:
            self.stop.interrupt()
        if self._rng.random() < self._fails:
            return failure(f"down_{len(self.attempts)}")
        usage = self._count_usage(is_right)
        if self._rng.random() < self._lost:
            return scored(task, None, response={"output": [], "usage": usage}, _ng_failure_class="judge_down")
        return scored(task, float(is_right), response={"output": [], "usage": usage})

    async def _be_killed(self, is_right: bool, left: float) -> None:
        """Kill the run at the last attempt. The last wrong answers before it take long."""
        if left < 0:
            self.stop.interrupt()
            self.stop.interrupt()
            await asyncio.Event().wait()
        if left < _LOST_AT_MOST and not is_right:
            await asyncio.sleep(_LONG_S)

    def _count_usage(self, is_right: bool) -> dict[str, int] | None:
        """Return the usage of an answer. Wrong answers are longer."""
        if self._tokens is None:
            return None
        self.spent.append(self._rng.randint(1, self._tokens // 2) + (0 if is_right else self._tokens // 2))
        return {"input_tokens": 1, "output_tokens": self.spent[-1] - 1, "total_tokens": self.spent[-1]}


async def run_until(
    folder: Path, agents: RandomAgents, tasks: int, *, resume: bool = False, repeats: int = 1, **options: Any
) -> CollectSummary:
    """Run until an aim; the output is `out.jsonl`."""
    dataset = folder / "tasks.jsonl"
    if not dataset.exists():
        write_dataset(dataset, tasks)
    names = [AGENT, OTHER] if "differs" in str(options.get("until")) else [AGENT]
    gym = gym_of(*names)
    settings = CollectSettings(
        datasets=(DatasetFile(dataset, repeats),),
        output=folder / "out.jsonl",
        limits=RunLimits(16, drain_s=0.5, first_wait_s=0.001),
        existing=Existing.RESUME if resume else Existing.REFUSE,
        **options,
    )
    transport = InMemoryTransport({f"http://127.0.0.1:{1 + n}": FastAPI() for n in range(len(names))})
    return await collect(settings, gym.caller(transport), gym, stop=agents.stop, attempter=agents)


def read_draws(folder: Path) -> list[dict[str, Any]]:
    """Return the draws of the run, without the line on their kind."""
    return [orjson.loads(line) for line in (folder / "out_draws.jsonl").read_bytes().splitlines()[1:]]
