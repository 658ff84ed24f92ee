"""The experiment of `simulation.sessions.measure_busy` with the real session and collector, in virtual time.

    measure_served("ready first, mask", 4)     # within 3 points of measure_busy("ready first, mask", 4).busy

A rollout sleeps, the trainer reads the session's lines, and everything between them is what the head server runs.
"""

from __future__ import annotations

import asyncio
import random
from contextlib import aclosing

import orjson

from nemo_gym.names import ALIVE_KEY, END_KEY, TOKEN_RECORD_KEY
from nemo_gym.rollouts.plan.plan import PlannedAttempt
from nemo_gym.rollouts.plan.task_rows import TaskShaper
from nemo_gym.rollouts.run.answer import AgentAnswer, AttemptResult
from nemo_gym.rollouts.sessions.session import RolloutSession
from nemo_gym.rollouts.sessions.tasks import SubmittedTask
from simulation.sessions import SLOTS, STEP, TRAIN_S, build_options
from simulation.virtual_time import run_virtually

_WAITING = 1024
"""Tasks that wait for their start, so that the session never lacks one."""


class _SleepingAgents:
    """Answers attempts after lognormal seconds, and adds up the time in which they were in flight."""

    def __init__(self, sigma: float, seed: int) -> None:
        self._sigma = sigma
        self._rng = random.Random(seed)
        self.busy_s = 0.0
        self._in_flight = 0
        self._since = 0.0
        self.version = 0
        """The one that the engine samples with."""

    async def attempt(self, task: PlannedAttempt) -> AttemptResult:
        began_with = self.version
        self.count(1)
        try:
            await asyncio.sleep(self._rng.lognormvariate(0.0, self._sigma))
        finally:
            self.count(-1)
        call = {"policy_version": began_with, "policy_version_end": self.version}
        response = {"output": [{TOKEN_RECORD_KEY: call}]}
        row = {**orjson.loads(task.body()), "response": response, "reward": 1.0}
        return AgentAnswer(row, orjson.dumps(row))

    def count(self, change: int) -> None:
        now = asyncio.get_running_loop().time()
        self.busy_s += (now - self._since) * self._in_flight
        self._since = now
        self._in_flight += change


def measure_served(policy: str, bound: int, *, sigma: float = 1.0, steps: int = 200, seed: int = 0) -> float:
    """Return the share of 512 rollouts in flight over `steps` steps of 64 groups of 8."""
    return run_virtually(_serve(policy, bound, _SleepingAgents(sigma, seed), steps))


async def _serve(policy: str, bound: int, agents: _SleepingAgents, steps: int) -> float:
    session = RolloutSession("session", build_options(policy, bound), agents)
    running = asyncio.create_task(session.run())
    lines = session.read(-1, session.reading.begin("trainer", takeover=False))
    async with aclosing(lines):
        for _ in range(steps):
            _feed(session)
            batch: list[int] = []
            while len(batch) < STEP:
                line = orjson.loads(await anext(lines))
                assert END_KEY not in line, line
                if "cancelled" in line:
                    session.consume([line["cursor"]], None, refused=False)
                    _feed(session)
                elif ALIVE_KEY not in line:
                    batch.append(line["cursor"])
            await asyncio.sleep(TRAIN_S)
            session.consume(batch, None, refused=False)
            agents.version += 1
            session.set_version(agents.version)
    agents.count(0)
    busy = agents.busy_s / (asyncio.get_running_loop().time() * SLOTS)
    session.stop()
    await running
    return busy


def _feed(session: RolloutSession) -> None:
    waiting = len(session.book.waiting)
    if waiting < _WAITING // 2:
        first = session.book.next_number
        session.submit([_build_task(number) for number in range(first, first + _WAITING - waiting)])


def _build_task(number: int) -> SubmittedTask:
    row = {
        "responses_create_params": {"input": "?"},
        "agent_ref": {"type": "responses_api_agents", "name": "agent"},
    }
    return SubmittedTask(str(number), 0, "", TaskShaper().shape_row(row))
