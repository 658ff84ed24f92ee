"""The policy of admission: how many groups may start now, as pure objects.

A bound of staleness limits the groups that are admitted and not consumed to those of `bound + 1` steps: more would be
trained on when they are too old. A group that was filtered, cancelled or has failed gives its place back at once, else
the stream would stand still at the bound.
"""

from __future__ import annotations

from dataclasses import dataclass

from nemo_gym.rollouts.sessions.options import SessionOptions, UsefulOptions


@dataclass(slots=True)
class Capacity:
    """The places for groups between admission and consumption."""

    most: int | None
    """None if only the window bounds them."""
    taken: int = 0

    @classmethod
    def build(cls, options: SessionOptions) -> Capacity:
        """Return the capacity that a session's options allow."""
        bound, step = options.staleness.bound, options.groups_per_step
        return cls(None if bound is None or step is None else (bound + 1) * step - options.reserve)

    def count_free(self) -> int | None:
        """Return the places left; None if there is no limit."""
        return None if self.most is None else self.most - self.taken

    def take(self) -> None:
        assert self.most is None or self.taken < self.most, "a group is admitted beyond the capacity"
        self.taken += 1

    def give_back(self) -> None:
        assert self.taken > 0, "a place is given back twice"
        self.taken -= 1


@dataclass(slots=True)
class SampledStep:
    """Dynamic sampling within one step of the trainer: how many groups were sampled, and were useful."""

    options: UsefulOptions
    useful: int = 0
    sampled: int = 0

    @property
    def is_full(self) -> bool:
        """Whether the step has its useful groups."""
        return self.options.stop_at is not None and self.useful >= self.options.stop_at

    @property
    def is_hopeless(self) -> bool:
        """Whether the ceiling on oversampling is reached without enough useful groups."""
        stop_at = self.options.stop_at
        return (
            stop_at is not None
            and self.useful < stop_at
            and self.sampled >= stop_at * self.options.max_oversampling
        )

    def describe(self) -> str:
        stop_at = self.options.stop_at or 0
        return f"{self.sampled / stop_at:.1f}x sampled, {self.useful} of {stop_at} groups useful"

    def begin(self) -> None:
        """Begin the next step. Useful groups beyond those of the last one count for it."""
        self.useful = max(0, self.useful - (self.options.stop_at or self.useful))
        self.sampled = self.useful
