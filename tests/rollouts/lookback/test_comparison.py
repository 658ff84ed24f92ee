"""Two runs of the same tasks, paired by content."""

from __future__ import annotations

from pathlib import Path
from random import Random

import orjson
import pytest

from nemo_gym.failures import InputError
from nemo_gym.rollouts.lookback.comparison import compare, compute_interval
from nemo_gym.rollouts.lookback.ranking import rank_runs
from nemo_gym.rollouts.lookback.run_table import read_run_table
from nemo_gym.rollouts.plan.task_content import task_digest
from tests.rollouts.doubles import task_row
from tests.rollouts.stored_runs import failure_row, rows_of_agents, scored_row, store


def test_tasks_are_paired_and_the_largest_losses_come_first(tmp_path: Path) -> None:
    before = store(
        tmp_path / "a.jsonl",
        [scored_row(0), scored_row(1, reward=0.0), scored_row(2), scored_row(2, 1), scored_row(3)],
        [failure_row(4)],
    )
    after = store(
        tmp_path / "b.jsonl",
        [scored_row(0, reward=0.0), scored_row(1), scored_row(2), scored_row(2, 1, 0.5), scored_row(4)],
        [failure_row(3), failure_row(5)],
    )
    found = compare(before, after)
    assert [(pair.before.index, pair.difference) for pair in found.changed] == [
        (0, -1.0),
        (1, 1.0),
        (2, -0.25),
    ]
    assert found.before == pytest.approx(2 / 3)
    assert found.after == pytest.approx(1.75 / 3)
    assert found.difference == pytest.approx(-0.25 / 3)
    assert [(pair.before.index, pair.before.failed, pair.after.failed) for pair in found.unscored] == [
        (3, 0, 1),
        (4, 1, 0),
    ]
    assert [task.index for task in found.only_after] == [5]
    assert found.only_before == ()
    assert found.pairs[0].before.title == "question 0"


@pytest.mark.parametrize("tasks", [True, False])
def test_another_order_and_another_agent_change_nothing(tmp_path: Path, tasks: bool) -> None:
    first = [scored_row(0, reward=0.0), scored_row(1)]
    before = store(tmp_path / "a.jsonl", first, tasks=tasks)
    swapped = [{**row, "_ng_task_index": 1 - row["_ng_task_index"]} for row in first]
    for row in swapped:
        row["agent_ref"] = {"type": "responses_api_agents", "name": "another"}
    path = store(tmp_path / "b.jsonl", swapped, tasks=False)
    found = compare(before, path)
    assert (len(found.pairs), found.changed) == (2, ())
    assert [(pair.before.index, pair.after.index) for pair in found.pairs] == [(0, 1), (1, 0)]


def test_equal_tasks_are_paired_in_order(tmp_path: Path) -> None:
    params = {"input": "the same"}
    rows = [scored_row(task, reward=task / 2, responses_create_params=params, answer=0) for task in range(3)]
    path = store(tmp_path / "a.jsonl", rows, tasks=False)
    found = compare(path, path)
    assert [(pair.before.index, pair.after.index) for pair in found.pairs] == [(0, 0), (1, 1), (2, 2)]


def test_a_task_s_own_fields_are_its_content_and_those_of_the_run_are_not() -> None:
    task = {"responses_create_params": {"input": "q"}, "answer": 1}
    same = {
        "_ng_task_index": 7,
        "agent_ref": {"name": "a"},
        "answer": 1,
        "responses_create_params": {"input": "q", "temperature": 0.5},
    }
    assert task_digest(task) == task_digest(same)
    assert task_digest(task) != task_digest({**task, "answer": 2})


def wins_of(chance: int) -> bytes:
    """The wins of 4 attempts with a chance of `chance` sixteenths, by 16 random bits."""
    nibbles = [sum(part < chance for part in (value >> 4, value & 15)) for value in range(256)]
    return bytes(nibbles[bits >> 8] + nibbles[bits & 255] for bits in range(65_536))


def test_the_interval_covers_the_true_difference() -> None:
    """10,000 comparisons of 200 tasks with 4 attempts; a task gains -3 to 5 sixteenths, 1 on average."""
    rng, wins = Random(0), [wins_of(chance) for chance in range(17)]
    covered = 0
    for _ in range(10_000):
        differences = []
        for before in rng.choices(range(3, 12), k=200):
            after = before + rng.randint(-3, 5)
            differences.append((wins[after][rng.getrandbits(16)] - wins[before][rng.getrandbits(16)]) / 4)
        interval = compute_interval(differences)
        assert interval is not None
        covered += interval.low <= 1 / 16 <= interval.high
    assert 0.94 <= covered / 10_000 <= 0.96


def test_one_pair_has_no_interval() -> None:
    assert compute_interval([0.5]) is None
    assert compute_interval([]) is None


@pytest.mark.parametrize("params", [3, "text", [1], True, 0.5])
def test_runs_with_odd_requests_are_compared(tmp_path: Path, params: object) -> None:
    path = tmp_path / "out.jsonl"
    row = {"_ng_task_index": 0, "_ng_rollout_index": 0, "reward": 1.0, "responses_create_params": params}
    path.write_bytes(orjson.dumps({**row, "response": {}}) + b"\n")
    assert compare(path, path).difference == 0.0


