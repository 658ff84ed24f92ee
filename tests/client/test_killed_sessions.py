"""Sessions whose trainer, or whose head server, is killed again and again: no group is lost, and none is trained twice.

`tests/chaos` does the same with two hundred kills.

A trainer that is killed goes on from its last checkpoint: its own progress, and the session's state of the same moment.
"""

from __future__ import annotations

import random
from collections import Counter
from contextlib import aclosing, suppress
from dataclasses import dataclass, field
from typing import Any

from nemo_gym.client import AsyncGym, GymAddress
from nemo_gym.client._session import AsyncRolloutSession, RolloutSessionOptions
from nemo_gym.failures import GymError
from tests.client.gyms import TOKEN, LoopbackGym, rows, running_gym

TASKS, ROUNDS, KILLS = 10, 4, 30
_FEW: RolloutSessionOptions = {
    "group_size": 1,
    "num_samples_in_parallel": 2,
    "max_unconsumed_groups": 2,
    "grace_s": 60.0,
}
"""So few in flight that little work is lost at a kill."""


class KilledError(Exception):
    """The trainer is killed at this moment."""


@dataclass
class Checkpoint:
    """The stored state of a trainer."""

    state: dict[str, Any] | None = None
    trained: Counter[tuple[str, int]] = field(default_factory=Counter)
    submitted: int = 0
    """Rounds that are submitted."""


@dataclass
class Trainer:
    """Trains on one group after another, with a checkpoint after each, and is killed at random moments."""

    gym: LoopbackGym
    rng: random.Random
    stored: Checkpoint = field(default_factory=Checkpoint)
    most_kills: int = KILLS
    kills: Counter[str] = field(default_factory=Counter)

    async def risk(self, probability: float = 0.4) -> None:
        """Kill the trainer or the head's sessions, perhaps."""
        if self.kills.total() >= self.most_kills or self.rng.random() > probability:
            return
        if self.rng.random() < 0.5:
            self.kills["trainer"] += 1
            raise KilledError
        self.kills["head"] += 1
        await self.gym.head._sessions.stop()

    async def run(self) -> None:
        while True:
            session = AsyncRolloutSession(AsyncGym(GymAddress(self.gym.url, TOKEN)), _FEW)
            try:
                await session.open(self.stored.state)
                await self.train(session)
                return
            except KilledError:
                pass
            finally:
                with suppress(
                    GymError
                ):  # a process that was killed closes nothing; `grace_s` would end the session
                    await session.close()

    async def train(self, session: AsyncRolloutSession) -> None:
        while self.stored.submitted < ROUNDS:
            number = self.stored.submitted
            await session.submit(
                rows(TASKS),
                keys=[f"{each}" for each in range(TASKS)],
                round=number,
                ends=number == ROUNDS - 1,
            )
            await self.risk()
            await self.store(session, submitted=number + 1)
        async with aclosing(session.groups()) as groups:
            async for group in groups:
                await self.risk()
                await session.consumed(group)
                await self.risk()
                await self.store(session, trained=(group.key, group.round))
                await self.risk()

    async def store(self, session: AsyncRolloutSession, **progress: Any) -> None:
        state = await session.state()
        stored = self.stored
        trained = stored.trained + Counter([progress["trained"]] if "trained" in progress else [])
        self.stored = Checkpoint(state, trained, progress.get("submitted", stored.submitted))


async def play_kills(count: int, seed: int) -> None:
    """Train through `count` kills, and check what was trained on."""
    async with running_gym() as gym:
        trainer = Trainer(gym, random.Random(seed), most_kills=count)
        await trainer.run()
    assert trainer.kills.total() == count, trainer.kills
    assert min(trainer.kills.values()) > count // 4
    wanted = Counter({(f"{key}", number): 1 for key in range(TASKS) for number in range(ROUNDS)})
    assert trainer.stored.trained == wanted


async def test_no_group_is_lost_or_trained_twice() -> None:
    await play_kills(KILLS, seed=7)
