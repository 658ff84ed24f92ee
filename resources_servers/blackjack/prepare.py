"""Generate tasks: the seeds of winnable hands."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count, islice
from typing import Any

from nemo_gym.datasets.making import generator_options, write_rows
from nemo_gym.rows.compose import compose_task_row
from resources_servers.blackjack.game import best_play

INSTRUCTIONS = (
    "You are playing one hand of blackjack. Each turn shows your hand and the dealer's first card. Think briefly, "
    "then end your answer with <action>hit</action> to take a card or <action>stand</action> to keep your hand. "
    "The dealer draws up to 17. An answer without an action loses the hand."
)


def winnable_seeds(first: int = 0) -> Iterator[int]:
    """Yield the seeds of the hands that can be won."""
    return (seed for seed in count(first) if best_play(seed).reward == 1.0)


def make_task(seed: int) -> dict[str, Any]:
    said = [{"role": "system", "content": INSTRUCTIONS}, {"role": "user", "content": "Deal me in."}]
    return compose_task_row(said, seed=seed)


def main(arguments: list[str] | None = None) -> None:
    options = generator_options(__doc__, arguments)
    seeds = islice(winnable_seeds(options.seed), options.size)
    write_rows(map(make_task, seeds), options.output)


if __name__ == "__main__":
    main()
