import itertools

import pytest

from nemo_gym.failures import InputError
from nemo_gym.metrics._table import RecordTable
from nemo_gym.metrics.records import RolloutRecord


def table_of(*records: RolloutRecord) -> RecordTable:
    table = RecordTable()
    for record in records:
        table.append(record)
    return table


def scored(task: int, rollout: int, attempt: int = 0, **measurements: float) -> RolloutRecord:
    return RolloutRecord(task, rollout, attempt, measurements=measurements)


def failed(task: int, rollout: int, attempt: int = 0, failure: str = "engine:timeout") -> RolloutRecord:
    return RolloutRecord(task, rollout, attempt, outcome="failed", failure=failure, is_scored=False)


def test_tasks_and_rollouts_come_in_order_of_their_indices() -> None:
    table = table_of(scored(2, 1, reward=0.1), scored(1, 0, reward=0.2), scored(2, 0, reward=0.3))
    tasks = list(table.tasks())
    assert [task.task for task in tasks] == [1, 2]
    assert table.values("reward", tasks[1].places) == [0.3, 0.1]


def test_numbers_that_some_records_lack_are_left_out_for_them_alone() -> None:
    table = table_of(scored(0, 0, reward=1.0), scored(0, 1, reward=0.0, bonus=5.0), scored(0, 2, bonus=6.0))
    (task,) = table.tasks()
    assert table.names == ["bonus", "reward"]
    assert table.values("bonus", task.places) == [5.0, 6.0]
    assert [table.rollout(place) for place in table.places_with("reward", task.places)] == [0, 1]
    assert table.places_with("unknown", task.places) == []


def test_extending_aligns_columns_and_leaves_the_other_table_alone() -> None:
    left, right = table_of(scored(0, 0, reward=1.0)), table_of(scored(0, 1, bonus=2.0))
    left.extend(right)
    (task,) = left.tasks()
    assert left.values("reward", task.places) == [1.0]
    assert left.values("bonus", task.places) == [2.0]
    assert (len(left), len(right), right.names) == (2, 1, ["bonus"])


@pytest.mark.parametrize("order", list(itertools.permutations(range(4))))
def test_of_several_attempts_the_scored_one_counts_in_any_order_of_arrival(order: tuple[int, ...]) -> None:
    attempts = [failed(0, 0, 0), scored(0, 0, 1, reward=1.0), failed(0, 1, 0, "a"), failed(0, 1, 1, "b")]
    table = table_of(*(attempts[place] for place in order))
    (task,) = table.tasks()
    assert (len(task.places), table.count_scored(task.places)) == (2, 1)
    assert table.failures() == {"b": 1}
    assert table.values("reward", task.places) == [1.0]


def test_two_scored_records_of_one_rollout_are_refused_by_name() -> None:
    table = table_of(scored(7, 3, reward=1.0), scored(7, 3, attempt=1, reward=1.0))
    with pytest.raises(InputError, match="task 7 has two scored rows for rollout 3"):
        list(table.tasks())
