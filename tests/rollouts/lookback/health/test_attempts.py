from __future__ import annotations

from nemo_gym.rollouts.lookback.health.attempts import Attempts
from nemo_gym.rollouts.lookback.health.rows import CheckedRow
from nemo_gym.rows.identity import RolloutId
from tests.rollouts.lookback.health.healthy_run import message


def attempts_of(*rows: tuple[int, int, float | None, str]) -> Attempts:
    """The attempts with these tasks, repeats, rewards and outputs."""
    attempts = Attempts()
    for line, (task, repeat, reward, text) in enumerate(rows, 1):
        row = {"reward": reward, "response": {"output": [message(text)]}}
        attempts.add(CheckedRow(line, RolloutId(task, repeat), row))
    return attempts


def test_attempts_are_grouped_by_task_in_the_order_of_their_lines() -> None:
    attempts = attempts_of((7, 1, 1.0, "a"), (2, 0, None, "bc"), (7, 0, 0.5, ""))
    groups = list(attempts.group_by_task())
    assert [[(each.line, each.repeat) for each in group] for group in groups] == [[(2, 0)], [(1, 1), (3, 0)]]
    assert [each.is_scored for each in attempts] == [True, False, True]
    assert [each.characters for each in attempts] == [1, 2, 0]
    assert len(attempts) == 3


def test_only_long_outputs_are_grouped() -> None:
    attempts = attempts_of((0, 0, 1, "a" * 200), (1, 0, 1, "a" * 200), (2, 0, 1, "b"), (3, 0, 1, "b"))
    assert [[each.task for each in group] for group in attempts.group_by_output()] == [[0, 1]]
