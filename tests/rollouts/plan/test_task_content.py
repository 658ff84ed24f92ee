"""The content of a task."""

from __future__ import annotations

from typing import Any

import pytest

from nemo_gym.rollouts.plan.plan import plan_attempts
from nemo_gym.rollouts.plan.task_content import request_digest, task_digest
from nemo_gym.rollouts.plan.task_rows import RepeatedTask, TaskShaper, parse_row
from tests.rollouts.doubles import task_row

TASK: dict[str, Any] = {"responses_create_params": {"input": "What?", "temperature": 0.5}, "answer": 1}


@pytest.mark.parametrize(
    ("change", "is_same_task", "is_same_request"),
    [
        ({}, True, True),
        ({"_ng_task_index": 3, "_ng_rollout_index": 1}, True, True),
        ({"agent_ref": {"name": "other"}}, True, True),
        ({"skills_ref": {"path": "/elsewhere"}}, True, True),
        ({"answer": 2}, False, False),
        ({"answer": 1.0}, False, False),
        ({"hint": None}, False, False),
        ({"responses_create_params": {"input": "What?", "temperature": 1}}, True, False),
        ({"responses_create_params": {"temperature": 0.5, "input": "What?"}}, True, True),
        ({"responses_create_params": {"input": "Who?", "temperature": 0.5}}, False, False),
    ],
)
def test_which_fields_make_a_task(change: dict[str, Any], is_same_task: bool, is_same_request: bool) -> None:
    other = {**TASK, **change}
    assert (task_digest(TASK) == task_digest(other)) is is_same_task
    same = request_digest(TASK, has_seed=False) == request_digest(other, has_seed=False)
    assert same is is_same_request


@pytest.mark.parametrize(
    "metadata", [None, {}, {"note": "x"}, {"extra_body": '{"top_k": 5}'}, {"extra_body": "{}"}]
)
def test_a_seed_of_the_run_is_no_part_of_a_request(metadata: dict[str, str] | None) -> None:
    row = task_row(0)
    if metadata is not None:
        row["responses_create_params"]["metadata"] = metadata
    import orjson

    task = TaskShaper(needs_seed=True).shape(orjson.dumps(row))
    seeded = [parse_row(attempt.row) for attempt in plan_attempts(0, [RepeatedTask(task, 2)], add_seed=True)]
    digests = {request_digest(each, has_seed=True) for each in (row, *seeded)}
    assert len(digests) == 1
    assert len({request_digest(each, has_seed=False) for each in seeded}) == 2
