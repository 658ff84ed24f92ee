"""Generate tasks: solvable FrozenLake maps that are not slippery."""

from __future__ import annotations

import random
from typing import Any

from nemo_gym.datasets.making import generator_options, make_tasks, write_rows
from nemo_gym.rows.compose import compose_task_row
from resources_servers.text_gymnasium.frozen_lake import draw_map, shortest_way

INSTRUCTIONS = (
    "You are crossing a frozen lake, one field a turn. S is where you started, F is ice that holds, H is a hole and G "
    "is your goal. The field that you are on is marked in red. Falling into a hole ends the game; at the goal you have "
    "won. Think briefly, then end your answer with the direction to go, for example <action>down</action>."
)


def make_task(index: int, rng: random.Random) -> dict[str, Any]:
    rows = draw_map(4 + index % 3, rng)
    way = shortest_way(rows)
    assert way is not None, "draw_map returns solvable maps only"
    return compose_task_row(
        [
            {"role": "system", "content": INSTRUCTIONS},
            {"role": "user", "content": "Please bring me across."},
        ],
        row_id=index,
        env_id="FrozenLake-v1",
        env_kwargs={"desc": rows, "is_slippery": False},
        seed=index,
        max_episode_steps=2 * len(way),
    )


def main(arguments: list[str] | None = None) -> None:
    options = generator_options(__doc__, arguments)
    write_rows(make_tasks(make_task, options), options.output)


if __name__ == "__main__":
    main()
