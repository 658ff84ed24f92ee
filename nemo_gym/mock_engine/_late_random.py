"""A random generator that is seeded when it is first drawn from: seeding costs more than most replies, and
most replies draw nothing."""

from __future__ import annotations

from random import Random


class LateRandom(Random):
    """`Random`, with a seed that is only put to use by the first draw."""

    _late_seed: int | None = None

    def seed_late(self, seed: int) -> None:
        self._late_seed = seed

    def random(self) -> float:
        self._settle()
        return super().random()

    def getrandbits(self, k: int, /) -> int:
        self._settle()
        return super().getrandbits(k)

    def _settle(self) -> None:
        if self._late_seed is not None:
            seed, self._late_seed = self._late_seed, None
            self.seed(seed)
