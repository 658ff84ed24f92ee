"""The plan of a run."""

from __future__ import annotations

import tracemalloc
from pathlib import Path
from typing import Any

import orjson

from nemo_gym.rollouts.plan.dataset import DatasetFile
from nemo_gym.rollouts.plan.plan import Plan, PlanSettings
from nemo_gym.rollouts.plan.routing import Routing
from nemo_gym.rows.identity import FinishedRollouts, RolloutId
from tests.rollouts.doubles import task_row, write_dataset


def plan_of(*files: DatasetFile, **options: Any) -> PlanSettings:
    return PlanSettings(files, **options)


def ids(plan: Plan) -> list[tuple[int, int]]:
    return [attempt.identity for attempt in plan]


def test_repeats_of_a_task_follow_one_another(tmp_path: Path) -> None:
    path = write_dataset(tmp_path / "a.jsonl", 3)
    plan = Plan(plan_of(DatasetFile(path, num_repeats=2)))
    assert ids(plan) == [(0, 0), (0, 1), (1, 0), (1, 1), (2, 0), (2, 1)]
    assert ids(plan) == ids(plan)


def test_what_the_agent_is_sent_is_the_row_led_by_its_identity(tmp_path: Path) -> None:
    path = write_dataset(tmp_path / "a.jsonl", 1)
    (attempt,) = Plan(plan_of(DatasetFile(path)))
    assert attempt.agent == "simple_agent"
    assert orjson.loads(attempt.row) == RolloutId(0, 0).members() | task_row(0)
    body = attempt.again().body()
    assert body.startswith(RolloutId(0, 0).head() + b'"_ng_attempt_index":1,')
    assert orjson.loads(body) == {**orjson.loads(attempt.row), "_ng_attempt_index": 1}


def test_a_task_keeps_its_number_whatever_is_left_out_before_it(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_bytes(b"\n".join([orjson.dumps(task_row(0)), b"", b"{broken", orjson.dumps(task_row(2))]))
    assert ids(Plan(plan_of(DatasetFile(path)))) == [(0, 0), (2, 0)]


def test_the_limit_is_for_each_file_and_files_are_numbered_through(tmp_path: Path) -> None:
    first = DatasetFile(write_dataset(tmp_path / "a.jsonl", 5))
    second = DatasetFile(write_dataset(tmp_path / "b.jsonl", 5), num_repeats=2)
    plan = Plan(plan_of(first, second, limit=2), numbers=(range(2), range(2, 4)))
    assert ids(plan) == [(0, 0), (1, 0), (2, 0), (2, 1), (3, 0), (3, 1)]


def test_finished_rollouts_are_not_planned_again(tmp_path: Path) -> None:
    finished = FinishedRollouts()
    for identity in (RolloutId(0, 0), RolloutId(0, 1), RolloutId(1, 1)):
        finished.add(identity)
    path = write_dataset(tmp_path / "a.jsonl", 3)
    plan = Plan(plan_of(DatasetFile(path, num_repeats=2)), finished=finished)
    assert ids(plan) == [(1, 0), (2, 0), (2, 1)]


def test_each_repeat_has_its_own_seed_when_asked(tmp_path: Path) -> None:
    path = write_dataset(tmp_path / "a.jsonl", 1)
    attempts = list(Plan(plan_of(DatasetFile(path, num_repeats=3), add_seed=True)))
    metadata = [orjson.loads(attempt.row)["responses_create_params"]["metadata"] for attempt in attempts]
    assert [orjson.loads(each["extra_body"])["seed"] for each in metadata] == [0, 1, 2]


def peak_memory(path: Path, rows: int) -> int:
    plan = Plan(plan_of(DatasetFile(write_dataset(path, rows), num_repeats=2)))
    tracemalloc.start()
    try:
        assert sum(1 for _ in plan) == 2 * rows
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def test_a_plan_takes_the_memory_of_one_row_however_long_the_dataset(tmp_path: Path) -> None:
    small, large = peak_memory(tmp_path / "small.jsonl", 100), peak_memory(tmp_path / "large.jsonl", 10_000)
    assert large < small + 100_000


def test_interleaved_repeats_go_round_by_round(tmp_path: Path) -> None:
    path = write_dataset(tmp_path / "a.jsonl", 3)
    settings = plan_of(DatasetFile(path, num_repeats=2), interleave_repeats=True)
    assert ids(Plan(settings)) == [(0, 0), (1, 0), (2, 0), (0, 1), (1, 1), (2, 1)]
    assert ids(Plan(settings.sort_by_identity())) == sorted(ids(Plan(settings)))


def test_the_tasks_that_took_longest_come_first(tmp_path: Path) -> None:
    finished = FinishedRollouts()
    finished.add(RolloutId(1, 0))
    path = write_dataset(tmp_path / "a.jsonl", 4)
    plan = Plan(plan_of(DatasetFile(path, num_repeats=2)), finished=finished, durations={1: 2.0, 3: 9.0})
    assert ids(plan) == [(3, 0), (3, 1), (1, 1), (0, 0), (0, 1), (2, 0), (2, 1)]


def test_fan_out_numbers_the_rollouts_of_its_agents_in_turn(tmp_path: Path) -> None:
    path = write_dataset(tmp_path / "a.jsonl", 1)
    routing = Routing(fan_out={"simple_agent": ["a", "b"]}, num_repeats={"a": 2, "b": 1})
    attempts = list(Plan(plan_of(DatasetFile(path), routing=routing, add_seed=True)))
    assert [(attempt.agent, attempt.identity.repeat) for attempt in attempts] == [
        ("a", 0),
        ("b", 1),
        ("a", 2),
    ]
    rows = [orjson.loads(attempt.row) for attempt in attempts]
    assert [row["agent_ref"]["name"] for row in rows] == ["a", "b", "a"]
    seeds = [orjson.loads(row["responses_create_params"]["metadata"]["extra_body"])["seed"] for row in rows]
    assert seeds == [0, 0, 1]


def test_every_row_names_the_skills_of_the_run(tmp_path: Path) -> None:
    path = write_dataset(tmp_path / "a.jsonl", 1)
    (attempt,) = Plan(plan_of(DatasetFile(path), skills_ref={"path": "skills", "hash": "1"}))
    assert orjson.loads(attempt.row)["skills_ref"] == {"path": "skills", "hash": "1"}