def test_a_row_of_too_many_levels_is_named(tmp_path: Path) -> None:
    path = tmp_path / "out.jsonl"
    deep = "[" * 300 + "]" * 300
    path.write_text(
        f'{{"_ng_task_index":0,"_ng_rollout_index":0,"reward":1,"responses_create_params":{{"input":{deep}}}}}\n'
    )
    with pytest.raises(InputError, match="a task row cannot be compared"):
        compare(path, path)


A = [[0.0, 1.0], [1.0, 1.0], [0.0, 0.0]]
B = [[1.0, 1.0], [1.0, 0.0], [1.0, 1.0]]


def test_runs_are_compared_over_the_agents_that_both_have(tmp_path: Path) -> None:
    both = store(tmp_path / "both.jsonl", rows_of_agents({"a": A, "b": B}))
    alone = store(tmp_path / "alone.jsonl", rows_of_agents({"a": [[0.0, 0.0], [1.0, 1.0], [1.0, 0.0]]}))
    for before, after, means in ((both, alone, (0.5, 0.5)), (alone, both, (0.5, 0.5))):
        found = compare(before, after)
        assert (found.before, found.after, found.difference) == (*means, 0.0)
        assert (len(found.pairs), found.only_before, found.only_after) == (3, (), ())
        assert (found.agents, found.other_agents) == (("a",), ("b",))


def test_the_pairs_of_several_agents_are_of_one_agent_each_and_clustered_by_task(tmp_path: Path) -> None:
    before = store(tmp_path / "a.jsonl", rows_of_agents({"a": A, "b": B}))
    after = store(tmp_path / "b.jsonl", rows_of_agents({"b": A, "a": B}))
    found = compare(before, after)
    assert len(found.pairs) == 6
    assert all(pair.before.agent == pair.after.agent for pair in found.pairs)
    assert (found.before, found.after, found.difference) == (2 / 3, 2 / 3, 0.0)
    assert found.interval is None, "what one agent gains, the other loses: the tasks have no spread"


def test_runs_of_other_agents_have_nothing_in_common_if_a_task_has_several(tmp_path: Path) -> None:
    both = store(tmp_path / "both.jsonl", rows_of_agents({"a": A, "b": B}))
    other = store(tmp_path / "other.jsonl", rows_of_agents({"c": A}))
    found = compare(both, other)
    assert (found.pairs, found.difference, found.other_agents) == ((), None, ("a", "b"))


def test_environments_with_other_names_are_paired_by_their_tasks(tmp_path: Path) -> None:
    first = store(tmp_path / "a.jsonl", [scored_row(0, agent="x"), scored_row(1, agent="y", reward=0.0)])
    second = store(tmp_path / "b.jsonl", [scored_row(0, agent="v"), scored_row(1, agent="w")])
    found = compare(first, second)
    assert (len(found.pairs), found.difference, found.other_agents) == (2, 0.5, ())


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ([[0.1, 0.2], [0.3, 0.7]], [[0.2, 0.1], [0.7, 0.3]]),
        ([[1 / 3, 2 / 3], [0.0]], [[0.5], [0.0]]),
        ([[0.1], [0.2], [0.3]], [[0.3], [0.1], [0.2]]),
    ],
)
def test_equal_means_differ_by_nothing(
    tmp_path: Path, before: list[list[float]], after: list[list[float]]
) -> None:
    paths = [
        store(tmp_path / f"{name}.jsonl", rows_of_agents({"a": rewards}))
        for name, rewards in (("before", before), ("after", after))
    ]
    assert compare(paths[0], paths[1]).difference == 0.0
    assert compare(paths[1], paths[0]).difference == 0.0


def store_copies(path: Path, rewards: list[float]) -> Path:
    """Store a run of a task with a rollout for each copy, and of another task with the reward 1."""
    store(path, [scored_row(task, reward=reward) for task, reward in enumerate([*rewards, 1.0])])
    inputs = path.with_name(f"{path.stem}_materialized_inputs.jsonl")
    rows = [orjson.loads(line) for line in inputs.read_bytes().splitlines()]
    for row in rows:
        row |= task_row(0 if row["_ng_task_index"] < len(rewards) else 1)
    inputs.write_bytes(b"".join(orjson.dumps(row) + b"\n" for row in rows))
    return path


def test_a_task_with_copies_in_one_run_only_is_one_pair(tmp_path: Path) -> None:
    """By their numbers, the first of four copies would be a pair, and three quarters of the rollouts left out."""
    before = store_copies(tmp_path / "a.jsonl", [0.5])
    after = store_copies(tmp_path / "b.jsonl", [0.0, 1.0, 1.0, 1.0])
    found = compare(before, after)
    assert (len(found.pairs), found.joined, found.only_before, found.only_after) == (2, 1, (), ())
    assert found.difference == pytest.approx((0.75 - 0.5) / 2)
    (pair,) = read_run_table([before, after]).pairs
    assert (pair.difference, pair.tasks) == (found.difference, 2)
    ranking = rank_runs([before, after])
    assert abs(ranking.pairs[0].difference) == pytest.approx(found.difference)
    assert [note for note in ranking.notes if "different numbers of copies: 1;" in note]
    even = compare(after, after)
    assert (len(even.pairs), even.joined) == (5, 0)
