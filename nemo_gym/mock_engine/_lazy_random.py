"""A random generator that is seeded at its first draw. Seeding costs more than most replies, and most draw nothing."""

from __future__ import annotations

from random import Random


class LazyRandom(Random):
    """`Random` with a seed that takes effect at the first draw."""

    _pending_seed: int | None = None

    def seed_lazily(self, seed: int) -> None:
        self._pending_seed = seed

    def random(self) -> float:
        self._settle()
        return super().random()

    def getrandbits(self, k: int, /) -> int:
        self._settle()
        return super().getrandbits(k)

    def _settle(self) -> None:
        if self._pending_seed is not None:
            seed, self._pending_seed = self._pending_seed, None
            self.seed(seed)
