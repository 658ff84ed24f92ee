"""Runs of a dataset whose rows are copied, with known rewards."""

from __future__ import annotations

import random
from math import sqrt
from pathlib import Path
from statistics import stdev

from fastapi import FastAPI

from nemo_gym.rollouts.plan.dataset import DatasetFile
from nemo_gym.rollouts.plan.plan import PlannedAttempt
from nemo_gym.rollouts.run.answer import AttemptResult
from nemo_gym.rollouts.run.collect import collect
from nemo_gym.rollouts.run.settings import CollectSettings
from nemo_gym.rollouts.run.summary import CollectSummary
from nemo_gym.transport import InMemoryTransport
from tests.rollouts.doubles import AGENT, scored, write_dataset
from tests.rollouts.run.until_runs import gym_of

TASKS, COPIES = 20, 5
T_19 = 2.093
"""The 97.5 % quantile of Student's t with 19 degrees of freedom, from a table."""
_RNG = random.Random(4)
REWARDS = [[float(_RNG.random() < ability) for _ in range(COPIES)] for ability in (0.1, 0.9) * (TASKS // 2)]


class KnownRewards:
    """Gives each rollout of a task its reward of `REWARDS`, whether it is a copy of the row or a repeat of it."""

    def __init__(self, shift: int = 0) -> None:
        self._shift = shift

    async def attempt(self, task: PlannedAttempt) -> AttemptResult:
        copy, number = divmod(task.identity.task, TASKS)
        return scored(task, REWARDS[(number + self._shift) % TASKS][copy + task.identity.repeat])


def write_copies(folder: Path, copies: int) -> Path:
    """Write `TASKS` tasks into one file, one time after the other."""
    folder.mkdir(exist_ok=True)
    path = write_dataset(folder / "tasks.jsonl", TASKS, agent=AGENT)
    path.write_bytes(path.read_bytes() * copies)
    return path


async def run_copies(folder: Path, *, copies: int = 1, repeats: int = 1, shift: int = 0) -> CollectSummary:
    """Collect `TASKS` tasks, each `copies` times in their file and `repeats` times by repeats, into `out.jsonl`."""
    path = write_copies(folder, copies)
    gym = gym_of(AGENT)
    settings = CollectSettings(datasets=(DatasetFile(path, repeats),), output=folder / "out.jsonl")
    caller = gym.caller(InMemoryTransport({"http://127.0.0.1:1": FastAPI()}))
    return await collect(settings, caller, gym, attempter=KnownRewards(shift))


def half_width_of(values: list[float]) -> float:
    """Half the interval of a mean, from the textbook's formula for one value of each of `TASKS` clusters."""
    return T_19 * stdev(values) / sqrt(TASKS)
