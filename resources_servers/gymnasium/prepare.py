"""Generate tasks: a small sum, and operations on its result in the following turns."""

from __future__ import annotations

import random
from typing import Any

from nemo_gym.datasets.making import generator_options, make_tasks, write_rows
from nemo_gym.rows.compose import compose_task_row


def make_task(index: int, rng: random.Random) -> dict[str, Any]:
    left, right = rng.randint(5, 60), rng.randint(5, 60)
    result = left + right
    follow_ups = []
    for _ in range(rng.randint(1, 3)):
        number = rng.randint(2, 9)
        if rng.random() < 0.5:
            follow_ups.append(f"Now multiply that by {number}.")
            result *= number
        else:
            follow_ups.append(f"Now add {number} to that.")
            result += number
    question = f"What is {left} plus {right}? Answer with the number alone, here and later."
    return compose_task_row(
        [{"role": "user", "content": question}],
        row_id=index,
        follow_ups=follow_ups,
        expected_answer=str(result),
    )


def main(arguments: list[str] | None = None) -> None:
    options = generator_options(__doc__, arguments)
    write_rows(make_tasks(make_task, options), options.output)


if __name__ == "__main__":
    main()
