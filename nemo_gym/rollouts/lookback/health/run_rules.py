"""The rules of groups and whole runs: each yields the places and the faults that it finds."""

from __future__ import annotations

from collections.abc import Iterator
from math import sqrt
from statistics import median
from typing import NamedTuple

from nemo_gym.rollouts.lookback.health.attempts import Attempts, CheckedAttempt

_SHORT = 0.1
_FEWEST_IN_GROUP = 4
_SHORTEST_MEDIAN = 500
_HIGH_CORRELATION = 0.5
_FEWEST_CORRELATED = 100


class Hit(NamedTuple):
    """A place and what is wrong there."""

    text: str
    line: int | None = None
    task: int | None = None
    repeat: int | None = None

    @classmethod
    def from_attempt(cls, attempt: CheckedAttempt, text: str) -> Hit:
        """Return a hit at the row of `attempt`."""
        return cls(text, attempt.line, attempt.task, attempt.repeat)


def duplicate_rollout(attempts: Attempts) -> Iterator[Hit]:
    """A rollout has several rows."""
    for first, *others in attempts.group_by_rollout():
        for attempt in others:
            yield Hit.from_attempt(attempt, f"same rollout as line {first.line}")


def identical_output(attempts: Attempts) -> Iterator[Hit]:
    """The model wrote the same text in several rollouts."""
    for same in attempts.group_by_output():
        for attempt in same[1:]:
            yield Hit.from_attempt(attempt, f"same output as line {same[0].line}")


def rows_without_tokens(attempts: Attempts) -> Iterator[Hit]:
    """Some rows have tokens and others have none."""
    if any(attempt.has_tokens for attempt in attempts):
        yield from (
            Hit.from_attempt(each, "the row has no tokens") for each in attempts if not each.has_tokens
        )


def no_variance(attempts: Attempts) -> Iterator[Hit]:
    """All scored attempts of an agent at a task have the same reward."""
    names = {number: f" by {name}" for name, number in attempts.agents.items()}
    for group in attempts.group_by_task():
        rewards = [attempt.reward for attempt in group if attempt.is_scored]
        if len(rewards) > 1 and min(rewards) == max(rewards):
            agent = names[group[0].agent] if len(names) > 1 else ""
            yield Hit(f"{len(rewards)} rewards of {rewards[0]:g}{agent}", task=group[0].task)


def only_zeros(attempts: Attempts) -> Iterator[Hit]:
    """All rewards of an agent are 0."""
    for agent, verdicts in sorted(attempts.verdicts.items()):
        if described := verdicts.describe():
            yield Hit(f"`{agent}`: {described}")


def short_win(attempts: Attempts) -> Iterator[Hit]:
    """An attempt wins with a tenth of the text that its agent usually takes for the task."""
    for group in attempts.group_by_task():
        scored = [attempt for attempt in group if attempt.is_scored]
        if len(scored) < _FEWEST_IN_GROUP:
            continue
        usual = median(attempt.characters for attempt in scored)
        best = max(attempt.reward for attempt in scored)
        for attempt in scored:
            is_win = attempt.reward == best > 0
            if is_win and usual >= _SHORTEST_MEDIAN and attempt.characters < _SHORT * usual:
                yield Hit.from_attempt(
                    attempt, f"{attempt.characters:,} characters, the median is {usual:,.0f}"
                )


def length_reward(attempts: Attempts) -> Iterator[Hit]:
    """Longer outputs of a task have higher rewards: the correlation within tasks, over the whole run."""
    count, squares_x, squares_y, products = 0, 0.0, 0.0, 0.0
    for group in attempts.group_by_task():
        scored = [attempt for attempt in group if attempt.is_scored]
        if len({attempt.reward for attempt in scored}) < 2:
            continue
        mean_x = sum(attempt.characters for attempt in scored) / len(scored)
        mean_y = sum(attempt.reward for attempt in scored) / len(scored)
        for attempt in scored:
            x, y = attempt.characters - mean_x, attempt.reward - mean_y
            squares_x, squares_y, products = squares_x + x * x, squares_y + y * y, products + x * y
        count += len(scored)
    if count < _FEWEST_CORRELATED or not squares_x or not squares_y:
        return
    correlation = products / sqrt(squares_x) / sqrt(squares_y)
    if correlation > _HIGH_CORRELATION:
        yield Hit(f"correlation {correlation:.2f} over {count:,} rollouts")
