"""Models of task rows."""

from __future__ import annotations

import pytest
from pydantic import BaseModel

from nemo_gym.failures import InputError
from nemo_gym.rows.models import BaseMultiRewardVerifyResponse, read_task
from tests.serving.environments import VERIFY


class Task(BaseModel):
    answer: str
    limits: list[int] = []


def test_the_fields_of_a_task_are_read() -> None:
    assert read_task(Task, {"answer": "4", "limits": [1], "other": True}) == Task(answer="4", limits=[1])


def test_all_problems_of_a_task_are_named_at_once() -> None:
    with pytest.raises(InputError) as caught:
        read_task(Task, {"limits": [1, "many"]})
    failure = caught.value.failure
    assert (failure.code, failure.param) == ("invalid_row", "answer")
    assert "answer: Field required" in failure.message
    assert "limits.1: " in failure.message


def test_a_score_of_several_components_keeps_them() -> None:
    scored = BaseMultiRewardVerifyResponse.model_validate(
        {**VERIFY, "reward": 1.5, "reward_components": {"form": 0.5, "answer": 1.0}}
    )
    assert sum(scored.reward_components.values()) == scored.reward
